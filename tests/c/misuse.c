/* Every function with wrong arguments: NULL, freed handles, handles of another kind, pointers that
 * are no handles, text that is not UTF-8; also from inside callbacks and handlers. None may crash,
 * and all must say what is wrong. tests/run compares the functions called here with those exported.
 */
#include "fixture.h"

#define BAD_TEXT "bad \xff text"

static int destroys;
static void count_destroy(void *user_data) {
  (void)user_data;
  destroys++;
}

static void never_completion(void *u, int32_t s, const witrpc_buffer *r, const witrpc_error *e) {
  (void)u, (void)s, (void)r, (void)e;
}
static void never_done(void *u, int32_t s, const witrpc_error *e) { (void)u, (void)s, (void)e; }
static void never_connection(void *u, const witrpc_connection *c) { (void)u, (void)c; }
static void never_event(void *u, const witrpc_buffer *a) { (void)u, (void)a; }
static void never_encoded(void *u, const witrpc_bytes *a, size_t n) { (void)u, (void)a, (void)n; }
static void never_handler(void *u, witrpc_request *r) {
  (void)u;
  witrpc_request_free(r);
}
static void never_provider(void *u, witrpc_token *t) { (void)u, (void)t; }
static void never_check(void *u, witrpc_check *c) {
  (void)u;
  witrpc_check_free(c);
}
static bool never_validator(void *u, const char *t, const char *p, char *n, size_t s) {
  (void)u, (void)t, (void)p, (void)n, (void)s;
  return true;
}
static void never_execute(void *u, const char *m, const uint8_t *i) { (void)u, (void)m, (void)i; }

#define INVALID(call) CHECK((call) == WITRPC_INVALID_HANDLE)

/* `h` is no live handle of the kind that each function wants. */
static void client_functions(void *h) {
  witrpc_client *none = (witrpc_client *)1;
  witrpc_service *service = (witrpc_service *)1;
  witrpc_error *error = NULL;
  witrpc_client_stats stats = WITRPC_CLIENT_STATS_INIT;
  INVALID(witrpc_client_new(h, &none, &error));
  CHECK(none == NULL && contains(witrpc_error_message(error), "handle"));
  witrpc_error_free(error);
  INVALID(witrpc_client_connect(h, NULL));
  destroys = 0;
  INVALID(witrpc_client_connect_start(h, never_done, NULL, count_destroy, NULL));
  CHECK(destroys == 1);
  INVALID(witrpc_client_probe_start(h, 10, never_done, NULL, count_destroy, NULL));
  CHECK(destroys == 2);
  INVALID(witrpc_client_reconnect(h, NULL));
  INVALID(witrpc_client_reconnect_now(h));
  INVALID(witrpc_client_stop_reconnection(h));
  INVALID(witrpc_client_disconnect(h));
  INVALID(witrpc_client_close(h));
  witrpc_client_health health = WITRPC_CLIENT_HEALTH_INIT;
  witrpc_buffer *name = (witrpc_buffer *)1;
  error = (witrpc_error *)1;
  INVALID(witrpc_client_health_get(h, &health, &error));
  CHECK(error == NULL);
  INVALID(witrpc_client_check_health(h, 10, &health, NULL));
  INVALID(witrpc_client_name(h, &name));
  INVALID(witrpc_client_close_and_wait(h, 10));
  CHECK(witrpc_client_state(h) == -1);
  INVALID(witrpc_client_wait_state(h, WITRPC_CONNECTED, 10));
  INVALID(witrpc_client_stats_get(h, &stats));
  CHECK(witrpc_client_last_failure(h) == NULL);
  INVALID(witrpc_client_service(h, "Demo.ITest", &service, NULL));
  INVALID(witrpc_client_service_n(h, "Demo.ITest", 10, &service, NULL));
  INVALID(witrpc_client_service_of(h, NULL, &service, NULL));
  witrpc_client_free(h);
}

static void loop_functions(void *h) {
  size_t count = 9;
  CHECK(witrpc_loop_descriptor(h) == -1);
  INVALID(witrpc_dispatch(h, 0, 0, &count));
  INVALID(witrpc_dispatch(h, WITRPC_NO_TIMEOUT, 0, NULL));
  CHECK(count == 0);
  witrpc_loop_free(h);
}

static void never_log(void *u, int32_t l, const char *t, const char *m) {
  (void)u, (void)l, (void)t, (void)m;
}

