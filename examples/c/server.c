/*
 * A server of a contract that C# would write as
 *
 *   namespace Demo;
 *   public interface IEcho {
 *     int Add(int a, int b);
 *     int CountUp(int by);               // what it counts, it counts once for each call
 *     void Work(int steps);              // raises Progress for each step
 *     event Action<int> Progress;
 *   }
 *
 *   server ENDPOINT [TOKEN]    with a token it encrypts, and lets in only who has the token
 *
 * It prints where it listens, and ends in order at SIGINT and SIGTERM.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <witrpc.h>

static int counted;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

/* Handlers run on several threads at once. Each owns its request and must end it. */

static void add(void *user_data, witrpc_request *request) {
  int a = 0, b = 0;
  char result[16];
  (void)user_data;
  /* The library has checked that the arguments are what the line says. */
  sscanf(witrpc_request_arguments(request), "[%d,%d]", &a, &b);
  snprintf(result, sizeof result, "%d", (int)((unsigned)a + (unsigned)b));
  witrpc_request_reply(request, result, NULL);
}

static void count_up(void *user_data, witrpc_request *request) {
  char result[16];
  (void)user_data;
  pthread_mutex_lock(&counting);
  counted += atoi(witrpc_request_arguments(request) + 1);
  snprintf(result, sizeof result, "%d", counted);
  pthread_mutex_unlock(&counting);
  witrpc_request_reply(request, result, NULL);
}

static void work(void *user_data, witrpc_request *request) {
  int steps = atoi(witrpc_request_arguments(request) + 1);
  (void)user_data;
  if (steps < 0) {
    witrpc_request_fail(request, "steps must not be negative", NULL);
    return;
  }
  for (int step = 1; step <= steps; step++) {
    char arguments[16];
    snprintf(arguments, sizeof arguments, "[%d]", step);
    witrpc_request_raise(request, "event Action<int> Progress", arguments, NULL);
  }
  witrpc_request_reply(request, NULL, NULL);
}

int main(int argc, char **argv) {
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *options = NULL;
  witrpc_server *server = NULL;
  witrpc_buffer *endpoint = NULL;
  witrpc_error *error = NULL;
  sigset_t ends;
  int got = 0;

  /* Before the library starts threads, so that none of them gets the signals. */
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);

  if (witrpc_implementation_new("Demo.IEcho", &implementation, &error) ||
      witrpc_implementation_handle(implementation, "int Add(int a, int b)", add, NULL, NULL,
                                   &error) ||
      witrpc_implementation_handle(implementation, "int CountUp(int by)", count_up, NULL, NULL,
                                   &error) ||
      witrpc_implementation_handle(implementation, "void Work(int steps)", work, NULL, NULL,
                                   &error) ||
      witrpc_server_options_new(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100", &options, &error) ||
      witrpc_server_options_serve(options, implementation))
    goto end;
  if (argc > 2) {
    witrpc_server_options_encryption(options, true);
    witrpc_server_options_token(options, argv[2]);
  }
  if (witrpc_server_start(options, &server, &error)) goto end;

  witrpc_server_endpoint(server, 0, &endpoint);
  printf("listening %s\n", witrpc_buffer_text(endpoint));
  fflush(stdout);
  sigwait(&ends, &got);
  /* What runs may finish. */
  if (witrpc_server_stop(server, 10000) != WITRPC_OK) fprintf(stderr, "calls were abandoned\n");

end:
  if (error) {
    const char *details = witrpc_error_details(error);
    fprintf(stderr, "%s: %s\n", witrpc_error_message(error), details ? details : "");
  }
  witrpc_error_free(error);
  witrpc_buffer_free(endpoint);
  witrpc_server_free(server);
  witrpc_server_options_free(options);
  witrpc_implementation_free(implementation);
  return got ? 0 : 1;
}
