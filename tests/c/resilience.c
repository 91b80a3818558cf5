/* Outages through the C ABI: callbacks in order, retries that execute once, callbacks that call. */
#include "fixture.h"

enum { LOG = 65536 };

typedef struct {
  pthread_mutex_t lock;
  char log[LOG];
  counter reconnecting, reconnected, failed, states, retries, gone;
  int running, overlapped;
  char last_error[256];
  witrpc_client *client;
  witrpc_service *service;
  int sum_in_callback;
  int would_deadlock;
} observer;

#define OBSERVER_INIT                                                                              \
  {                                                                                                \
    PTHREAD_MUTEX_INITIALIZER, "", COUNTER_INIT, COUNTER_INIT, COUNTER_INIT, COUNTER_INIT,         \
        COUNTER_INIT, COUNTER_INIT, 0, 0, "", NULL, NULL, 0, 0                                     \
  }

static void enter(observer *o, const char *what) {
  pthread_mutex_lock(&o->lock);
  if (o->running++) o->overlapped = 1;
  size_t used = strlen(o->log);
  snprintf(o->log + used, LOG - used, "%s ", what);
  pthread_mutex_unlock(&o->lock);
}

static void leave(observer *o) {
  pthread_mutex_lock(&o->lock);
  o->running--;
  pthread_mutex_unlock(&o->lock);
}

static void on_reconnecting(void *user_data, uint32_t attempt, uint64_t delay_ms) {
  observer *o = user_data;
  char text[48];
  snprintf(text, sizeof text, "reconnecting:%u:%u", (unsigned)attempt, (unsigned)delay_ms);
  enter(o, text);
  leave(o);
  counter_add(&o->reconnecting, 1);
}

static void on_reconnected(void *user_data) {
  observer *o = user_data;
  enter(o, "reconnected");
  if (o->service) {
    /* The normal use: fetch what was missed. */
    add(o->service, 20, 22, &o->sum_in_callback);
    o->would_deadlock = witrpc_client_close_and_wait(o->client, 1000) == WITRPC_WOULD_DEADLOCK;
  }
  leave(o);
  counter_add(&o->reconnected, 1);
}

static void on_failed(void *user_data, const witrpc_error *error) {
  observer *o = user_data;
  enter(o, "failed");
  snprintf(o->last_error, sizeof o->last_error, "%s: %s", witrpc_error_message(error),
           witrpc_error_details(error));
  leave(o);
  counter_add(&o->failed, 1);
}

static void on_state(void *user_data, int32_t state) {
  observer *o = user_data;
  char text[16];
  snprintf(text, sizeof text, "state:%d", (int)state);
  enter(o, text);
  leave(o);
  counter_add(&o->states, 1);
}

static void on_retry(void *user_data, const witrpc_retry_info *info) {
  observer *o = user_data;
  char text[64];
  snprintf(text, sizeof text, "retry:%s:%u:%s", info->method, (unsigned)info->attempt,
           witrpc_error_name(info->error));
  enter(o, text);
  leave(o);
  counter_add(&o->retries, 1);
}

static void observer_gone(void *user_data) { counter_add(&((observer *)user_data)->gone, 1); }

static void observe(witrpc_client_options *options, observer *o) {
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  callbacks.on_reconnecting = on_reconnecting;
  callbacks.on_reconnected = on_reconnected;
  callbacks.on_reconnection_failed = on_failed;
  callbacks.on_state_changed = on_state;
  callbacks.on_retry = on_retry;
  callbacks.user_data = o;
  callbacks.destroy = observer_gone;
  CHECK(witrpc_client_options_callbacks(options, &callbacks) == WITRPC_OK);
}