static void client_option_functions(void *h) {
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  INVALID(witrpc_client_options_add_endpoint(h, "tcp://a:1"));
  INVALID(witrpc_client_options_encryption(h, true));
  INVALID(witrpc_client_options_method_lookup(h, WITRPC_LOOKUP_NAME));
  INVALID(witrpc_client_options_type_names(h, WITRPC_TYPE_NAMES_STRONG));
  INVALID(witrpc_client_options_token(h, "t"));
  INVALID(witrpc_client_options_token_file(h, "f"));
  destroys = 0;
  INVALID(witrpc_client_options_token_provider(h, never_provider, NULL, count_destroy));
  INVALID(witrpc_client_options_token_provider_async(h, never_provider, NULL, count_destroy));
  CHECK(destroys == 2);
  INVALID(witrpc_client_options_codec(h, WITRPC_CODEC_JSON));
  INVALID(witrpc_client_options_name(h, "n"));
  INVALID(witrpc_client_options_loop(h, NULL));
  INVALID(witrpc_client_options_connect_timeout_ms(h, 1));
  INVALID(witrpc_client_options_attempt_timeout_ms(h, 1));
  INVALID(witrpc_client_options_max_frame(h, 1));
  INVALID(witrpc_client_options_queue_limits(h, 1, 1));
  INVALID(witrpc_client_options_max_in_flight(h, 1));
  INVALID(witrpc_client_options_event_queue(h, 1, 1, WITRPC_DROP_NEWEST));
  INVALID(witrpc_client_options_handler_patience_ms(h, 1));
  INVALID(witrpc_client_options_keepalive(h, 1, 1, 1));
  INVALID(witrpc_client_options_ping(h, 1, 1));
  INVALID(witrpc_client_options_user_timeout_ms(h, 1));
  INVALID(witrpc_client_options_tls_authorities(h, "x", 1));
  INVALID(witrpc_client_options_tls_authorities_file(h, "x"));
  INVALID(witrpc_client_options_tls_system_authorities(h, true));
  INVALID(witrpc_client_options_tls_identity_files(h, "c", "k"));
  INVALID(witrpc_client_options_tls_server_name(h, "x"));
  INVALID(witrpc_client_options_tls_pin(h, (const uint8_t *)"0123456789abcdef0123456789abcdef"));
  INVALID(witrpc_client_options_tls_identity(h, "x", 1, "x", 1));
  INVALID(witrpc_client_options_websocket_ping(h, 1, 1));
  INVALID(witrpc_client_options_websocket_fragment(h, 1));
  INVALID(witrpc_client_options_reconnect(h));
  INVALID(witrpc_client_options_reconnect_fleet(h));
  INVALID(witrpc_client_options_reconnect_max_attempts(h, 1));
  INVALID(witrpc_client_options_reconnect_delays(h, 1, 1, 1.0));
  INVALID(witrpc_client_options_reconnect_jitter(h, 0, false));
  INVALID(witrpc_client_options_reconnect_on_disconnect(h, true));
  INVALID(witrpc_client_options_reconnect_first_connect(h, true));
  INVALID(witrpc_client_options_reconnect_stable_after_ms(h, 1));
  INVALID(witrpc_client_options_retry(h));
  INVALID(witrpc_client_options_retry_max_retries(h, 1));
  INVALID(witrpc_client_options_retry_delays(h, 1, 1, 0, 1.0));
  INVALID(witrpc_client_options_retry_jitter(h, 0));
  INVALID(witrpc_client_options_retry_on_status(h, 500));
  INVALID(witrpc_client_options_retry_statuses(h, NULL, 0));
  INVALID(witrpc_client_options_retry_budget(h, 1, 1));
  INVALID(witrpc_client_options_retry_no_budget(h));
  INVALID(witrpc_client_options_mark_idempotent(h, "Add"));
  INVALID(witrpc_client_options_mark_deduplicated(h, "Add"));
  INVALID(witrpc_client_options_retry_all_methods(h));
  callbacks.destroy = count_destroy;
  destroys = 0;
  INVALID(witrpc_client_options_callbacks(h, &callbacks));
  CHECK(destroys == 1);
  witrpc_client_options_free(h);
}

static void service_functions(void *h) {
  witrpc_buffer *result = (witrpc_buffer *)1;
  witrpc_call *call = NULL;
  witrpc_subscription *subscription = NULL;
  INVALID(witrpc_service_call(h, "int A()", "[]", NULL, &result, NULL));
  CHECK(result == NULL);
  INVALID(witrpc_service_call_n(h, "int A()", 7, "[]", 2, NULL, &result, NULL));
  INVALID(witrpc_service_call_encoded(h, "int A()", 7, NULL, 0, NULL, &result, NULL));
  destroys = 0;
  INVALID(witrpc_service_start(h, "int A()", "[]", NULL, never_completion, NULL, count_destroy,
                               &call, NULL));
  INVALID(witrpc_service_start_n(h, "int A()", 7, "[]", 2, NULL, never_completion, NULL,
                                 count_destroy, &call, NULL));
  INVALID(witrpc_service_start_encoded(h, "int A()", 7, NULL, 0, NULL, never_completion, NULL,
                                       count_destroy, &call, NULL));
  INVALID(witrpc_service_start_encoded_direct(h, "int A()", 7, NULL, 0, NULL, never_completion,
                                              NULL, count_destroy, &call, NULL));
  INVALID(witrpc_service_subscribe(h, "event Action E", never_event, NULL, count_destroy,
                                   &subscription, NULL));
  INVALID(witrpc_service_subscribe_n(h, "event Action E", 14, never_event, NULL, count_destroy,
                                     &subscription, NULL));
  INVALID(witrpc_service_subscribe_encoded(h, "event Action E", 14, never_encoded, NULL,
                                           count_destroy, &subscription, NULL));
  CHECK(destroys == 7);
  witrpc_service_free(h);
}

static void server_functions(void *h) {
  witrpc_server *none = NULL;
  witrpc_buffer *text = NULL;
  witrpc_server_stats stats = WITRPC_SERVER_STATS_INIT;
  INVALID(witrpc_server_start(h, &none, NULL));
  INVALID(witrpc_server_endpoint(h, 0, &text));
  INVALID(witrpc_server_raise(h, "C", "E", "[]", NULL));
  const uint8_t *id = (const uint8_t *)"0123456789abcdef";
  INVALID(witrpc_server_raise_encoded(h, WITRPC_TO_GROUP, id, "G", "C", "E", NULL, 0, NULL, NULL));
  INVALID(witrpc_server_raise_to_connection(h, id, "C", "E", "[]", NULL, NULL));
  INVALID(witrpc_server_raise_to_group(h, "G", "C", "E", "[]", NULL, NULL));
  INVALID(witrpc_server_raise_to_principal(h, "P", "C", "E", "[]", NULL, NULL));
  INVALID(witrpc_server_group_add(h, id, "G", NULL));
  INVALID(witrpc_server_group_remove(h, id, "G", NULL));
  INVALID(witrpc_server_stats_get(h, &stats));
  INVALID(witrpc_server_close_and_wait(h, 10));
  INVALID(witrpc_server_stop(h, 10));
  witrpc_server_free(h);
}

