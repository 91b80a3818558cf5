/* Arguments and results that the program encodes itself; probes; retries on chosen statuses. */
#include "fixture.h"

static counter gone = COUNTER_INIT;

static int same(const uint8_t *data, size_t size, const char *text) {
  return size == strlen(text) && memcmp(data, text, size) == 0;
}

/* Answers with the second argument; refuses what does not begin with a digit. */
static void handle_second(void *user_data, witrpc_request *request) {
  (void)user_data;
  size_t size = 99, none = 99;
  const uint8_t *second = witrpc_request_argument(request, 1, &size);
  CHECK(witrpc_request_argument_count(request) == 2);
  CHECK(witrpc_request_arguments(request) == NULL);
  CHECK(witrpc_request_argument(request, 2, &none) == NULL && none == 0);
  CHECK(witrpc_request_reply(request, "1", NULL) == WITRPC_INVALID_ARGUMENT);
  if (size && (second[0] < '0' || second[0] > '9')) {
    CHECK(witrpc_request_refuse(request, "argument 2 is no number", NULL) == WITRPC_OK);
  } else {
    CHECK(witrpc_request_reply_encoded(request, second, size, NULL) == WITRPC_OK);
  }
}

static void handle_text(void *user_data, witrpc_request *request) {
  (void)user_data;
  size_t size = 99;
  witrpc_error *error = NULL;
  CHECK(witrpc_request_argument_count(request) == 0);
  CHECK(witrpc_request_argument(request, 0, &size) == NULL && size == 0);
  CHECK(witrpc_request_reply_encoded(request, NULL, 0, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(strstr(witrpc_error_message(error), "witrpc_request_reply"));
  witrpc_error_free(error);
  witrpc_request_reply(request, "7", NULL);
}

static _Atomic int failures;
static void handle_flaky(void *user_data, witrpc_request *request) {
  (void)user_data;
  if (atomic_fetch_add(&failures, 1) % 2 == 0) {
    witrpc_request_fail(request, "not yet", NULL);
  } else {
    witrpc_request_reply(request, "1", NULL);
  }
}

static uint8_t connection[16];
static void handle_remember(void *user_data, witrpc_request *request) {
  (void)user_data;
  CHECK(witrpc_request_connection(request, connection) == WITRPC_OK);
  CHECK(witrpc_request_join(request, "those", NULL) == WITRPC_OK);
  witrpc_request_reply(request, "1", NULL);
}

static void serve_encoded(witrpc_server_options *options) {
  witrpc_implementation *implementation = NULL;
  witrpc_implementation_new("Demo.IEncoded", &implementation, NULL);
  CHECK(witrpc_implementation_handle_encoded(implementation, "int Second(int a, int b)",
                                             handle_second, &gone, destroyed, NULL) == WITRPC_OK);
  witrpc_implementation_handle(implementation, "int Text()", handle_text, NULL, NULL, NULL);
  witrpc_implementation_handle(implementation, "int Remember()", handle_remember, NULL, NULL, NULL);
  witrpc_implementation_handle(implementation, "int Flaky()", handle_flaky, NULL, NULL, NULL);
  witrpc_server_options_serve(options, implementation);
  witrpc_implementation_free(implementation);
}

static witrpc_service *encoded_of(witrpc_client *client) {
  witrpc_service *service = NULL;
  witrpc_client_service(client, "Demo.IEncoded", &service, NULL);
  return service;
}

static void a_handler_gets_and_gives_blobs(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = encoded_of(client);
  witrpc_buffer *result = NULL;
  witrpc_error *error = NULL;
  CHECK(witrpc_service_call(service, "int Second(int,int)", "[1, 23]", NULL, &result, NULL) == 0);
  CHECK(strcmp(witrpc_buffer_text(result), "23") == 0);
  witrpc_buffer_free(result);
  witrpc_bytes bad[2] = { { NULL, 0 }, { (const uint8_t *)"x", 1 } };
  CHECK(witrpc_service_call_encoded(service, "Second(int,int)", 15, bad, 2, NULL, &result,
                                    &error) == WITRPC_BAD_REQUEST);
  CHECK(strcmp(witrpc_error_message(error), "argument 2 is no number") == 0);
  witrpc_error_free(error);
  witrpc_bytes null[2] = { { (const uint8_t *)"1", 1 }, { NULL, 0 } };
  CHECK(witrpc_service_call_encoded(service, "Second(int,int)", 15, null, 2, NULL, &result, NULL) ==
        WITRPC_OK);
  CHECK(witrpc_buffer_size(result) == 0);
  witrpc_buffer_free(result);
  CHECK(witrpc_service_call(service, "int Text()", "[]", NULL, &result, NULL) == WITRPC_OK);
  CHECK(strcmp(witrpc_buffer_text(result), "7") == 0);
  witrpc_buffer_free(result);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static counter events = COUNTER_INIT;
static counter events_gone = COUNTER_INIT;
static void on_event(void *user_data, const witrpc_bytes *arguments, size_t count) {
  CHECK(user_data == &events_gone && count == 2);
  CHECK(same(arguments[0].data, arguments[0].size, "5") && arguments[1].size == 0);
  counter_add(&events, 1);
}

static void events_travel_as_blobs(void) {
  static const char line[] = "event Action<int, string> Happened";
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = encoded_of(client);
  witrpc_subscription *subscription = NULL;
  witrpc_error *error = NULL;
  witrpc_bytes arguments[2] = { { (const uint8_t *)"5", 1 }, { NULL, 0 } };
  CHECK(witrpc_service_subscribe_encoded(service, line, sizeof line - 1, on_event, &events_gone,
                                         destroyed, &subscription, NULL) == WITRPC_OK);
  /* The connection as a handler sees it. */
  uint8_t id[16] = { 0 }, nobody[16] = { 1 };
  CHECK(witrpc_service_call(service, "int Remember()", "[]", NULL, NULL, NULL) == WITRPC_OK);
  memcpy(id, connection, sizeof id);
  const struct {
    int audience;
    const uint8_t *connection;
    const char *name;
    size_t meant;
  } audiences[] = {
    { WITRPC_TO_ALL, NULL, NULL, 1 },        { WITRPC_TO_CONNECTION, id, NULL, 1 },
    { WITRPC_TO_CONNECTION, nobody, "", 0 }, { WITRPC_TO_OTHERS, id, NULL, 0 },
    { WITRPC_TO_OTHERS, nobody, NULL, 1 },   { WITRPC_TO_GROUP, NULL, "those", 1 },
    { WITRPC_TO_GROUP, NULL, "others", 0 },  { WITRPC_TO_PRINCIPAL, NULL, "nobody", 0 },
  };
  int expected = 0;
  for (size_t i = 0; i < sizeof audiences / sizeof *audiences; i++) {
    size_t meant = 99;
    CHECK(witrpc_server_raise_encoded(server, audiences[i].audience, audiences[i].connection,
                                      audiences[i].name, "Demo.IEncoded", line, arguments, 2,
                                      &meant, NULL) == WITRPC_OK);
    CHECK(meant == audiences[i].meant);
    expected += (int)meant;
    counter_wait(&events, expected);
  }
  CHECK(counter_get(&events) == 4);
  CHECK(witrpc_server_raise_encoded(server, WITRPC_TO_ALL, NULL, NULL, "Demo.IEncoded", line,
                                    arguments, 1, NULL, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(strstr(witrpc_error_message(error), "2 arguments and got 1"));
  witrpc_error_free(error);
  witrpc_subscription_free(subscription);
  counter_wait(&events_gone, 1);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static counter ended = COUNTER_INIT;
static void on_ended(void *user_data, int32_t status, const witrpc_buffer *result,
                     const witrpc_error *error) {
  if (user_data) {
    CHECK(status == WITRPC_OK && !error);
    CHECK(same(witrpc_buffer_data(result), witrpc_buffer_size(result), "23"));
  } else {
    CHECK(status == WITRPC_CLOSED && !result && error);
  }
  counter_add(&ended, 1);
}

static void a_direct_completion_comes_where_the_answer_comes_in(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = encoded_of(client);
  witrpc_bytes arguments[2] = { { (const uint8_t *)"1", 1 }, { (const uint8_t *)"23", 2 } };
  counter user = COUNTER_INIT;
  for (int i = 1; i <= 100; i++) {
    CHECK(witrpc_service_start_encoded_direct(service, "Second(int,int)", 15, arguments, 2, NULL,
                                              on_ended, &user, destroyed, NULL, NULL) == WITRPC_OK);
    counter_wait(&ended, i);
  }
  counter_wait(&user, 100);
  witrpc_client_close(client);
  /* One that ends at once ends before the function returns. */
  CHECK(witrpc_service_start_encoded_direct(service, "Second(int,int)", 15, arguments, 2, NULL,
                                            on_ended, NULL, NULL, NULL, NULL) == WITRPC_OK);
  CHECK(counter_get(&ended) == 101);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static counter probes = COUNTER_INIT;
static int32_t probed;
static void on_probed(void *user_data, int32_t status, const witrpc_error *error) {
  (void)user_data;
  CHECK((status == WITRPC_OK) == (error == NULL));
  probed = status;
  counter_add(&probes, 1);
}

static void a_probe_goes_to_the_server_and_back_and_runs_nothing(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_server_stats before = WITRPC_SERVER_STATS_INIT, after = WITRPC_SERVER_STATS_INIT;
  witrpc_server_stats_get(server, &before);
  CHECK(witrpc_client_probe_start(client, 30000, on_probed, NULL, NULL, NULL) == WITRPC_OK);
  counter_wait(&probes, 1);
  CHECK(probed == WITRPC_OK);
  witrpc_server_stats_get(server, &after);
  CHECK(after.executed == before.executed && after.held == before.held);
  witrpc_client_disconnect(client);
  CHECK(witrpc_client_probe_start(client, 30000, on_probed, NULL, NULL, NULL) == WITRPC_OK);
  counter_wait(&probes, 2);
  CHECK(probed != WITRPC_OK);
  witrpc_client_free(client);
}

static void retries_go_by_the_statuses_that_are_given(void) {
  const int32_t only[1] = { 500 };
  for (size_t count = 0; count < 2; count++) {
    witrpc_client_options *options = quick_options();
    witrpc_client_options_retry_delays(options, 1, 1, WITRPC_BACKOFF_FIXED, 1.0);
    witrpc_client_options_mark_idempotent(options, "Flaky");
    CHECK(witrpc_client_options_retry_statuses(options, only, count) == WITRPC_OK);
    CHECK(witrpc_client_options_retry_statuses(options, NULL, 1) == WITRPC_INVALID_ARGUMENT);
    witrpc_client *client = connected(options);
    witrpc_service *service = encoded_of(client);
    atomic_store(&failures, 0);
    CHECK(witrpc_service_call(service, "int Flaky()", "[]", NULL, NULL, NULL) ==
          (count ? WITRPC_OK : WITRPC_REMOTE));
    CHECK(atomic_load(&failures) == (int)count + 1);
    witrpc_service_free(service);
    witrpc_client_free(client);
  }
}

int main(void) {
  watchdog(300);
  configure = serve_encoded;
  start_server("tcp://127.0.0.1:0");
  RUN(a_handler_gets_and_gives_blobs);
  RUN(events_travel_as_blobs);
  RUN(a_direct_completion_comes_where_the_answer_comes_in);
  RUN(a_probe_goes_to_the_server_and_back_and_runs_nothing);
  RUN(retries_go_by_the_statuses_that_are_given);
  witrpc_server_free(server);
  CHECK(witrpc_shutdown(10000) == WITRPC_OK);
  counter_wait(&gone, 1);
  return summary();
}
