/* What embeds the library into a program: callbacks on its own loop, health reports, clients by
 * name, the log. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>

#include "fixture.h"

static pthread_t loop_thread;
static int elsewhere, states, completions, destroys;

static void here(void) {
  if (!pthread_equal(pthread_self(), loop_thread)) elsewhere++;
}

static void on_state(void *user_data, int32_t state) {
  (void)user_data, (void)state;
  here();
  states++;
}

static void on_end(void *user_data, int32_t status, const witrpc_buffer *result,
                   const witrpc_error *error) {
  witrpc_loop *loop = user_data;
  (void)error;
  here();
  CHECK(status == WITRPC_OK && text_is(witrpc_buffer_text(result), "3"));
  CHECK(witrpc_dispatch(loop, 0, 0, NULL) == WITRPC_WOULD_DEADLOCK);
  completions++;
}

static void on_destroy(void *user_data) {
  (void)user_data;
  here();
  destroys++;
}

static void on_done(void *user_data, int32_t status, const witrpc_error *error) {
  (void)error;
  here();
  *(int *)user_data = status + 1;
}

static int events_here;

static void on_event(void *user_data, const witrpc_buffer *arguments) {
  (void)user_data, (void)arguments;
  here();
  events_here++;
}

/* Polls and dispatches until a number is reached; the watchdog ends it otherwise. */
static void turn_until(witrpc_loop *loop, const int *what, int value) {
  struct pollfd ready = { witrpc_loop_descriptor(loop), POLLIN, 0 };
  while (*what < value)
    if (poll(&ready, 1, -1) == 1) CHECK(witrpc_dispatch(loop, 0, 0, NULL) == WITRPC_OK);
}

static int is_readable(witrpc_loop *loop) {
  struct pollfd ready = { witrpc_loop_descriptor(loop), POLLIN, 0 };
  return poll(&ready, 1, 0) == 1;
}

static void callbacks_run_where_the_loop_is(void) {
  witrpc_loop *loop = NULL;
  witrpc_client *client = NULL;
  witrpc_subscription *subscription = NULL;
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  witrpc_client_options *options = quick_options();
  int connect_status = 0;
  size_t count = 9;
  loop_thread = pthread_self();
  NEED(witrpc_loop_new(&loop, NULL) == WITRPC_OK);
  CHECK(witrpc_loop_descriptor(loop) >= 0 && !is_readable(loop));
  CHECK(witrpc_dispatch(loop, 0, 0, &count) == WITRPC_OK && count == 0);
  CHECK(witrpc_dispatch(loop, 1, 0, &count) == WITRPC_OK && count == 0);
  CHECK(witrpc_client_options_loop(options, loop) == WITRPC_OK);
  callbacks.on_state_changed = on_state;
  callbacks.destroy = on_destroy;
  CHECK(witrpc_client_options_callbacks(options, &callbacks) == WITRPC_OK);
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  witrpc_client_connect_start(client, on_done, &connect_status, NULL, NULL);
  turn_until(loop, &connect_status, 1);
  CHECK(connect_status == WITRPC_OK + 1 && states == 1);
  witrpc_service *service = service_of(client);
  witrpc_service_subscribe(service, "event Action<int> Progress", on_event, NULL, on_destroy,
                           &subscription, NULL);
  witrpc_service_start(service, "int Add(int,int)", "[1,2]", NULL, on_end, loop, on_destroy, NULL,
                       NULL);
  turn_until(loop, &completions, 1);
  turn_until(loop, &destroys, 1);
  /* A blocking call on the loop's thread works, and leaves the events for later. */
  CHECK(witrpc_service_call(service, "void Raise()", "[]", NULL, NULL, NULL) == WITRPC_OK);
  CHECK(events_here == 0);
  turn_until(loop, &events_here, 5);
  witrpc_subscription_free(subscription);
  turn_until(loop, &destroys, 2);
  CHECK(!is_readable(loop));
  CHECK(witrpc_client_close_and_wait(client, 20000) == WITRPC_OK);
  witrpc_client_free(client);
  turn_until(loop, &destroys, 3);
  CHECK(elsewhere == 0);
  witrpc_service_free(service);
  witrpc_loop_free(loop);
}