static void server_option_functions(void *h) {
  witrpc_redis_stats redis_stats = { 0 };
  redis_stats.struct_size = sizeof redis_stats;
  INVALID(witrpc_server_options_add_endpoint(h, "tcp://a:1"));
  INVALID(witrpc_server_options_serve(h, NULL));
  INVALID(witrpc_server_options_encryption(h, true));
  INVALID(witrpc_server_options_token(h, "t"));
  INVALID(witrpc_server_options_token_file(h, "f"));
  destroys = 0;
  INVALID(witrpc_server_options_validator(h, never_validator, NULL, count_destroy));
  INVALID(witrpc_server_options_validator_async(h, never_check, NULL, count_destroy));
  INVALID(witrpc_server_options_on_execute(h, never_execute, NULL, count_destroy));
  INVALID(witrpc_server_options_on_connection(h, never_connection, NULL, NULL, count_destroy));
  CHECK(destroys == 4);
  INVALID(witrpc_server_options_loop(h, NULL));
  INVALID(witrpc_server_options_event_queue(h, 1, 1, WITRPC_DROP_NEWEST));
  INVALID(witrpc_server_options_codec(h, WITRPC_CODEC_JSON));
  INVALID(witrpc_server_options_keepalive(h, 1, 1, 1));
  INVALID(witrpc_server_options_user_timeout_ms(h, 1));
  INVALID(witrpc_server_options_tls_files(h, "c", "k", NULL));
  INVALID(witrpc_server_options_max_clients(h, 1));
  INVALID(witrpc_server_options_max_frame(h, 1, 1));
  INVALID(witrpc_server_options_max_in_flight(h, 1, 1));
  INVALID(witrpc_server_options_ordered_per_connection(h));
  INVALID(witrpc_server_options_handshake_timeout_ms(h, 1));
  INVALID(witrpc_server_options_max_unsent_bytes(h, 1));
  INVALID(witrpc_server_options_ping(h, 1, 1));
  INVALID(witrpc_server_options_retry_after_ms(h, 1));
  INVALID(witrpc_server_options_strangers(h, 1, 1));
  INVALID(witrpc_server_options_max_clients_per_address(h, 1));
  INVALID(witrpc_server_options_max_waiting_bytes(h, 1));
  INVALID(witrpc_server_options_min_rate(h, 1, 1));
  INVALID(witrpc_server_options_dedup(h, 1, 1, 1, 1));
  INVALID(witrpc_server_options_redis(h, "redis://127.0.0.1:1"));
  INVALID(witrpc_server_options_redis_n(h, "redis://h", 9));
  INVALID(witrpc_server_options_redis_prefix_n(h, "p:", 2));
  INVALID(witrpc_server_options_redis_prefix(h, "p:"));
  INVALID(witrpc_server_options_redis_authorities(h, "x", 1));
  INVALID(witrpc_server_options_redis_times(h, 1, 1, 1, 1));
  INVALID(witrpc_server_options_redis_trust(h, 1, true));
  INVALID(witrpc_server_redis_stats(h, &redis_stats));
  INVALID(witrpc_server_options_journal(h, "x"));
  INVALID(witrpc_server_options_journal_n(h, "x", 1));
  INVALID(witrpc_server_options_strong_event_types(h, true));
  INVALID(witrpc_server_options_tls(h, "x", 1, "x", 1, NULL, 0));
  INVALID(witrpc_server_options_websocket_ping(h, 1, 1));
  INVALID(witrpc_server_options_websocket_fragment(h, 1));
  INVALID(witrpc_server_options_pipe_mode(h, 0600));
  witrpc_server_options_free(h);
}