static void an_outage_is_told_in_order_and_survived(void) {
  static observer o = OBSERVER_INIT;
  witrpc_client_options *options = quick_options();
  observe(options, &o);
  witrpc_client *client = connected(options);
  witrpc_service *service = service_of(client);
  kill_server();
  counter_wait(&o.reconnecting, 2);
  CHECK(witrpc_client_state(client) == WITRPC_RECONNECTING);
  restart_server();
  CHECK(witrpc_client_wait_state(client, WITRPC_CONNECTED, 20000) == WITRPC_OK);
  counter_wait(&o.reconnected, 1);
  int sum = 0;
  CHECK(add(service, 1, 2, &sum) == WITRPC_OK && sum == 3);
  CHECK(strncmp(o.log, "state:0 state:2 reconnecting:1:10 reconnecting:2:20 ", 52) == 0);
  CHECK(strstr(o.log, "state:0 reconnected ") != NULL);
  CHECK(!o.overlapped);
  witrpc_client_stats stats = WITRPC_CLIENT_STATS_INIT;
  CHECK(witrpc_client_stats_get(client, &stats) == WITRPC_OK && stats.reconnects == 1);
  witrpc_error *failure = witrpc_client_last_failure(client);
  CHECK(witrpc_error_code(failure) == WITRPC_TRANSPORT);
  witrpc_error_free(failure);
  witrpc_client_free(client);
  witrpc_service_free(service);
  counter_wait(&o.gone, 1);
}

static void a_server_that_stays_away_ends_in_failed_with_a_real_error(void) {
  static observer o = OBSERVER_INIT;
  witrpc_client_options *options = quick_options();
  witrpc_client_options_reconnect_max_attempts(options, 3);
  observe(options, &o);
  witrpc_client *client = connected(options);
  kill_server();
  counter_wait(&o.failed, 1);
  CHECK(witrpc_client_state(client) == WITRPC_FAILED);
  CHECK(counter_get(&o.reconnecting) == 3);
  CHECK(contains(o.last_error, "can't connect to tcp://") && contains(o.last_error, "refused"));
  restart_server();
  CHECK(witrpc_client_connect(client, NULL) == WITRPC_OK);
  witrpc_client_free(client);
  counter_wait(&o.gone, 1);
}

typedef struct {
  counter done;
  int status;
  char result[16];
} ending;

static void ended(void *user_data, int32_t status, const witrpc_buffer *result,
                  const witrpc_error *error) {
  ending *e = user_data;
  e->status = status;
  if (result) snprintf(e->result, sizeof e->result, "%s", witrpc_buffer_text(result));
  if (error) snprintf(e->result, sizeof e->result, "%s", witrpc_error_name(error));
  counter_add(&e->done, 1);
}

/* Cuts every connection of the server by stopping it at once; a new one forgets, so the calls that
 * are safe to repeat are those that were declared idempotent. */