static counter released = COUNTER_INIT;

static void on_release(void *user_data, int32_t state) {
  (void)user_data, (void)state;
  counter_add(&released, 1);
}

static void a_freed_loop_leaves_its_callbacks_to_a_thread(void) {
  witrpc_loop *loop = NULL;
  witrpc_client *client = NULL;
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  witrpc_client_options *options = quick_options();
  witrpc_loop_new(&loop, NULL);
  witrpc_client_options_loop(options, loop);
  callbacks.on_state_changed = on_release;
  witrpc_client_options_callbacks(options, &callbacks);
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_connect(client, NULL) == WITRPC_OK);
  CHECK(counter_get(&released) == 0);
  witrpc_loop_free(loop);
  counter_wait(&released, 1);
  CHECK(witrpc_loop_descriptor(loop) == -1);
  CHECK(witrpc_client_close_and_wait(client, 20000) == WITRPC_OK);
  witrpc_client_free(client);
}

static int handled;
static counter answered = COUNTER_INIT;

static void handle_here(void *user_data, witrpc_request *request) {
  (void)user_data;
  here();
  handled++;
  CHECK(witrpc_server_stop(server, 1) == WITRPC_WOULD_DEADLOCK);
  witrpc_request_reply(request, "7", NULL);
}

static void on_answer(void *user_data, int32_t status, const witrpc_buffer *result,
                      const witrpc_error *error) {
  (void)user_data, (void)error;
  if (status == WITRPC_OK && text_is(witrpc_buffer_text(result), "7")) counter_add(&answered, 1);
}

static void handlers_run_where_the_loop_is(void) {
  witrpc_loop *loop = NULL;
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *options = NULL;
  witrpc_server *own = NULL;
  witrpc_buffer *where = NULL;
  witrpc_client_options *client_options = NULL;
  witrpc_service *service = NULL;
  loop_thread = pthread_self();
  witrpc_loop_new(&loop, NULL);
  witrpc_implementation_new("Demo.ILoop", &implementation, NULL);
  witrpc_implementation_handle(implementation, "int Seven()", handle_here, NULL, NULL, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, implementation);
  CHECK(witrpc_server_options_loop(options, loop) == WITRPC_OK);
  NEED(witrpc_server_start(options, &own, NULL) == WITRPC_OK);
  witrpc_server_endpoint(own, 0, &where);
  witrpc_client_options_new(witrpc_buffer_text(where), &client_options, NULL);
  witrpc_client *client = connected(client_options);
  witrpc_client_service(client, "Demo.ILoop", &service, NULL);
  for (int i = 0; i < 3; i++)
    CHECK(witrpc_service_start(service, "int Seven()", "[]", NULL, on_answer, NULL, NULL, NULL,
                               NULL) == WITRPC_OK);
  turn_until(loop, &handled, 3);
  counter_wait(&answered, 3);
  CHECK(elsewhere == 0);
  witrpc_service_free(service);
  CHECK(witrpc_client_close_and_wait(client, 20000) == WITRPC_OK);
  witrpc_client_free(client);
  CHECK(witrpc_server_close_and_wait(own, 20000) == WITRPC_OK);
  CHECK(witrpc_server_close_and_wait(own, 20000) == WITRPC_OK);
  witrpc_server_free(own);
  witrpc_buffer_free(where);
  witrpc_server_options_free(options);
  witrpc_implementation_free(implementation);
  witrpc_loop_free(loop);
}

static counter begun = COUNTER_INIT, go = COUNTER_INIT;
static _Atomic int over;

static void handle_slowly(void *user_data, witrpc_request *request) {
  (void)user_data;
  counter_add(&begun, 1);
  counter_wait(&go, 1);
  atomic_store(&over, 1);
  witrpc_request_reply(request, NULL, NULL);
}

static void *let_go(void *argument) {
  counter_add(&go, 1);
  return argument;
}