static void other_functions(void *h) {
  witrpc_implementation *implementation = NULL;
  uint8_t id[16];
  CHECK(witrpc_error_code(h) == WITRPC_INVALID_HANDLE);
  CHECK(witrpc_error_name(h) == NULL && witrpc_error_message(h) == NULL);
  CHECK(witrpc_error_details(h) == NULL && witrpc_error_outcome(h) == -1);
  CHECK(witrpc_error_attempts(h) == 0 && !witrpc_error_retryable(h));
  CHECK(witrpc_error_retry_after_ms(h) == WITRPC_NO_TIMEOUT);
  witrpc_error_free(h);
  CHECK(witrpc_buffer_data(h) == NULL && witrpc_buffer_size(h) == 0);
  CHECK(witrpc_buffer_text(h) == NULL && witrpc_buffer_retain(h) == NULL);
  witrpc_buffer_free(h);
  INVALID(witrpc_call_options_timeout_ms(h, 1));
  INVALID(witrpc_call_options_idempotent(h));
  INVALID(witrpc_call_options_deduplicated(h));
  INVALID(witrpc_call_options_method_lookup(h, WITRPC_LOOKUP_NAME));
  INVALID(witrpc_call_options_trace_context(h, "t"));
  INVALID(witrpc_call_options_trace_context_n(h, "t", 1));
  INVALID(witrpc_call_options_invocation_id(h, (const uint8_t *)"0123456789abcdef"));
  witrpc_call_options_free(h);
  INVALID(witrpc_call_cancel(h));
  witrpc_call_free(h);
  witrpc_subscription_stats stats = WITRPC_SUBSCRIPTION_STATS_INIT;
  CHECK(witrpc_subscription_dropped(h) == 0);
  INVALID(witrpc_subscription_stats_get(h, &stats));
  witrpc_subscription_free(h);
  INVALID(witrpc_token_answer(h, "t", 1));
  INVALID(witrpc_token_fail(h, "no"));
  witrpc_token_free(h);
  CHECK(witrpc_check_token(h) == NULL && witrpc_check_peer(h) == NULL);
  INVALID(witrpc_check_accept(h, "a"));
  INVALID(witrpc_check_refuse(h));
  witrpc_check_free(h);
  INVALID(witrpc_implementation_of(h, &implementation, NULL));
  witrpc_contract_free(h);
  destroys = 0;
  INVALID(witrpc_implementation_handle(h, "int A()", never_handler, NULL, count_destroy, NULL));
  INVALID(
      witrpc_implementation_handle_encoded(h, "int A()", never_handler, NULL, count_destroy, NULL));
  CHECK(destroys == 2);
  INVALID(witrpc_implementation_durable(h, "A", NULL));
  INVALID(witrpc_implementation_resolver(h, "A", never_handler, NULL, count_destroy, NULL));
  CHECK(destroys == 3);
  witrpc_implementation_free(h);
  CHECK(witrpc_request_method(h) == NULL && witrpc_request_arguments(h) == NULL);
  CHECK(witrpc_request_principal(h) == NULL && witrpc_request_peer(h) == NULL);
  CHECK(witrpc_request_type_argument(h, 0) == NULL);
  INVALID(witrpc_request_invocation_id(h, id));
  size_t size = 7;
  CHECK(!witrpc_request_is_cancelled(h));
  CHECK(witrpc_request_may_be_repetition(h));
  INVALID(witrpc_request_not_executed(h, NULL));
  INVALID(witrpc_request_wait_cancelled(h, 1));
  CHECK(witrpc_request_remaining_ms(h) == WITRPC_NO_TIMEOUT);
  CHECK(witrpc_request_trace_context(h, &size) == NULL && size == 0);
  CHECK(witrpc_request_trace_context(h, NULL) == NULL);
  INVALID(witrpc_request_reply(h, "1", NULL));
  INVALID(witrpc_request_reply_n(h, "1", 1, NULL));
  INVALID(witrpc_request_fail(h, "no", NULL));
  INVALID(witrpc_request_refuse(h, "no", NULL));
  INVALID(witrpc_request_reply_encoded(h, NULL, 0, NULL));
  size = 1;
  CHECK(witrpc_request_argument_count(h) == 0);
  CHECK(witrpc_request_argument(h, 0, &size) == NULL && size == 0);
  INVALID(witrpc_request_raise(h, "event Action E", "[]", NULL));
  INVALID(witrpc_request_raise_to_caller(h, "event Action E", "[]", NULL));
  INVALID(witrpc_request_raise_to_others(h, "event Action E", "[]", NULL));
  INVALID(witrpc_request_raise_to_group(h, "G", "event Action E", "[]", NULL));
  INVALID(witrpc_request_connection(h, id));
  INVALID(witrpc_request_join(h, "G", NULL));
  INVALID(witrpc_request_leave(h, "G", NULL));
  witrpc_request_free(h);
  INVALID(witrpc_connection_id(h, id));
  CHECK(witrpc_connection_principal(h) == NULL && witrpc_connection_peer(h) == NULL);
  INVALID(witrpc_connection_join(h, "G", NULL));
}

static void all_functions(void *h) {
  loop_functions(h);
  client_functions(h);
  client_option_functions(h);
  service_functions(h);
  server_functions(h);
  server_option_functions(h);
  other_functions(h);
}

static void null_handles(void) { all_functions(NULL); }

static void pointers_that_are_no_handles(void) {
  int on_stack = 0;
  void *on_heap = malloc(64);
  all_functions(&on_stack);
  all_functions(on_heap);
  all_functions((void *)1);
  all_functions((void *)-1);
  all_functions((void *)(uintptr_t)0xdeadbeef);
  free(on_heap);
}

/* One handle of each kind, freed. */
static void freed_handles(void) {
  witrpc_client_options *options = quick_options();
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  witrpc_call_options *call_options = NULL;
  witrpc_contract *contract = NULL;
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *server_options = NULL;
  witrpc_subscription *subscription = NULL;
  witrpc_buffer *buffer = NULL;
  witrpc_error *error = NULL;
  witrpc_call_options_new(&call_options);
  witrpc_contract_from_json("{\"contract\":\"Demo.IX\"}", &contract, NULL);
  witrpc_implementation_of(contract, &implementation, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &server_options, NULL);
  witrpc_service_subscribe(service, "event Action E", never_event, NULL, NULL, &subscription, NULL);
  witrpc_service_call(service, "int Add(int,int)", "[1,2]", NULL, &buffer, NULL);
  witrpc_service_call(service, "void Fail()", "[]", NULL, NULL, &error);
  NEED(options && client && service && call_options && contract && implementation &&
       server_options && subscription && buffer && error);
  for (int round = 0; round < 2; round++) {
    witrpc_error_free(error);
    witrpc_buffer_free(buffer);
    witrpc_subscription_free(subscription);
    witrpc_server_options_free(server_options);
    witrpc_implementation_free(implementation);
    witrpc_contract_free(contract);
    witrpc_call_options_free(call_options);
    witrpc_service_free(service);
    witrpc_client_free(client);
    witrpc_client_options_free(options);
  }
  all_functions(options);
  all_functions(client);
  all_functions(service);
  all_functions(call_options);
  all_functions(contract);
  all_functions(implementation);
  all_functions(server_options);
  all_functions(subscription);
  all_functions(buffer);
  all_functions(error);
}

static void live_handles_of_another_kind(void) {
  witrpc_call_options *other = NULL;
  witrpc_client_options *options = NULL;
  witrpc_call_options_new(&other);
  client_functions(other);
  client_option_functions(other);
  service_functions(other);
  server_functions(other);
  server_option_functions(other);
  CHECK(witrpc_call_options_idempotent(other) == WITRPC_OK);
  witrpc_call_options_free(other);
  witrpc_client_options_new("tcp://127.0.0.1:1", &options, NULL);
  other_functions(options);
  CHECK(witrpc_client_options_reconnect(options) == WITRPC_OK);
  witrpc_client_options_free(options);
}

