/*
 * A client that survives outages: what happens when the connection is cut in the middle of a call,
 * when the server dies and comes back, and when it stays away.
 *
 *   outage ENDPOINT [deduplicated|idempotent]
 *
 * The server must serve Demo.IEcho (`witrpc serve --demo`) and close the connection after the first
 * call (`--close-after 1`). Lines that begin with "cue:" tell whoever watches to kill the server
 * process and to start it again; `make demo` does.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <witrpc.h>

/* What the callbacks tell the main thread. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int reconnecting, reconnected, failed, retries;
} seen = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0 };

static struct timespec start;

static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
}

#define SAY(...) (printf("%6.2f s  ", seconds()), printf(__VA_ARGS__), printf("\n"), fflush(stdout))

static void count(int *what) {
  pthread_mutex_lock(&seen.lock);
  ++*what;
  pthread_cond_broadcast(&seen.changed);
  pthread_mutex_unlock(&seen.lock);
}

static void wait_for(int *what, int times) {
  pthread_mutex_lock(&seen.lock);
  while (*what < times) pthread_cond_wait(&seen.changed, &seen.lock);
  pthread_mutex_unlock(&seen.lock);
}

/* The callbacks. They run one after the other on a thread of the library's own. */

static void on_reconnecting(void *user_data, uint32_t attempt, uint64_t delay_ms) {
  (void)user_data;
  SAY("  on_reconnecting: attempt %u in %u ms", (unsigned)attempt, (unsigned)delay_ms);
  count(&seen.reconnecting);
}

static void on_reconnected(void *user_data) {
  (void)user_data;
  SAY("  on_reconnected");
  count(&seen.reconnected);
}

static void on_reconnection_failed(void *user_data, const witrpc_error *error) {
  const char *details = witrpc_error_details(error);
  (void)user_data;
  SAY("  on_reconnection_failed: %s: %s", witrpc_error_message(error), details ? details : "");
  count(&seen.failed);
}

static void on_retry(void *user_data, const witrpc_retry_info *info) {
  (void)user_data;
  SAY("  on_retry: attempt %u of %s failed (%s), the next one in %u ms", (unsigned)info->attempt,
      info->method, witrpc_error_message(info->error), (unsigned)info->delay_ms);
  count(&seen.retries);
}

/* Calls a method and gives its result as a number; -1 if it failed. */
static int call(witrpc_service *service, const char *method, const char *arguments) {
  witrpc_buffer *result = NULL;
  witrpc_error *error = NULL;
  int number = -1;
  if (witrpc_service_call(service, method, arguments, NULL, &result, &error) == WITRPC_OK) {
    number = atoi(witrpc_buffer_text(result));
  } else {
    SAY("  %s ended as \"%s\": %s", method, witrpc_error_name(error), witrpc_error_message(error));
  }
  witrpc_buffer_free(result);
  witrpc_error_free(error);
  return number;
}

static void fatal(const char *what, witrpc_error *error) {
  const char *details = witrpc_error_details(error);
  fprintf(stderr, "%s: %s: %s\n", what, witrpc_error_message(error), details ? details : "");
  exit(1);
}

int main(int argc, char **argv) {
  const char *endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5100";
  int idempotent = argc > 2 && strcmp(argv[2], "idempotent") == 0;
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_service *echo = NULL;
  witrpc_error *error = NULL;
  timespec_get(&start, TIME_UTC);

  /* Reconnect after 0.2, 0.4, 0.8 ... s; give up after six attempts. */
  if (witrpc_client_options_new(endpoint, &options, &error) != WITRPC_OK) fatal("options", error);
  witrpc_client_options_reconnect_delays(options, 200, 1000, 2.0);
  witrpc_client_options_reconnect_max_attempts(options, 6);

  /* Retry CountUp, which must not run twice: only where the server recognises the repetition. */
  if (idempotent) {
    witrpc_client_options_mark_idempotent(options, "CountUp");
  } else {
    witrpc_client_options_mark_deduplicated(options, "CountUp");
  }

  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  callbacks.on_reconnecting = on_reconnecting;
  callbacks.on_reconnected = on_reconnected;
  callbacks.on_reconnection_failed = on_reconnection_failed;
  callbacks.on_retry = on_retry;
  witrpc_client_options_callbacks(options, &callbacks);

  if (witrpc_client_new(options, &client, &error) != WITRPC_OK) fatal("client", error);
  witrpc_client_options_free(options);
  if (witrpc_client_connect(client, &error) != WITRPC_OK) fatal("connect", error);
  if (witrpc_client_service(client, "Demo.IEcho", &echo, &error) != WITRPC_OK)
    fatal("service", error);
  SAY("connected to %s", endpoint);

  printf("\nAct 1: the connection is cut in the middle of a call\n");
  SAY("calling CountUp(1), marked %s", idempotent ? "idempotent" : "deduplicated");
  int answer = call(echo, "int CountUp(int by)", "[1]");
  if (answer >= 0) SAY("CountUp(1) answered %d", answer);
  wait_for(&seen.reconnected, 1);
  int executions = call(echo, "int Count()", "[]");
  SAY("the server counted %d execution%s", executions, executions == 1 ? "" : "s");

  printf("\nAct 2: the server process dies and comes back\n");
  int attempts_before = seen.reconnecting;
  printf("cue: kill the server\n");
  fflush(stdout);
  wait_for(&seen.reconnecting, attempts_before + 2);
  SAY("calling Add(2, 3) now: it waits for the link");
  printf("cue: start the server\n");
  fflush(stdout);
  int sum = call(echo, "int Add(int a, int b)", "[2, 3]");
  if (sum >= 0) SAY("Add(2, 3) answered %d", sum);

  printf("\nAct 3: the server dies and stays away\n");
  printf("cue: kill the server\n");
  fflush(stdout);
  wait_for(&seen.failed, 1);
  int state = witrpc_client_state(client);
  SAY("the state is %s", state == WITRPC_FAILED ? "Failed" : "not Failed");
  int refused = call(echo, "int Add(int a, int b)", "[2, 3]");

  printf("\nsummary: cut: answered %d, executed %d, retries %d | death: Add answered %d |"
         " gone: %s, later call %s\n",
         answer, executions, seen.retries, sum, state == WITRPC_FAILED ? "Failed" : "?",
         refused < 0 ? "refused" : "answered");
  witrpc_service_free(echo);
  witrpc_client_free(client);
  return 0;
}
