/* Token providers and validators that answer later, on a thread of their own. */
#include "fixture.h"

/* One answer that is due. */
typedef struct {
  void *handle;
  const char *text;
} due;

static counter asked = COUNTER_INIT;
static counter checked = COUNTER_INIT;
static counter let_go = COUNTER_INIT;
static counter gone = COUNTER_INIT;
/* What the provider gives: a token, or NULL for a failure. */
static const char *_Atomic given;
/* The checks wait until they are let go. */
static atomic_bool waits;
static char peer_seen[64], principal_seen[64];

static void *answer_later(void *argument) {
  due *d = argument;
  witrpc_token *answer = d->handle;
  if (d->text == NULL) {
    CHECK(witrpc_token_fail(answer, "the vault is shut") == WITRPC_OK);
  } else if (d->text[0] == '\0') {
    witrpc_token_free(answer);
  } else {
    CHECK(witrpc_token_answer(answer, d->text, strlen(d->text)) == WITRPC_OK);
  }
  /* It has ended, either way. */
  CHECK(witrpc_token_answer(answer, "x", 1) == WITRPC_INVALID_HANDLE);
  free(d);
  counter_add(&gone, 1);
  return NULL;
}

static void start(void *(*run)(void *), void *handle, const char *text) {
  due *d = malloc(sizeof *d);
  pthread_t thread;
  d->handle = handle;
  d->text = text;
  pthread_create(&thread, NULL, run, d);
  pthread_detach(thread);
}

static void provider(void *user_data, witrpc_token *answer) {
  (void)user_data;
  counter_add(&asked, 1);
  start(answer_later, answer, atomic_load(&given));
}

static void *check_later(void *argument) {
  due *d = argument;
  witrpc_check *check = d->handle;
  const char *token = witrpc_check_token(check);
  if (atomic_load(&waits)) counter_wait(&let_go, 1);
  if (text_is(token, "ann") || text_is(token, "ben")) {
    CHECK(witrpc_check_accept(check, token) == WITRPC_OK);
  } else if (text_is(token, "nobody")) {
    CHECK(witrpc_check_accept(check, NULL) == WITRPC_OK);
  } else if (text_is(token, "dropped")) {
    witrpc_check_free(check);
  } else {
    CHECK(witrpc_check_refuse(check) == WITRPC_OK);
  }
  CHECK(witrpc_check_refuse(check) == WITRPC_INVALID_HANDLE);
  CHECK(witrpc_check_token(check) == NULL);
  free(d);
  counter_add(&gone, 1);
  return NULL;
}

static void validator(void *user_data, witrpc_check *check) {
  CHECK(user_data == &checked);
  snprintf(peer_seen, sizeof peer_seen, "%s", witrpc_check_peer(check));
  counter_add(&checked, 1);
  start(check_later, check, NULL);
}

static void validates_later(witrpc_server_options *options) {
  CHECK(witrpc_server_options_validator_async(options, validator, &checked, NULL) == WITRPC_OK);
}

static witrpc_client_options *with_provider(const char *token) {
  witrpc_client_options *options = quick_options();
  atomic_store(&given, token);
  CHECK(witrpc_client_options_token_provider_async(options, provider, &asked, NULL) == WITRPC_OK);
  return options;
}

static void both_answer_later(void) {
  int sum = 0;
  witrpc_client *client = connected(with_provider("ann"));
  witrpc_service *service = service_of(client);
  CHECK(add(service, 2, 3, &sum) == WITRPC_OK && sum == 5);
  CHECK(contains(peer_seen, "127.0.0.1:"));
  /* The handshake and the call. */
  CHECK(counter_get(&checked) == 2);
  /* A refused call asks once more. */
  int before = counter_get(&asked);
  atomic_store(&given, "ben");
  CHECK(add(service, 1, 1, &sum) == WITRPC_OK && sum == 2);
  CHECK(counter_get(&asked) == before);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void refused(const char *token, int status, const char *text) {
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  witrpc_client_options *options = NULL;
  /* No way back by itself: the first failure is told. */
  witrpc_client_options_new(endpoint, &options, NULL);
  atomic_store(&given, token);
  witrpc_client_options_token_provider_async(options, provider, &asked, NULL);
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_connect(client, &error) == status);
  CHECK(contains(witrpc_error_message(error), text) || contains(witrpc_error_details(error), text));
  witrpc_error_free(error);
  witrpc_client_free(client);
}