#define WRONG(call) CHECK((call) == WITRPC_INVALID_ARGUMENT)

static void missing_arguments(void) {
  witrpc_client_options *options = quick_options();
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  witrpc_call_options *call_options = NULL;
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *server_options = NULL;
  witrpc_contract *contract = NULL;
  witrpc_subscription *subscription = NULL;
  witrpc_client_stats small = { 3, 0, 0, 0, 0, 0, 0 };
  witrpc_client_callbacks unsized_callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  unsized_callbacks.struct_size = 0;
  witrpc_client_options *no_options = NULL;
  witrpc_service *no_service = NULL;
  WRONG(witrpc_client_options_new(NULL, &no_options, NULL));
  WRONG(witrpc_client_options_new("tcp://a:1", NULL, NULL));
  WRONG(witrpc_client_options_new_n(NULL, 5, &no_options, NULL));
  WRONG(witrpc_client_options_add_endpoint(options, NULL));
  WRONG(witrpc_client_options_token(options, NULL));
  WRONG(witrpc_client_options_token_file(options, NULL));
  WRONG(witrpc_client_options_mark_idempotent(options, NULL));
  WRONG(witrpc_client_options_mark_deduplicated(options, NULL));
  WRONG(witrpc_client_options_tls_authorities(options, NULL, 1));
  WRONG(witrpc_client_options_tls_authorities_file(options, NULL));
  WRONG(witrpc_client_options_tls_identity_files(options, NULL, NULL));
  WRONG(witrpc_client_options_tls_identity_files(options, "c", BAD_TEXT));
  WRONG(witrpc_client_options_codec(options, 5));
  WRONG(witrpc_client_options_codec(options, -1));
  WRONG(witrpc_client_options_tls_server_name(options, NULL));
  WRONG(witrpc_client_options_tls_pin(options, NULL));
  WRONG(witrpc_client_options_tls_identity(options, NULL, 1, NULL, 1));
  WRONG(witrpc_client_options_callbacks(options, NULL));
  WRONG(witrpc_client_options_callbacks(options, &unsized_callbacks));
  WRONG(witrpc_client_options_reconnect_jitter(options, 4, false));
  WRONG(witrpc_client_options_retry_jitter(options, -1));
  WRONG(witrpc_client_options_method_lookup(options, 3));
  WRONG(witrpc_client_options_type_names(options, -1));
  WRONG(witrpc_client_options_retry_delays(options, 1, 1, 3, 1.0));
  destroys = 0;
  WRONG(witrpc_client_options_token_provider(options, NULL, NULL, count_destroy));
  CHECK(destroys == 1);
  WRONG(witrpc_client_new(options, NULL, NULL));
  WRONG(witrpc_client_options_name(options, NULL));
  WRONG(witrpc_client_options_name(options, BAD_TEXT));
  CHECK(witrpc_client_options_loop(options, (witrpc_loop *)(uintptr_t)0xdeadbeef) ==
        WITRPC_INVALID_HANDLE);
  CHECK(witrpc_client_options_loop(options, (witrpc_loop *)client) == WITRPC_INVALID_HANDLE);
  witrpc_client_options *named = (witrpc_client_options *)1;
  WRONG(witrpc_client_options_named(NULL, NULL, &named, NULL));
  CHECK(named == NULL);
  WRONG(witrpc_client_options_named("no/such.toml", "X", &named, NULL));
  WRONG(witrpc_client_options_named(BAD_TEXT, "X", &named, NULL));
  WRONG(witrpc_client_options_named(NULL, "X", NULL, NULL));
  WRONG(witrpc_loop_new(NULL, NULL));
  WRONG(witrpc_client_health_get(client, NULL, NULL));
  WRONG(witrpc_client_check_health(client, 10, NULL, NULL));
  WRONG(witrpc_client_name(client, NULL));
  destroys = 0;
  WRONG(witrpc_log_to(WITRPC_LOG_INFO, NULL, NULL, count_destroy, NULL));
  WRONG(witrpc_log_to(0, never_log, NULL, count_destroy, NULL));
  WRONG(witrpc_log_to(6, never_log, NULL, count_destroy, NULL));
  CHECK(destroys == 3);
  witrpc_log_off();
  CHECK(witrpc_log_dropped() == 0);
  witrpc_client_options *never_ping = quick_options();
  witrpc_client *no_client = NULL;
  CHECK(witrpc_client_options_ping(never_ping, 0, 1) == WITRPC_OK);
  WRONG(witrpc_client_new(never_ping, &no_client, NULL));
  witrpc_client_options_free(never_ping);
  WRONG(witrpc_client_wait_state(client, 17, 0));
  WRONG(witrpc_client_stats_get(client, NULL));
  WRONG(witrpc_client_stats_get(client, &small));
  WRONG(witrpc_client_connect_start(client, NULL, NULL, NULL, NULL));
  WRONG(witrpc_client_service(client, NULL, &no_service, NULL));
  WRONG(witrpc_client_service(client, "Demo.ITest", NULL, NULL));
  WRONG(witrpc_client_service_n(client, NULL, 3, NULL, NULL));
  WRONG(witrpc_service_call(service, NULL, "[]", NULL, NULL, NULL));
  WRONG(witrpc_service_call(service, "int A()", NULL, NULL, NULL, NULL));
  WRONG(witrpc_service_call_n(service, "int A()", 7, NULL, 2, NULL, NULL, NULL));
  WRONG(witrpc_service_call_encoded(service, "int A(int)", 10, NULL, 1, NULL, NULL, NULL));
  WRONG(witrpc_service_start(service, "int Add(int,int)", "[1,2]", NULL, NULL, NULL, NULL, NULL,
                             NULL));
  WRONG(witrpc_service_subscribe(service, "event Action E", NULL, NULL, NULL, &subscription, NULL));
  WRONG(witrpc_service_subscribe(service, "event Action E", never_event, NULL, NULL, NULL, NULL));
  WRONG(witrpc_service_subscribe_encoded(service, "event Action E", 14, NULL, NULL, NULL,
                                         &subscription, NULL));
  WRONG(witrpc_service_subscribe_encoded(service, NULL, 14, never_encoded, NULL, NULL,
                                         &subscription, NULL));
  WRONG(witrpc_service_subscribe_encoded(service, "event Action E", 14, never_encoded, NULL, NULL,
                                         NULL, NULL));
  WRONG(witrpc_client_probe_start(client, 10, NULL, NULL, NULL, NULL));
  WRONG(witrpc_client_options_retry_statuses(options, NULL, 1));
  WRONG(witrpc_call_options_new(NULL));
  witrpc_call_options_new(&call_options);
  WRONG(witrpc_call_options_invocation_id(call_options, NULL));
  WRONG(witrpc_call_options_method_lookup(call_options, 3));
  WRONG(witrpc_call_options_trace_context(call_options, NULL));
  WRONG(witrpc_call_options_trace_context_n(call_options, NULL, 1));
  WRONG(witrpc_call_options_trace_context(call_options, BAD_TEXT));
  CHECK(witrpc_call_options_trace_context_n(call_options, NULL, 0) == WITRPC_OK);
  WRONG(witrpc_contract_from_json(NULL, &contract, NULL));
  WRONG(witrpc_contract_from_json("{}", &contract, NULL));
  WRONG(witrpc_contract_from_json("{\"contract\":\"Demo.IX\"}", NULL, NULL));
  WRONG(witrpc_contract_from_json_n(NULL, 2, &contract, NULL));
  WRONG(witrpc_contract_from_file(NULL, &contract, NULL));
  WRONG(witrpc_contract_from_file("/no/such/file", &contract, NULL));
  WRONG(witrpc_contract_from_file("/", &contract, NULL));
  WRONG(witrpc_contract_from_file("tests/vectors/values.json", &contract, NULL));
  WRONG(witrpc_implementation_new(NULL, &implementation, NULL));
  WRONG(witrpc_implementation_new("not a name", &implementation, NULL));
  WRONG(witrpc_implementation_new("Demo.IX", NULL, NULL));
  witrpc_implementation_new("Demo.IX", &implementation, NULL);
  WRONG(witrpc_implementation_handle(implementation, NULL, never_handler, NULL, NULL, NULL));
  WRONG(witrpc_implementation_handle(implementation, "int A()", NULL, NULL, NULL, NULL));
  WRONG(witrpc_implementation_handle(implementation, "int A(", never_handler, NULL, NULL, NULL));
  WRONG(witrpc_implementation_handle_encoded(implementation, NULL, NULL, NULL, NULL, NULL));
  WRONG(witrpc_implementation_durable(implementation, NULL, NULL));
  WRONG(witrpc_implementation_resolver(implementation, "A", NULL, NULL, NULL, NULL));
  WRONG(witrpc_server_options_new(NULL, &server_options, NULL));
  witrpc_server_options_new("tcp://127.0.0.1:0", &server_options, NULL);
  WRONG(witrpc_server_options_add_endpoint(server_options, NULL));
  WRONG(witrpc_server_options_redis_prefix(server_options, "p:"));
  WRONG(witrpc_server_options_redis_authorities(server_options, "x", 1));
  WRONG(witrpc_server_options_redis_trust(server_options, 0, false));
  WRONG(witrpc_server_options_redis(server_options, NULL));
  WRONG(witrpc_server_options_redis_n(server_options, NULL, 1));
  WRONG(witrpc_server_options_redis_prefix_n(server_options, "p:", 2));
  WRONG(witrpc_server_options_redis(server_options, BAD_TEXT));
  WRONG(witrpc_implementation_durable(implementation, BAD_TEXT, NULL));
  WRONG(witrpc_server_options_journal(server_options, NULL));
  WRONG(witrpc_server_options_journal_n(server_options, NULL, 1));
  WRONG(witrpc_server_options_token(server_options, NULL));
  WRONG(witrpc_server_options_tls(server_options, NULL, 1, NULL, 1, NULL, 1));
  WRONG(witrpc_server_options_token_file(server_options, NULL));
  WRONG(witrpc_server_options_validator(server_options, NULL, NULL, NULL));
  WRONG(witrpc_server_options_validator_async(server_options, NULL, NULL, NULL));
  WRONG(witrpc_server_options_codec(server_options, 5));
  WRONG(witrpc_server_options_codec(server_options, -1));
  WRONG(witrpc_server_options_tls_files(server_options, NULL, "k", NULL));
  WRONG(witrpc_server_options_tls_files(server_options, "c", BAD_TEXT, NULL));
  WRONG(witrpc_server_options_tls_files(server_options, "c", "k", BAD_TEXT));
  WRONG(witrpc_server_options_on_execute(server_options, NULL, NULL, NULL));
  WRONG(witrpc_server_endpoint(server, 99, NULL));
  WRONG(witrpc_server_raise(server, NULL, NULL, NULL, NULL));
  for (int audience = -1; audience <= 5; audience++)
    WRONG(witrpc_server_raise_encoded(server, audience, NULL, NULL, "Demo.ITest", "event Action E",
                                      NULL, audience == WITRPC_TO_ALL, NULL, NULL));
  WRONG(witrpc_server_stats_get(server, NULL));
  WRONG(witrpc_server_raise_to_connection(server, NULL, "Demo.ITest", "event Action E", "[]", NULL,
                                          NULL));
  WRONG(
      witrpc_server_raise_to_group(server, NULL, "Demo.ITest", "event Action E", "[]", NULL, NULL));
  WRONG(witrpc_server_raise_to_principal(server, NULL, "Demo.ITest", "event Action E", "[]", NULL,
                                         NULL));
  WRONG(witrpc_server_group_add(server, NULL, "G", NULL));
  WRONG(witrpc_server_group_add(server, (const uint8_t *)"0123456789abcdef", NULL, NULL));
  WRONG(witrpc_server_group_remove(server, NULL, "G", NULL));
  CHECK(witrpc_client_state(client) == WITRPC_CONNECTED);
  witrpc_server_options_free(server_options);
  witrpc_implementation_free(implementation);
  witrpc_call_options_free(call_options);
  witrpc_service_free(service);
  witrpc_client_free(client);
  witrpc_client_options_free(options);
}

