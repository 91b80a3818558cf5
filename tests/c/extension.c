/* What two libwitrpc peers do beyond WitRPC: cancellation, remaining time, trace context, pings, a
 * stop that costs no call.
 */
#include "fixture.h"

static void impatient(witrpc_server_options *options) {
  witrpc_server_options_ping(options, 200, 400);
  witrpc_server_options_retry_after_ms(options, 1234);
  witrpc_server_options_strangers(options, 100000, 500);
  witrpc_server_options_max_clients_per_address(options, 50);
  witrpc_server_options_max_waiting_bytes(options, 1 << 20);
  witrpc_server_options_min_rate(options, 240, 5000);
}

typedef struct {
  counter done;
  int status;
} ending;

static void ended(void *user_data, int32_t status, const witrpc_buffer *result,
                  const witrpc_error *error) {
  ending *e = user_data;
  (void)result, (void)error;
  e->status = status;
  counter_add(&e->done, 1);
}

static void a_cancelled_call_is_seen_by_its_handler(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  static ending e = { COUNTER_INIT, -1 };
  witrpc_call *call = NULL;
  int before = counter_get(&holding);
  witrpc_service_start(service, "int Hold()", "[]", NULL, ended, &e, NULL, &call, NULL);
  counter_wait(&holding, before + 1);
  witrpc_request *request = atomic_load(&held);
  CHECK(!witrpc_request_is_cancelled(request));
  CHECK(witrpc_request_wait_cancelled(request, 10) == WITRPC_TIMEOUT);
  CHECK(witrpc_call_cancel(call) == WITRPC_OK);
  CHECK(witrpc_request_wait_cancelled(request, 20000) == WITRPC_OK);
  CHECK(witrpc_request_is_cancelled(request));
  CHECK(witrpc_request_wait_cancelled(request, WITRPC_NO_TIMEOUT) == WITRPC_OK);
  counter_wait(&e.done, 1);
  CHECK(e.status == WITRPC_CANCELLED);
  witrpc_request_fail(request, "cancelled", NULL);
  witrpc_call_free(call);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void a_handler_knows_the_remaining_time_and_the_trace_context(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  witrpc_call_options *options = NULL;
  static ending e = { COUNTER_INIT, -1 };
  const char *parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  int before = counter_get(&holding);
  witrpc_call_options_new(&options);
  witrpc_call_options_timeout_ms(options, 60000);
  CHECK(witrpc_call_options_trace_context(options, parent) == WITRPC_OK);
  witrpc_service_start(service, "int Hold()", "[]", options, ended, &e, NULL, NULL, NULL);
  counter_wait(&holding, before + 1);
  witrpc_request *request = atomic_load(&held);
  size_t size = 0;
  const uint8_t *context = witrpc_request_trace_context(request, &size);
  NEED(context != NULL && size == strlen(parent));
  CHECK(memcmp(context, parent, size) == 0);
  uint64_t remaining = witrpc_request_remaining_ms(request);
  CHECK(remaining > 20000 && remaining <= 60000);
  witrpc_request_reply(request, "7", NULL);
  counter_wait(&e.done, 1);
  CHECK(e.status == WITRPC_OK);

  char too_long[1025];
  memset(too_long, 'x', sizeof too_long);
  CHECK(witrpc_call_options_trace_context_n(options, too_long, 1025) == WITRPC_INVALID_ARGUMENT);
  CHECK(witrpc_call_options_trace_context_n(options, too_long, 1024) == WITRPC_OK);
  witrpc_call_options_free(options);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void the_round_trip_is_known(void) {
  witrpc_client_options *options = quick_options();
  witrpc_client *client = NULL;
  witrpc_client_stats stats = WITRPC_CLIENT_STATS_INIT;
  CHECK(witrpc_client_options_ping(options, 100, 20000) == WITRPC_OK);
  witrpc_client_new(options, &client, NULL);
  witrpc_client_stats_get(client, &stats);
  CHECK(stats.round_trip_us == -1 && stats.silence_ms == -1);
  witrpc_client_connect(client, NULL);
  do witrpc_client_stats_get(client, &stats);
  while (stats.round_trip_us < 0);
  CHECK(stats.round_trip_us < 20000000);
  CHECK(stats.silence_ms >= 0 && stats.silence_ms < 20000);
  witrpc_client_free(client);
  witrpc_client_options_free(options);

  /* Without pings there is none. */
  options = quick_options();
  witrpc_client_options_ping(options, WITRPC_NO_TIMEOUT, 1);
  client = connected(options);
  witrpc_service *service = service_of(client);
  int sum = 0;
  CHECK(add(service, 2, 3, &sum) == WITRPC_OK && sum == 5);
  witrpc_client_stats_get(client, &stats);
  CHECK(stats.round_trip_us == -1 && stats.silence_ms >= 0);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void *stop_it(void *unused) {
  (void)unused;
  CHECK(witrpc_server_stop(server, 20000) == WITRPC_OK);
  return NULL;
}

static void a_server_that_stops_in_order_costs_no_call(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  static ending e = { COUNTER_INIT, -1 };
  int before = counter_get(&holding), sum = 0;
  witrpc_service_start(service, "int Hold()", "[]", NULL, ended, &e, NULL, NULL, NULL);
  counter_wait(&holding, before + 1);
  pthread_t stopping;
  pthread_create(&stopping, NULL, stop_it, NULL);
  CHECK(witrpc_client_wait_state(client, WITRPC_RECONNECTING, 20000) == WITRPC_OK);
  /* The old server still answers what it has begun. */
  witrpc_request_reply(atomic_load(&held), "7", NULL);
  counter_wait(&e.done, 1);
  CHECK(e.status == WITRPC_OK);
  pthread_join(stopping, NULL);
  kill_server();
  restart_server();
  CHECK(add(service, 2, 3, &sum) == WITRPC_OK && sum == 5);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void shutdown_ends_everything(void) { CHECK(witrpc_shutdown(20000) == WITRPC_OK); }

int main(void) {
  watchdog(300);
  configure = impatient;
  start_server("tcp://127.0.0.1:0");
  RUN(a_cancelled_call_is_seen_by_its_handler);
  RUN(a_handler_knows_the_remaining_time_and_the_trace_context);
  RUN(the_round_trip_is_known);
  RUN(a_server_that_stops_in_order_costs_no_call);
  kill_server();
  RUN(shutdown_ends_everything);
  return summary();
}
