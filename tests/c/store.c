/* Calls of durable methods, kept in a Redis that two servers share (at WITRPC_TEST_REDIS). */
#include "fixture.h"

static const char *url;
/* Keys of this run. */
static char prefix[32];
/* A journal, too. */
static int both;
static counter destroys = COUNTER_INIT;

/* Starts a server of "Add" and "Hold" with this store; gives the status. */
static int start(const char *store, const char *durable, witrpc_server **out,
                 witrpc_error **error) {
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *options = NULL;
  witrpc_implementation_new("Demo.ITest", &implementation, NULL);
  witrpc_implementation_handle(implementation, "int Add(int a, int b)", handle_add, NULL, NULL,
                               NULL);
  witrpc_implementation_handle(implementation, "int Hold()", handle_hold, &destroys, destroyed,
                               NULL);
  witrpc_implementation_durable(implementation, durable, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, implementation);
  witrpc_implementation_free(implementation);
  if (store) {
    CHECK(witrpc_server_options_redis(options, store) == WITRPC_OK);
    CHECK(witrpc_server_options_redis_prefix(options, prefix) == WITRPC_OK);
    CHECK(witrpc_server_options_redis_times(options, 0, 60000, 0, 1000) == WITRPC_OK);
    CHECK(witrpc_server_options_redis_trust(options, 0, true) == WITRPC_OK);
  }
  if (both) witrpc_server_options_journal(options, "/nowhere");
  int status = witrpc_server_start(options, out, error);
  witrpc_server_options_free(options);
  return status;
}

static void a_server_that_can_not_keep_calls_does_not_start(void) {
  witrpc_server *none = NULL;
  witrpc_error *error = NULL;
  CHECK(start(NULL, "Add", &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "no store"));
  witrpc_error_free(error), error = NULL;
  CHECK(start("redis://127.0.0.1:1", "Add", &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "Redis"));
  witrpc_error_free(error), error = NULL;
  CHECK(start("http://127.0.0.1:1", "Add", &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "URL"));
  witrpc_error_free(error), error = NULL;
  CHECK(start("redis://127.0.0.1:1", "Nothing", &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "Nothing"));
  witrpc_error_free(error);
  both = 1;
  error = NULL;
  CHECK(start("redis://127.0.0.1:1", "Add", &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "one of them"));
  witrpc_error_free(error);
  both = 0;
  CHECK(none == NULL);
  counter_wait(&destroys, 5);
}

static witrpc_service *asked_at(witrpc_server *where, witrpc_client **client) {
  witrpc_buffer *text = NULL;
  witrpc_client_options *options = NULL;
  witrpc_server_endpoint(where, 0, &text);
  witrpc_client_options_new(witrpc_buffer_text(text), &options, NULL);
  witrpc_buffer_free(text);
  *client = connected(options);
  return service_of(*client);
}

static void two_servers_execute_a_call_once(void) {
  witrpc_server *servers[2] = { NULL, NULL };
  witrpc_client *clients[2];
  witrpc_service *services[2];
  witrpc_call_options *options = NULL;
  uint8_t id[16] = { 7 };
  witrpc_call_options_new(&options);
  witrpc_call_options_invocation_id(options, id);
  atomic_store(&executions, 0);
  for (int i = 0; i < 2; i++) {
    NEED(start(url, "Add", &servers[i], NULL) == WITRPC_OK);
    services[i] = asked_at(servers[i], &clients[i]);
  }
  for (int i = 0; i < 2; i++) {
    witrpc_buffer *sum = NULL;
    CHECK(witrpc_service_call(services[i], "int Add(int,int)", "[2,3]", options, &sum, NULL) ==
          WITRPC_OK);
    CHECK(text_is(witrpc_buffer_text(sum), "5"));
    witrpc_buffer_free(sum);
  }
  CHECK(atomic_load(&executions) == 1);
  witrpc_redis_stats stats;
  stats.struct_size = sizeof stats;
  CHECK(witrpc_server_redis_stats(servers[1], &stats) == WITRPC_OK);
  CHECK(stats.struct_size == sizeof stats);
  CHECK(stats.replayed == 1 && stats.is_connected == 1 && stats.connections == 1);
  CHECK(stats.leases == 0 && stats.refused == 0);
  CHECK(witrpc_server_redis_stats(servers[1], NULL) == WITRPC_INVALID_ARGUMENT);
  witrpc_call_options_free(options);
  for (int i = 0; i < 2; i++) {
    witrpc_service_free(services[i]);
    witrpc_client_free(clients[i]);
    CHECK(witrpc_server_stop(servers[i], 5000) == WITRPC_OK);
    witrpc_server_free(servers[i]);
  }
}

static void a_server_without_a_store_has_no_figures_of_one(void) {
  witrpc_redis_stats stats;
  stats.struct_size = sizeof stats;
  start_server("tcp://127.0.0.1:0");
  CHECK(witrpc_server_redis_stats(server, &stats) == WITRPC_INVALID_ARGUMENT);
  kill_server();
}

int main(void) {
  watchdog(120);
  snprintf(prefix, sizeof prefix, "c-test-%d:", (int)getpid());
  url = getenv("WITRPC_TEST_REDIS");
  RUN(a_server_that_can_not_keep_calls_does_not_start);
  RUN(a_server_without_a_store_has_no_figures_of_one);
  if (url) {
    RUN(two_servers_execute_a_call_once);
  } else {
    printf("skipped two_servers_execute_a_call_once: no redis-server and no valkey-server\n");
  }
  CHECK(witrpc_shutdown(20000) == WITRPC_OK);
  return summary();
}