static void options_that_make_no_sense(void) {
  static const char *const endpoints[] = { "", "http://a:1", "tcp://a", "tcp://*:1", "tcp://a:0" };
  for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
    witrpc_client_options *options = NULL;
    witrpc_client *client = NULL;
    witrpc_error *error = NULL;
    witrpc_client_options_new(endpoints[i], &options, NULL);
    WRONG(witrpc_client_new(options, &client, &error));
    CHECK(client == NULL && contains(witrpc_error_message(error), "endpoint"));
    witrpc_error_free(error);
    witrpc_client_options_free(options);
  }
  witrpc_client_options *options = quick_options();
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  witrpc_client_options_reconnect_delays(options, 1000, 10, 2.0);
  WRONG(witrpc_client_new(options, &client, &error));
  CHECK(contains(witrpc_error_message(error), "reconnect.max_delay"));
  witrpc_error_free(error);
  witrpc_client_options_reconnect_delays(options, 10, 100, 0.5);
  WRONG(witrpc_client_new(options, &client, NULL));
  witrpc_client_options_reconnect_delays(options, 10, 100, 2.0);
  witrpc_client_options_mark_idempotent(options, "not a name");
  WRONG(witrpc_client_new(options, &client, &error));
  CHECK(contains(witrpc_error_message(error), "not a name"));
  witrpc_error_free(error);
  witrpc_client_options_free(options);
  witrpc_server_options *server_options = NULL;
  witrpc_server *none = NULL;
  witrpc_server_options_new("tcp://127.0.0.1:0", &server_options, NULL);
  WRONG(witrpc_server_start(server_options, &none, NULL));
  witrpc_server_options_free(server_options);
}

