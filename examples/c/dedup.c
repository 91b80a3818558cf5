/*
 * De-duplication: a call that must not run twice is given an id and made again, as a program does
 * that has crashed before it knew the answer. The server recognises it, and answers from its
 * memory.
 *
 *   dedup ENDPOINT          the server is server.c
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <witrpc.h>

/* A client of its own each time, as after a crash. Gives the result, -1 if it failed. */
static int count_up(const char *endpoint, const uint8_t id[16]) {
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_service *echo = NULL;
  witrpc_call_options *call = NULL;
  witrpc_buffer *result = NULL;
  witrpc_error *error = NULL;
  int count = -1;

  if (witrpc_client_options_new(endpoint, &options, &error) ||
      witrpc_client_options_reconnect(options) || /* 1, 2, 4 ... s between attempts */
      witrpc_client_options_retry(options) ||     /* retries only what is declared */
      witrpc_client_new(options, &client, &error) || witrpc_client_connect(client, &error) ||
      witrpc_client_service(client, "Demo.IEcho", &echo, &error) ||
      witrpc_call_options_new(&call) || witrpc_call_options_deduplicated(call) ||
      witrpc_call_options_invocation_id(call, id) ||
      witrpc_service_call(echo, "int CountUp(int by)", "[1]", call, &result, &error)) {
    /* The outcome says whether it may have run. */
    static const char *const outcomes[] = { "it did not run", "it may have run",
                                            "the server said so" };
    int outcome = witrpc_error_outcome(error);
    fprintf(stderr, "%s: %s\n", witrpc_error_message(error), outcome < 0 ? "" : outcomes[outcome]);
  } else {
    count = atoi(witrpc_buffer_text(result));
  }
  witrpc_error_free(error);
  witrpc_buffer_free(result);
  witrpc_call_options_free(call);
  witrpc_service_free(echo);
  witrpc_client_free(client);
  witrpc_client_options_free(options);
  return count;
}

int main(int argc, char **argv) {
  const char *endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5100";
  /* Made once for each thing to be done, and kept with it: here from the system's random device. */
  uint8_t id[16];
  FILE *random = fopen("/dev/urandom", "rb");
  if (!random || fread(id, sizeof id, 1, random) != 1) return 1;
  fclose(random);
  int first = count_up(endpoint, id), again = count_up(endpoint, id);
  id[0] ^= 1;
  int other = count_up(endpoint, id);
  printf("counted %d, with the same id again %d, with another one %d\n", first, again, other);
  return first >= 0 && again == first && other == first + 1 ? 0 : 1;
}