static void a_retried_call_waits_for_the_link_and_is_answered(void) {
  static observer o = OBSERVER_INIT;
  static ending e = { COUNTER_INIT, -1, "" };
  witrpc_client_options *options = quick_options();
  witrpc_client_options_mark_idempotent(options, "int Hold()");
  witrpc_client_options_retry_delays(options, 10, 1000, WITRPC_BACKOFF_EXPONENTIAL, 2.0);
  observe(options, &o);
  witrpc_client *client = connected(options);
  witrpc_service *service = service_of(client);
  int before = counter_get(&holding);
  witrpc_service_start(service, "int Hold()", "[]", NULL, ended, &e, NULL, NULL, NULL);
  counter_wait(&holding, before + 1);
  kill_server();
  counter_wait(&o.retries, 1);
  witrpc_request *lost = atomic_load(&held);
  restart_server();
  counter_wait(&holding, before + 2);
  witrpc_request_reply(atomic_load(&held), "7", NULL);
  witrpc_request_free(lost);
  counter_wait(&e.done, 1);
  CHECK(e.status == WITRPC_OK && text_is(e.result, "7"));
  CHECK(contains(o.log, "retry:Hold:1:transport"));
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void a_deduplicated_call_is_not_repeated_at_a_server_that_forgot(void) {
  static ending e = { COUNTER_INIT, -1, "" };
  witrpc_client_options *options = quick_options();
  witrpc_client_options_mark_deduplicated(options, "Hold");
  witrpc_client *client = connected(options);
  witrpc_service *service = service_of(client);
  int before = counter_get(&holding);
  witrpc_service_start(service, "int Hold()", "[]", NULL, ended, &e, NULL, NULL, NULL);
  counter_wait(&holding, before + 1);
  kill_server();
  restart_server();
  counter_wait(&e.done, 1);
  CHECK(e.status == WITRPC_OUTCOME_UNKNOWN);
  witrpc_request_free(atomic_load(&held));
  CHECK(counter_get(&holding) == before + 1);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void blocking_calls_work_inside_callbacks(void) {
  static observer o = OBSERVER_INIT;
  witrpc_client_options *options = quick_options();
  observe(options, &o);
  witrpc_client *client = connected(options);
  o.client = client;
  o.service = service_of(client);
  kill_server();
  restart_server();
  counter_wait(&o.reconnected, 1);
  CHECK(o.sum_in_callback == 42);
  CHECK(o.would_deadlock);
  witrpc_service_free(o.service);
  witrpc_client_free(client);
  counter_wait(&o.gone, 1);
}

static counter asked = COUNTER_INIT;

static bool worth_another(void *user_data, const witrpc_error *error) {
  (void)user_data;
  counter_add(&asked, 1);
  return witrpc_error_code(error) == WITRPC_REMOTE;
}

static int status_in_callback = -1;
static witrpc_service *failing;
static counter called_back = COUNTER_INIT;

static void calls_what_fails(void *user_data, int32_t state) {
  (void)user_data;
  if (state != WITRPC_CONNECTED || counter_get(&called_back)) return;
  /* The predicate that this call needs can't run on this very thread. */
  status_in_callback = witrpc_service_call(failing, "void Fail()", "[]", NULL, NULL, NULL);
  counter_add(&called_back, 1);
}

static void a_predicate_decides_about_faults_also_for_calls_inside_callbacks(void) {
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  witrpc_client_options *options = quick_options();
  witrpc_client *client = NULL;
  callbacks.is_retryable = worth_another;
  callbacks.on_state_changed = calls_what_fails;
  witrpc_client_options_callbacks(options, &callbacks);
  witrpc_client_options_retry_max_retries(options, 2);
  witrpc_client_options_retry_delays(options, 1, 10, WITRPC_BACKOFF_FIXED, 1.0);
  witrpc_client_options_retry_all_methods(options);
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  failing = service_of(client);
  witrpc_client_connect(client, NULL);
  counter_wait(&called_back, 1);
  CHECK(status_in_callback == WITRPC_REMOTE);
  CHECK(counter_get(&asked) == 2);
  witrpc_client_close_and_wait(client, 20000);
  witrpc_service_free(failing);
  witrpc_client_free(client);
}

static void *free_it(void *client) {
  witrpc_client_free(client);
  return NULL;
}

static witrpc_client *suicidal;
static counter freed_itself = COUNTER_INIT;

static void frees_its_client(void *user_data, int32_t state) {
  (void)user_data;
  if (state == WITRPC_RECONNECTING) {
    witrpc_client_free(suicidal);
    counter_add(&freed_itself, 1);
  }
}

static void a_callback_may_free_its_own_client(void) {
  static counter gone = COUNTER_INIT;
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  witrpc_client_options *options = quick_options();
  callbacks.on_state_changed = frees_its_client;
  callbacks.user_data = &gone;
  callbacks.destroy = destroyed;
  witrpc_client_options_callbacks(options, &callbacks);
  suicidal = connected(options);
  kill_server();
  counter_wait(&freed_itself, 1);
  counter_wait(&gone, 1);
  CHECK(witrpc_client_state(suicidal) == -1);
  restart_server();
}

static void close_returns_while_everything_is_going_on(void) {
  for (int i = 0; i < 20; i++) {
    witrpc_client *client = NULL;
    witrpc_client_options *options = quick_options();
    witrpc_client_new(options, &client, NULL);
    witrpc_client_options_free(options);
    witrpc_service *service = service_of(client);
    pthread_t thread;
    static ending e[20];
    e[i] = (ending){ COUNTER_INIT, -1, "" };
    witrpc_client_connect_start(client, NULL, NULL, NULL, NULL);
    if (i % 2) witrpc_client_connect(client, NULL);
    pthread_create(&thread, NULL, free_it, client);
    int status = witrpc_service_start(service, "int Add(int,int)", "[1,1]", NULL, ended, &e[i],
                                      NULL, NULL, NULL);
    if (status == WITRPC_OK) counter_wait(&e[i].done, 1);
    pthread_join(thread, NULL);
    witrpc_service_free(service);
  }
}

static void stop_and_disconnect_leave_it_disconnected(void) {
  static observer o = OBSERVER_INIT;
  witrpc_client_options *options = quick_options();
  observe(options, &o);
  witrpc_client *client = connected(options);
  CHECK(witrpc_client_disconnect(client) == WITRPC_OK);
  CHECK(witrpc_client_state(client) == WITRPC_DISCONNECTED);
  CHECK(witrpc_client_connect(client, NULL) == WITRPC_OK);
  kill_server();
  counter_wait(&o.reconnecting, 1);
  CHECK(witrpc_client_stop_reconnection(client) == WITRPC_OK);
  CHECK(witrpc_client_state(client) == WITRPC_DISCONNECTED);
  CHECK(witrpc_client_wait_state(client, WITRPC_CONNECTED, 50) == WITRPC_TIMEOUT);
  CHECK(counter_get(&o.failed) == 0);
  restart_server();
  CHECK(witrpc_client_reconnect(client, NULL) == WITRPC_OK);
  CHECK(witrpc_client_reconnect_now(client) == WITRPC_OK);
  witrpc_client_free(client);
  counter_wait(&o.gone, 1);
}

static void provide(void *user_data, witrpc_token *answer) {
  counter_add((counter *)user_data, 1);
  witrpc_token_answer(answer, "", 0);
}

static void provide_nothing(void *user_data, witrpc_token *answer) {
  (void)answer;
  counter_add((counter *)user_data, 1);
}

static void a_token_provider_is_asked_before_every_connection(void) {
  static counter asked_for_token = COUNTER_INIT;
  witrpc_client_options *options = quick_options();
  witrpc_client_options_token_provider(options, provide, &asked_for_token, NULL);
  witrpc_client *client = connected(options);
  CHECK(witrpc_client_state(client) == WITRPC_CONNECTED && counter_get(&asked_for_token) == 1);
  CHECK(witrpc_client_reconnect(client, NULL) == WITRPC_OK);
  CHECK(counter_get(&asked_for_token) == 2);
  witrpc_client_free(client);
  options = quick_options();
  witrpc_client_options_token_provider(options, provide_nothing, &asked_for_token, NULL);
  witrpc_error *error = NULL;
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_connect(client, &error) == WITRPC_TRANSPORT);
  CHECK(contains(witrpc_error_details(error), "no token"));
  witrpc_error_free(error);
  witrpc_client_free(client);
}

static void a_hundred_cuts_under_load(void) {
  static observer o = OBSERVER_INIT;
  static ending endings[100][4];
  witrpc_client_options *options = quick_options();
  witrpc_client_options_reconnect_delays(options, 1, 5, 2.0);
  observe(options, &o);
  witrpc_client *client = connected(options);
  witrpc_service *service = service_of(client);
  for (int cut = 0; cut < 100; cut++) {
    for (int i = 0; i < 4; i++) {
      endings[cut][i] = (ending){ COUNTER_INIT, -1, "" };
      witrpc_service_start(service, "int Add(int,int)", "[1,2]", NULL, ended, &endings[cut][i],
                           NULL, NULL, NULL);
    }
    kill_server();
    restart_server();
    counter_wait(&o.reconnected, cut + 1);
  }
  for (int cut = 0; cut < 100; cut++) {
    for (int i = 0; i < 4; i++) {
      counter_wait(&endings[cut][i].done, 1);
      int status = endings[cut][i].status;
      /* Overloaded: its handler had not begun, and the server could still say so. */
      CHECK(status == WITRPC_OK || status == WITRPC_TRANSPORT || status == WITRPC_OVERLOADED);
    }
  }
  CHECK(counter_get(&o.reconnected) == 100 && counter_get(&o.failed) == 0 && !o.overlapped);
  witrpc_service_free(service);
  witrpc_client_free(client);
  counter_wait(&o.gone, 1);
}

static void shutdown_ends_everything(void) { CHECK(witrpc_shutdown(20000) == WITRPC_OK); }

int main(void) {
  watchdog(400);
  start_server("tcp://127.0.0.1:0");
  RUN(an_outage_is_told_in_order_and_survived);
  RUN(a_server_that_stays_away_ends_in_failed_with_a_real_error);
  RUN(a_retried_call_waits_for_the_link_and_is_answered);
  RUN(a_deduplicated_call_is_not_repeated_at_a_server_that_forgot);
  RUN(blocking_calls_work_inside_callbacks);
  RUN(a_predicate_decides_about_faults_also_for_calls_inside_callbacks);
  RUN(a_callback_may_free_its_own_client);
  RUN(close_returns_while_everything_is_going_on);
  RUN(stop_and_disconnect_leave_it_disconnected);
  RUN(a_token_provider_is_asked_before_every_connection);
  RUN(a_hundred_cuts_under_load);
  kill_server();
  RUN(shutdown_ends_everything);
  return summary();
}