static void text_that_is_not_utf8(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client), *other = NULL;
  witrpc_client_options *options = NULL;
  witrpc_error *error = NULL;
  WRONG(witrpc_client_options_new(BAD_TEXT, &options, &error));
  CHECK(contains(witrpc_error_message(error), "endpoint is not UTF-8 at byte 4"));
  witrpc_error_free(error);
  WRONG(witrpc_client_options_new_n("\xff", 1, &options, NULL));
  options = quick_options();
  WRONG(witrpc_client_options_add_endpoint(options, BAD_TEXT));
  WRONG(witrpc_client_options_token(options, BAD_TEXT));
  WRONG(witrpc_client_options_token_file(options, BAD_TEXT));
  WRONG(witrpc_client_options_mark_idempotent(options, BAD_TEXT));
  WRONG(witrpc_client_options_mark_deduplicated(options, BAD_TEXT));
  witrpc_client_options_free(options);
  WRONG(witrpc_client_service(client, BAD_TEXT, &other, NULL));
  WRONG(witrpc_client_service_n(client, "\xc3", 1, &other, NULL));
  WRONG(witrpc_service_call(service, BAD_TEXT, "[]", NULL, NULL, NULL));
  WRONG(witrpc_service_call(service, "int Add(int,int)", "[\"" BAD_TEXT "\"]", NULL, NULL, NULL));
  WRONG(witrpc_service_call_n(service, "\xff", 1, "[]", 2, NULL, NULL, NULL));
  WRONG(witrpc_service_call_encoded(service, "\xff", 1, NULL, 0, NULL, NULL, NULL));
  WRONG(witrpc_service_start(service, BAD_TEXT, "[]", NULL, never_completion, NULL, NULL, NULL,
                             NULL));
  WRONG(witrpc_service_start_n(service, "\xff", 1, "[]", 2, NULL, never_completion, NULL, NULL,
                               NULL, NULL));
  WRONG(witrpc_service_start_encoded_direct(service, "\xff", 1, NULL, 0, NULL, never_completion,
                                            NULL, NULL, NULL, NULL));
  WRONG(witrpc_service_start_encoded(service, "\xff", 1, NULL, 0, NULL, never_completion, NULL,
                                     NULL, NULL, NULL));
  witrpc_subscription *subscription = NULL;
  WRONG(witrpc_service_subscribe(service, BAD_TEXT, never_event, NULL, NULL, &subscription, NULL));
  WRONG(
      witrpc_service_subscribe_n(service, "\xff", 1, never_event, NULL, NULL, &subscription, NULL));
  witrpc_contract *contract = NULL;
  WRONG(witrpc_contract_from_json(BAD_TEXT, &contract, NULL));
  WRONG(witrpc_contract_from_json_n("\xff", 1, &contract, NULL));
  witrpc_implementation *implementation = NULL;
  WRONG(witrpc_implementation_new(BAD_TEXT, &implementation, NULL));
  witrpc_server_options *server_options = NULL;
  WRONG(witrpc_server_options_new(BAD_TEXT, &server_options, NULL));
  WRONG(witrpc_server_raise(server, "Demo.ITest", BAD_TEXT, "[]", NULL));
  /* A size that cuts a character, an embedded NUL, a C string without an end in sight: sizes rule.
   */
  WRONG(witrpc_service_call_n(service, "int Add(int,int)\0x", 18, "[1,2]", 5, NULL, NULL, NULL));
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static counter inside = COUNTER_INIT;