static void closing_a_server_waits_for_its_handlers(void) {
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *options = NULL;
  witrpc_server *own = NULL;
  witrpc_buffer *where = NULL;
  witrpc_client_options *client_options = NULL;
  witrpc_service *service = NULL;
  pthread_t thread;
  witrpc_implementation_new("Demo.ISlow", &implementation, NULL);
  witrpc_implementation_handle(implementation, "void Slow()", handle_slowly, NULL, NULL, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, implementation);
  NEED(witrpc_server_start(options, &own, NULL) == WITRPC_OK);
  witrpc_server_endpoint(own, 0, &where);
  witrpc_client_options_new(witrpc_buffer_text(where), &client_options, NULL);
  witrpc_client *client = connected(client_options);
  witrpc_client_service(client, "Demo.ISlow", &service, NULL);
  witrpc_service_start(service, "void Slow()", "[]", NULL, on_answer, NULL, NULL, NULL, NULL);
  counter_wait(&begun, 1);
  CHECK(witrpc_server_close_and_wait(own, 1) == WITRPC_TIMEOUT && !atomic_load(&over));
  pthread_create(&thread, NULL, let_go, NULL);
  CHECK(witrpc_server_close_and_wait(own, WITRPC_NO_TIMEOUT) == WITRPC_OK && atomic_load(&over));
  pthread_join(thread, NULL);
  witrpc_service_free(service);
  witrpc_client_free(client);
  witrpc_server_free(own);
  witrpc_buffer_free(where);
  witrpc_server_options_free(options);
  witrpc_implementation_free(implementation);
}

static void health_says_how_a_client_is(void) {
  witrpc_client *client = NULL;
  witrpc_client_options *options = quick_options();
  witrpc_client_health health = WITRPC_CLIENT_HEALTH_INIT;
  witrpc_error *error = NULL;
  witrpc_client_options_reconnect_delays(options, 10000, 10000, 1.0);
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_check_health(client, 10, &health, &error) == WITRPC_OK);
  CHECK(health.status == WITRPC_UNHEALTHY && health.connection_state == WITRPC_DISCONNECTED);
  CHECK(!health.is_initialized && !health.is_authorized && error == NULL);
  CHECK(health.silence_ms == WITRPC_NO_TIMEOUT && health.round_trip_us == WITRPC_NO_TIMEOUT);
  CHECK(witrpc_client_connect(client, NULL) == WITRPC_OK);
  int before = atomic_load(&executions);
  CHECK(witrpc_client_check_health(client, 20000, &health, &error) == WITRPC_OK);
  CHECK(health.status == WITRPC_HEALTHY && health.is_initialized && health.is_authorized);
  CHECK(health.silence_ms != WITRPC_NO_TIMEOUT && health.round_trip_us != WITRPC_NO_TIMEOUT);
  CHECK(error == NULL && atomic_load(&executions) == before);
  kill_server();
  CHECK(witrpc_client_wait_state(client, WITRPC_RECONNECTING, 20000) == WITRPC_OK);
  CHECK(witrpc_client_health_get(client, &health, &error) == WITRPC_OK);
  CHECK(health.status == WITRPC_DEGRADED && !health.is_authorized && error != NULL);
  witrpc_error_free(error);
  restart_server();
  witrpc_client_reconnect_now(client);
  CHECK(witrpc_client_wait_state(client, WITRPC_CONNECTED, 20000) == WITRPC_OK);
  CHECK(witrpc_client_health_get(client, &health, NULL) == WITRPC_OK && health.reconnects == 1);
  CHECK(witrpc_client_close_and_wait(client, 20000) == WITRPC_OK);
  witrpc_client_free(client);
}