static void who_is_refused_learns_why(void) {
  refused("mallory", WITRPC_UNAUTHORIZED, "refused the token");
  refused("dropped", WITRPC_UNAUTHORIZED, "refused the token");
  refused(NULL, WITRPC_TRANSPORT, "the vault is shut");
  refused("", WITRPC_TRANSPORT, "has no token");
}

static void handle_principal(void *user_data, witrpc_request *request) {
  (void)user_data;
  snprintf(principal_seen, sizeof principal_seen, "%s", witrpc_request_principal(request));
  witrpc_request_reply(request, NULL, NULL);
}

static void the_principal_reaches_the_handler(void) {
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *options = NULL;
  witrpc_buffer *text = NULL;
  kill_server();
  witrpc_implementation_new("Demo.ITest", &implementation, NULL);
  witrpc_implementation_handle(implementation, "void Who()", handle_principal, NULL, NULL, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, implementation);
  witrpc_implementation_free(implementation);
  validates_later(options);
  witrpc_server_start(options, &server, NULL);
  witrpc_server_options_free(options);
  witrpc_server_endpoint(server, 0, &text);
  snprintf(endpoint, sizeof endpoint, "%s", witrpc_buffer_text(text));
  witrpc_buffer_free(text);
  const char *tokens[] = { "ann", "nobody" }, *principals[] = { "ann", "" };
  for (int i = 0; i < 2; i++) {
    witrpc_client *client = connected(with_provider(tokens[i]));
    witrpc_service *service = service_of(client);
    CHECK(witrpc_service_call(service, "void Who()", "[]", NULL, NULL, NULL) == WITRPC_OK);
    CHECK(text_is(principal_seen, principals[i]));
    witrpc_service_free(service);
    witrpc_client_free(client);
  }
}

static void ignore(void *user_data, int32_t status, const witrpc_error *error) {
  (void)user_data, (void)status, (void)error;
}

/* Its server goes while a check is open: nothing waits for it, nothing crashes. */
static void a_check_may_outlive_its_server(void) {
  kill_server();
  configure = validates_later;
  start_server("tcp://127.0.0.1:0");
  int before = counter_get(&checked);
  atomic_store(&waits, true);
  witrpc_client *client = NULL;
  witrpc_client_options *options = with_provider("ann");
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_connect_start(client, ignore, NULL, NULL, NULL) == WITRPC_OK);
  counter_wait(&checked, before + 1);
  kill_server();
  witrpc_client_close_and_wait(client, 20000);
  witrpc_client_free(client);
  atomic_store(&waits, false);
  counter_add(&let_go, 1);
}

static void a_wrong_function_is_refused_and_its_data_destroyed(void) {
  counter destroys = COUNTER_INIT;
  witrpc_client_options *options = quick_options();
  CHECK(witrpc_client_options_token_provider_async(options, NULL, &destroys, destroyed) ==
        WITRPC_INVALID_ARGUMENT);
  CHECK(counter_get(&destroys) == 1);
  witrpc_client_options_free(options);
}

int main(void) {
  watchdog(600);
  configure = validates_later;
  start_server("tcp://127.0.0.1:0");
  RUN(both_answer_later);
  RUN(who_is_refused_learns_why);
  RUN(the_principal_reaches_the_handler);
  RUN(a_check_may_outlive_its_server);
  RUN(a_wrong_function_is_refused_and_its_data_destroyed);
  kill_server();
  /* Every thread of ours has ended. */
  counter_wait(&gone, counter_get(&asked) + counter_get(&checked));
  CHECK(witrpc_shutdown(20000) == WITRPC_OK);
  return summary();
}