static void misuse_inside_a_callback(void *user_data, int32_t state) {
  (void)user_data, (void)state;
  all_functions(NULL);
  all_functions((void *)(uintptr_t)0xdeadbeef);
  CHECK(witrpc_shutdown(10) == WITRPC_WOULD_DEADLOCK);
  counter_add(&inside, 1);
}

static void misuse_inside_a_handler(void *user_data, witrpc_request *request) {
  (void)user_data;
  uint8_t id[16];
  all_functions(NULL);
  client_functions(request);
  CHECK(witrpc_server_stop(server, 10) == WITRPC_WOULD_DEADLOCK);
  CHECK(witrpc_server_close_and_wait(server, 10) == WITRPC_WOULD_DEADLOCK);
  CHECK(witrpc_shutdown(10) == WITRPC_WOULD_DEADLOCK);
  WRONG(witrpc_request_invocation_id(request, NULL));
  CHECK(witrpc_request_invocation_id(request, id) == WITRPC_OK);
  WRONG(witrpc_request_reply(request, BAD_TEXT, NULL));
  WRONG(witrpc_request_reply_n(request, NULL, 4, NULL));
  WRONG(witrpc_request_fail(request, BAD_TEXT, NULL));
  WRONG(witrpc_request_refuse(request, BAD_TEXT, NULL));
  WRONG(witrpc_request_refuse(request, NULL, NULL));
  WRONG(witrpc_request_reply_encoded(request, NULL, 4, NULL));
  CHECK(witrpc_request_argument(request, 0, NULL) == NULL);
  WRONG(witrpc_request_raise(request, NULL, "[]", NULL));
  WRONG(witrpc_request_raise(request, "event Action<int> E", "[\"x\"]", NULL));
  CHECK(text_is(witrpc_request_method(request), "Misuse"));
  CHECK(witrpc_request_type_argument(request, 0) == NULL);
  CHECK(witrpc_request_type_argument(request, SIZE_MAX) == NULL);
  CHECK(text_is(witrpc_request_principal(request), ""));
  CHECK(!witrpc_request_is_cancelled(request));
  CHECK(witrpc_request_wait_cancelled(request, 1) == WITRPC_TIMEOUT);
  CHECK(contains(witrpc_request_peer(request), "127.0.0.1:"));
  CHECK(witrpc_request_reply(request, NULL, NULL) == WITRPC_OK);
  INVALID(witrpc_request_reply(request, NULL, NULL));
  witrpc_request_free(request);
  counter_add(&inside, 1);
}

static void from_inside_callbacks_and_handlers(void) {
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  witrpc_client_options *options = quick_options();
  callbacks.on_state_changed = misuse_inside_a_callback;
  witrpc_client_options_callbacks(options, &callbacks);
  witrpc_client *client = connected(options);
  counter_wait(&inside, 1);
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *server_options = NULL;
  witrpc_server *own = NULL;
  witrpc_buffer *where = NULL;
  witrpc_implementation_new("Demo.IOwn", &implementation, NULL);
  witrpc_implementation_handle(implementation, "void Misuse()", misuse_inside_a_handler, NULL, NULL,
                               NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &server_options, NULL);
  witrpc_server_options_serve(server_options, implementation);
  NEED(witrpc_server_start(server_options, &own, NULL) == WITRPC_OK);
  witrpc_server_endpoint(own, 0, &where);
  witrpc_client_options *own_options = NULL;
  witrpc_client_options_new(witrpc_buffer_text(where), &own_options, NULL);
  witrpc_client *own_client = connected(own_options);
  witrpc_service *service = NULL;
  witrpc_client_service(own_client, "Demo.IOwn", &service, NULL);
  CHECK(witrpc_service_call(service, "void Misuse()", "[]", NULL, NULL, NULL) == WITRPC_OK);
  counter_wait(&inside, 2);
  witrpc_service_free(service);
  witrpc_client_free(own_client);
  CHECK(witrpc_server_stop(own, 20000) == WITRPC_OK);
  CHECK(witrpc_server_stop(own, 20000) == WITRPC_OK);
  witrpc_server_free(own);
  witrpc_buffer_free(where);
  witrpc_server_options_free(server_options);
  witrpc_implementation_free(implementation);
  witrpc_client_free(client);
}

static void names_and_versions(void) {
  CHECK(witrpc_abi_version() == WITRPC_ABI_VERSION && WITRPC_CHECK_ABI());
  CHECK(contains(witrpc_version(), "."));
  CHECK(text_is(witrpc_status_name(WITRPC_TIMEOUT), "timeout"));
  CHECK(text_is(witrpc_status_name(-5), "unknown") && text_is(witrpc_status_name(1000), "unknown"));
}

static void shutdown_ends_everything(void) { CHECK(witrpc_shutdown(20000) == WITRPC_OK); }

int main(void) {
  watchdog(300);
  start_server("tcp://127.0.0.1:0");
  RUN(names_and_versions);
  RUN(null_handles);
  RUN(pointers_that_are_no_handles);
  RUN(freed_handles);
  RUN(live_handles_of_another_kind);
  RUN(missing_arguments);
  RUN(options_that_make_no_sense);
  RUN(text_that_is_not_utf8);
  RUN(from_inside_callbacks_and_handlers);
  kill_server();
  RUN(shutdown_ends_everything);
  return summary();
}
