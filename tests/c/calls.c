/* Calls, completions, events and servers through the C ABI. */
#include "fixture.h"

static void a_call_gives_its_result(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  int sum = 0;
  CHECK(witrpc_client_state(client) == WITRPC_CONNECTED);
  CHECK(add(service, 2, 3, &sum) == WITRPC_OK);
  CHECK(sum == 5);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void errors_say_what_happened(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  witrpc_error *error = NULL;
  CHECK(witrpc_service_call(service, "void Fail()", "[]", NULL, NULL, &error) == WITRPC_REMOTE);
  CHECK(witrpc_error_code(error) == WITRPC_REMOTE);
  CHECK(text_is(witrpc_error_name(error), "remote"));
  CHECK(text_is(witrpc_error_message(error), "Failed to process request"));
  CHECK(text_is(witrpc_error_details(error), "on purpose"));
  CHECK(witrpc_error_outcome(error) == WITRPC_ANSWERED);
  CHECK(witrpc_error_attempts(error) == 1);
  CHECK(!witrpc_error_retryable(error));
  witrpc_error_free(error);
  CHECK(witrpc_service_call(service, "void Forget()", "[]", NULL, NULL, &error) == WITRPC_REMOTE);
  CHECK(text_is(witrpc_error_details(error), "The handler gave no answer"));
  witrpc_error_free(error);
  CHECK(witrpc_service_call(service, "void Nope()", "[]", NULL, NULL, &error) ==
        WITRPC_BAD_REQUEST);
  witrpc_error_free(error);
  CHECK(witrpc_service_call(service, "int Add(int,int)", "[1,\"x\"]", NULL, NULL, &error) ==
        WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "argument 2"));
  CHECK(witrpc_error_outcome(error) == WITRPC_NOT_SENT);
  witrpc_error_free(error);
  CHECK(witrpc_service_call(service, "int Add(", "[]", NULL, NULL, &error) ==
        WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "int Add("));
  witrpc_error_free(error);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void a_time_limit_ends_a_call(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  witrpc_call_options *options = NULL;
  witrpc_error *error = NULL;
  int before = counter_get(&holding);
  witrpc_call_options_new(&options);
  CHECK(witrpc_call_options_timeout_ms(options, 50) == WITRPC_OK);
  CHECK(witrpc_service_call(service, "int Hold()", "[]", options, NULL, &error) == WITRPC_TIMEOUT);
  CHECK(witrpc_error_outcome(error) == WITRPC_UNKNOWN);
  counter_wait(&holding, before + 1);
  CHECK(witrpc_request_reply(atomic_load(&held), "1", NULL) == WITRPC_OK);
  witrpc_error_free(error);
  witrpc_call_options_free(options);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

typedef struct {
  counter done, gone;
  int status, sum;
  witrpc_buffer *kept;
  witrpc_call *call;
  pthread_t thread;
} ending;

#define ENDING_INIT                                                                                \
  { COUNTER_INIT, COUNTER_INIT, -1, 0, NULL, NULL, 0 }

static void ended(void *user_data, int32_t status, const witrpc_buffer *result,
                  const witrpc_error *error) {
  ending *e = user_data;
  e->status = status;
  e->thread = pthread_self();
  if (result) {
    e->sum = atoi(witrpc_buffer_text(result));
    e->kept = witrpc_buffer_retain(result);
  }
  if ((status == WITRPC_OK) != (error == NULL)) e->status = -2;
  counter_add(&e->done, 1);
}

static void ending_gone(void *user_data) { counter_add(&((ending *)user_data)->gone, 1); }

static void a_completion_is_called_once_on_another_thread_and_then_destroyed(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  static ending e = ENDING_INIT;
  CHECK(witrpc_service_start(service, "int Add(int,int)", "[40,2]", NULL, ended, &e, ending_gone,
                             &e.call, NULL) == WITRPC_OK);
  counter_wait(&e.gone, 1);
  CHECK(e.status == WITRPC_OK && e.sum == 42);
  CHECK(!pthread_equal(e.thread, pthread_self()));
  CHECK(counter_get(&e.done) == 1 && counter_get(&e.gone) == 1);
  CHECK(text_is(witrpc_buffer_text(e.kept), "42"));
  witrpc_buffer_free(e.kept);
  CHECK(witrpc_call_cancel(e.call) == WITRPC_OK);
  witrpc_call_free(e.call);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void a_cancelled_call_ends_at_once(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  static ending e = ENDING_INIT;
  int before = counter_get(&holding);
  witrpc_service_start(service, "int Hold()", "[]", NULL, ended, &e, ending_gone, &e.call, NULL);
  counter_wait(&holding, before + 1);
  CHECK(witrpc_call_cancel(e.call) == WITRPC_OK);
  counter_wait(&e.gone, 1);
  CHECK(e.status == WITRPC_CANCELLED);
  witrpc_request_free(atomic_load(&held));
  witrpc_call_free(e.call);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void closing_ends_calls_under_way(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  static ending e = ENDING_INIT;
  int before = counter_get(&holding);
  witrpc_service_start(service, "int Hold()", "[]", NULL, ended, &e, ending_gone, NULL, NULL);
  counter_wait(&holding, before + 1);
  CHECK(witrpc_client_close_and_wait(client, 10000) == WITRPC_OK);
  CHECK(e.status == WITRPC_CLOSED);
  counter_wait(&e.gone, 1);
  int sum = 0;
  CHECK(add(service, 1, 1, &sum) == WITRPC_CLOSED);
  CHECK(witrpc_client_connect(client, NULL) == WITRPC_CLOSED);
  witrpc_request_free(atomic_load(&held));
  witrpc_client_free(client);
  witrpc_service_free(service);
}

static counter events = COUNTER_INIT, events_gone = COUNTER_INIT;
static int out_of_order;

static void progress(void *user_data, const witrpc_buffer *arguments) {
  int n = -1;
  (void)user_data;
  sscanf(witrpc_buffer_text(arguments), "[%d]", &n);
  if (n != counter_get(&events) % 5) out_of_order = 1;
  counter_add(&events, 1);
}

static void events_come_in_order_until_the_subscription_ends(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  witrpc_subscription *subscription = NULL;
  CHECK(witrpc_service_subscribe(service, "event Action<int> Progress", progress, &events_gone,
                                 destroyed, &subscription, NULL) == WITRPC_OK);
  CHECK(witrpc_service_call(service, "void Raise()", "[]", NULL, NULL, NULL) == WITRPC_OK);
  counter_wait(&events, 5);
  CHECK(witrpc_server_raise(server, "Demo.ITest", "event Action<int> Progress", "[0]", NULL) ==
        WITRPC_OK);
  counter_wait(&events, 6);
  CHECK(!out_of_order);
  CHECK(witrpc_subscription_dropped(subscription) == 0);
  witrpc_subscription_free(subscription);
  counter_wait(&events_gone, 1);
  CHECK(witrpc_service_call(service, "void Raise()", "[]", NULL, NULL, NULL) == WITRPC_OK);
  witrpc_service_free(service);
  witrpc_client_free(client);
  CHECK(counter_get(&events) == 6);
}

static void blobs_travel_as_they_are(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  witrpc_bytes arguments[2] = { { (const uint8_t *)"7", 1 }, { (const uint8_t *)"8", 1 } };
  witrpc_buffer *result = NULL;
  CHECK(witrpc_service_call_encoded(service, "int Add(int,int)", 16, arguments, 2, NULL, &result,
                                    NULL) == WITRPC_OK);
  CHECK(witrpc_buffer_size(result) == 2 && memcmp(witrpc_buffer_data(result), "15", 2) == 0);
  CHECK(witrpc_buffer_text(result) == NULL);
  witrpc_buffer_free(result);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void an_invocation_id_of_ones_own_is_recognised(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  witrpc_call_options *options = NULL;
  const uint8_t id[16] = { 1, 2, 3 };
  int before = atomic_load(&executions);
  witrpc_call_options_new(&options);
  witrpc_call_options_invocation_id(options, id);
  for (int i = 0; i < 3; i++) {
    witrpc_buffer *result = NULL;
    CHECK(witrpc_service_call(service, "int Add(int,int)", "[1,1]", options, &result, NULL) == 0);
    CHECK(text_is(witrpc_buffer_text(result), "2"));
    witrpc_buffer_free(result);
  }
  CHECK(atomic_load(&executions) == before + 1);
  witrpc_server_stats stats = WITRPC_SERVER_STATS_INIT;
  CHECK(witrpc_server_stats_get(server, &stats) == WITRPC_OK && stats.replayed >= 2);
  CHECK(witrpc_service_call(service, "int Add(int,int)", "[1,2]", options, NULL, NULL) ==
        WITRPC_BAD_REQUEST);
  witrpc_call_options_free(options);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void *many_calls(void *argument) {
  witrpc_service *service = argument;
  for (int i = 0; i < 200; i++) {
    int sum = 0;
    if (add(service, i, 1, &sum) != WITRPC_OK || sum != i + 1) return argument;
  }
  return NULL;
}

static void many_threads_share_a_client(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, many_calls, service);
  for (int i = 0; i < 8; i++) {
    void *broken = NULL;
    pthread_join(threads[i], &broken);
    CHECK(broken == NULL);
  }
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void a_token_is_checked(void) {
  /* The fixture's server takes only the empty token. */
  witrpc_client_options *options = quick_options();
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  witrpc_client_options_token(options, "wrong");
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_connect(client, &error) == WITRPC_UNAUTHORIZED);
  CHECK(witrpc_client_state(client) == WITRPC_FAILED);
  witrpc_error_free(error);
  witrpc_client_free(client);
}

static void stopping_a_server_lets_it_finish(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  static ending e = ENDING_INIT;
  int before = counter_get(&holding);
  witrpc_service_start(service, "int Hold()", "[]", NULL, ended, &e, ending_gone, NULL, NULL);
  counter_wait(&holding, before + 1);
  CHECK(witrpc_server_stop(server, 50) == WITRPC_TIMEOUT);
  kill_server();
  restart_server();
  CHECK(witrpc_client_wait_state(client, WITRPC_CONNECTED, 20000) == WITRPC_OK);
  counter_wait(&e.gone, 1);
  CHECK(e.status == WITRPC_TRANSPORT);
  witrpc_request_free(atomic_load(&held));
  CHECK(witrpc_server_stop(server, 20000) == WITRPC_OK);
  witrpc_server_stats stats = WITRPC_SERVER_STATS_INIT;
  CHECK(witrpc_server_stats_get(server, &stats) == WITRPC_CLOSED);
  kill_server();
  restart_server();
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void shutdown_ends_everything(void) { CHECK(witrpc_shutdown(20000) == WITRPC_OK); }

int main(void) {
  watchdog(300);
  CHECK(WITRPC_CHECK_ABI());
  start_server("tcp://127.0.0.1:0");
  RUN(a_call_gives_its_result);
  RUN(errors_say_what_happened);
  RUN(a_time_limit_ends_a_call);
  RUN(a_completion_is_called_once_on_another_thread_and_then_destroyed);
  RUN(a_cancelled_call_ends_at_once);
  RUN(closing_ends_calls_under_way);
  RUN(events_come_in_order_until_the_subscription_ends);
  RUN(blobs_travel_as_they_are);
  RUN(an_invocation_id_of_ones_own_is_recognised);
  RUN(many_threads_share_a_client);
  RUN(a_token_is_checked);
  RUN(stopping_a_server_lets_it_finish);
  kill_server();
  RUN(shutdown_ends_everything);
  return summary();
}
