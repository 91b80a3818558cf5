/*
 * Events: subscribe, have the server raise some, and wait for the last one.
 *
 *   events ENDPOINT          the server is server.c
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <witrpc.h>

#define STEPS 3

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int last_step;

/* Runs on the client's callback thread, one event after the other. */
static void on_progress(void *user_data, const witrpc_buffer *arguments) {
  int step = atoi(witrpc_buffer_text(arguments) + 1);
  (void)user_data;
  printf("step %d\n", step);
  pthread_mutex_lock(&lock);
  last_step = step;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv) {
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_service *echo = NULL;
  witrpc_subscription *progress = NULL;
  witrpc_error *error = NULL;
  int failed = 1;

  if (witrpc_client_options_new(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100", &options, &error) ||
      witrpc_client_options_reconnect_fleet(options) || /* a subscription outlives reconnections */
      witrpc_client_new(options, &client, &error) ||
      witrpc_client_service(client, "Demo.IEcho", &echo, &error) ||
      witrpc_service_subscribe(echo, "event Action<int> Progress", on_progress, NULL, NULL,
                               &progress, &error) ||
      witrpc_client_connect(client, &error) ||
      witrpc_service_call(echo, "void Work(int steps)", "[3]", NULL, NULL, &error))
    goto end;

  pthread_mutex_lock(&lock);
  while (last_step < STEPS) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  failed = 0;

end:
  if (error) fprintf(stderr, "%s: %s\n", witrpc_error_name(error), witrpc_error_message(error));
  witrpc_error_free(error);
  witrpc_subscription_free(progress);
  witrpc_service_free(echo);
  witrpc_client_free(client);
  witrpc_client_options_free(options);
  return failed;
}