static void clients_are_opened_by_name(void) {
  char path[] = "/tmp/witrpc-named-XXXXXX";
  int file = mkstemp(path);
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_buffer *name = NULL;
  witrpc_error *error = NULL;
  NEED(file >= 0);
  NEED(dprintf(file,
               "[clients.Main]\nendpoint = \"%s\"\nconnect_timeout = \"20s\"\n"
               "[clients.Main.retry]\nidempotent = [\"Add\"]\n[clients.Bad]\nendpoint = 5\n",
               endpoint) > 0);
  close(file);
  CHECK(witrpc_client_options_named(path, "Main", &options, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), path) &&
        contains(witrpc_error_message(error), "line 7"));
  witrpc_error_free(error);
  file = open(path, O_WRONLY | O_TRUNC);
  NEED(dprintf(file, "[clients.Main]\nendpoint = \"%s\"\nreconnect = \"fleet\"\n", endpoint) > 0);
  close(file);
  CHECK(witrpc_client_options_named(path, "Mine", &options, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "there are Main"));
  witrpc_error_free(error);
  setenv("WITRPC_CONFIG", path, 1);
  NEED(witrpc_client_options_named(NULL, "Main", &options, NULL) == WITRPC_OK);
  unsetenv("WITRPC_CONFIG");
  unlink(path);
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_name(client, &name) == WITRPC_OK &&
        text_is(witrpc_buffer_text(name), "Main"));
  witrpc_buffer_free(name);
  CHECK(witrpc_client_connect(client, NULL) == WITRPC_OK);
  witrpc_service *service = service_of(client);
  int sum = 0;
  CHECK(add(service, 2, 3, &sum) == WITRPC_OK && sum == 5);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static counter logged = COUNTER_INIT, log_gone = COUNTER_INIT;
static _Atomic int connected_seen;

static void on_log(void *user_data, int32_t level, const char *target, const char *message) {
  (void)user_data;
  if (level < WITRPC_LOG_ERROR || level > WITRPC_LOG_DEBUG || !contains(target, "witrpc::"))
    abort();
  if (contains(message, "connected")) atomic_store(&connected_seen, 1);
  /* The library may be used from here. */
  witrpc_client_options *options = NULL;
  witrpc_client_options_new("tcp://a:1", &options, NULL);
  witrpc_client_options_free(options);
  counter_add(&logged, 1);
}

static void the_log_is_told_until_it_is_off(void) {
  CHECK(witrpc_log_to(WITRPC_LOG_DEBUG, on_log, &log_gone, destroyed, NULL) == WITRPC_OK);
  witrpc_client_free(connected(quick_options()));
  for (int n = 1; !atomic_load(&connected_seen); n++) counter_wait(&logged, n);
  CHECK(witrpc_log_to(WITRPC_LOG_ERROR, on_log, &log_gone, destroyed, NULL) == WITRPC_OK);
  counter_wait(&log_gone, 1);
  witrpc_log_off();
  counter_wait(&log_gone, 2);
  CHECK(witrpc_log_dropped() == 0);
}

static counter in_slow = COUNTER_INIT, slow_gone = COUNTER_INIT;
static _Atomic int slow_is_over;

static void slow(void *user_data, int32_t state) {
  (void)user_data, (void)state;
  counter_add(&in_slow, 1);
  usleep(100000);
  atomic_store(&slow_is_over, 1);
}

/* The callback is still running when the handle is freed and the library is shut down. */
static void shutdown_waits_for_callbacks_of_what_was_freed(void) {
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  witrpc_client_options *options = quick_options();
  callbacks.on_state_changed = slow;
  callbacks.user_data = &slow_gone;
  callbacks.destroy = destroyed;
  witrpc_client_options_callbacks(options, &callbacks);
  witrpc_client *client = connected(options);
  counter_wait(&in_slow, 1);
  witrpc_client_free(client);
  CHECK(witrpc_shutdown(20000) == WITRPC_OK);
  CHECK(atomic_load(&slow_is_over) && counter_get(&slow_gone) == 1);
}

static void shutdown_ends_everything(void) { CHECK(witrpc_shutdown(20000) == WITRPC_OK); }

int main(void) {
  watchdog(300);
  start_server("tcp://127.0.0.1:0");
  RUN(callbacks_run_where_the_loop_is);
  RUN(a_freed_loop_leaves_its_callbacks_to_a_thread);
  RUN(handlers_run_where_the_loop_is);
  RUN(closing_a_server_waits_for_its_handlers);
  RUN(health_says_how_a_client_is);
  RUN(clients_are_opened_by_name);
  RUN(the_log_is_told_until_it_is_off);
  RUN(shutdown_waits_for_callbacks_of_what_was_freed);
  kill_server();
  RUN(shutdown_ends_everything);
  return summary();
}
