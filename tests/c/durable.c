/* Durable methods: a journal over two lives of a server, and a resolver for what was cut off
 * between them. */
#include "fixture.h"

static char journal[128], left_behind[160];
static const char *directory;
static counter gone = COUNTER_INIT;
static counter asked = COUNTER_INIT;
/* What the resolver says: a result, "fail", "run", or NULL for nothing. */
static const char *_Atomic verdict;
static _Atomic bool without_durable;

static void *slow_commit(void *argument) {
  witrpc_request_reply(argument, "41", NULL);
  return NULL;
}

static void handle_pay(void *user_data, witrpc_request *request) {
  CHECK(user_data == &gone);
  CHECK(witrpc_request_may_be_repetition(request));
  handle_add(NULL, request);
}

static void handle_refused(void *user_data, witrpc_request *request) {
  (void)user_data;
  CHECK(witrpc_request_not_executed(request, NULL) == WITRPC_OK);
  CHECK(witrpc_request_not_executed(request, NULL) == WITRPC_INVALID_HANDLE);
  CHECK(witrpc_request_may_be_repetition(request));
}

static void resolve(void *user_data, witrpc_request *request) {
  uint8_t id[16];
  const char *says = atomic_load(&verdict);
  CHECK(user_data == &gone);
  CHECK(text_is(witrpc_request_method(request), "Wait"));
  CHECK(witrpc_request_invocation_id(request, id) == WITRPC_OK && id[0] == 9);
  counter_add(&asked, 1);
  if (says == NULL) {
    witrpc_request_free(request);
  } else if (text_is(says, "fail")) {
    witrpc_request_fail(request, "it said no", NULL);
  } else if (text_is(says, "run")) {
    witrpc_request_not_executed(request, NULL);
  } else {
    witrpc_request_reply(request, says, NULL);
  }
}

static void serve_durable(witrpc_server_options *options) {
  witrpc_implementation *bank = NULL;
  witrpc_implementation_new("Demo.IBank", &bank, NULL);
  CHECK(witrpc_implementation_handle(bank, "int Pay(int a, int b)", handle_pay, &gone, NULL,
                                     NULL) == WITRPC_OK);
  CHECK(witrpc_implementation_handle(bank, "int Wait()", handle_hold, NULL, NULL, NULL) ==
        WITRPC_OK);
  CHECK(witrpc_implementation_handle(bank, "void Refused()", handle_refused, NULL, NULL, NULL) ==
        WITRPC_OK);
  if (!atomic_load(&without_durable)) {
    CHECK(witrpc_implementation_durable(bank, "Pay", NULL) == WITRPC_OK);
    CHECK(witrpc_implementation_durable(bank, "Refused", NULL) == WITRPC_OK);
    CHECK(witrpc_implementation_resolver(bank, "int Wait()", resolve, &gone, destroyed, NULL) ==
          WITRPC_OK);
  }
  CHECK(witrpc_implementation_durable(NULL, "Pay", NULL) == WITRPC_INVALID_HANDLE);
  CHECK(witrpc_implementation_resolver(bank, "Pay", NULL, &gone, destroyed, NULL) ==
        WITRPC_INVALID_ARGUMENT);
  CHECK(witrpc_server_options_serve(options, bank) == WITRPC_OK);
  witrpc_implementation_free(bank);
  if (directory)
    CHECK(witrpc_server_options_journal_n(options, directory, strlen(directory)) == WITRPC_OK);
  CHECK(witrpc_server_options_journal(options, NULL) == WITRPC_INVALID_ARGUMENT);
}

/* Starts a server that is wrong; its message must hold `what`. */
static void refuses(const char *what) {
  witrpc_server_options *options = NULL;
  witrpc_server *none = NULL;
  witrpc_error *error = NULL;
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  serve_durable(options);
  CHECK(witrpc_server_start(options, &none, &error) == WITRPC_INVALID_ARGUMENT && none == NULL);
  CHECK(contains(witrpc_error_message(error), what));
  witrpc_error_free(error);
  witrpc_server_options_free(options);
}

static int call(witrpc_service *bank, const char *method, const char *arguments, uint8_t id,
                char *answer, size_t size) {
  uint8_t bytes[16] = { 0 };
  witrpc_call_options *options = NULL;
  witrpc_buffer *result = NULL;
  witrpc_error *error = NULL;
  bytes[0] = id;
  witrpc_call_options_new(&options);
  witrpc_call_options_invocation_id(options, bytes);
  int status = witrpc_service_call(bank, method, arguments, options, &result, &error);
  snprintf(answer, size, "%s",
           status == WITRPC_OK ? witrpc_buffer_text(result) : witrpc_error_details(error));
  witrpc_call_options_free(options);
  witrpc_buffer_free(result);
  witrpc_error_free(error);
  return status;
}

typedef struct {
  witrpc_service *bank;
  int status;
  char answer[64];
} waiting;

static void *call_wait(void *argument) {
  waiting *w = argument;
  w->status = call(w->bank, "int Wait()", "[]", 9, w->answer, sizeof w->answer);
  return NULL;
}

static witrpc_service *bank_of(witrpc_client *client) {
  witrpc_service *bank = NULL;
  witrpc_client_service(client, "Demo.IBank", &bank, NULL);
  return bank;
}

/* The call is asked for again where the server before it left its journal. */
static void after(const char *says, int status, const char *answer) {
  char command[600], got[64];
  int before = counter_get(&asked);
  snprintf(command, sizeof command, "rm -rf %s.x && cp -r %s %s.x", left_behind, left_behind,
           left_behind);
  CHECK(system(command) == 0);
  snprintf(command, sizeof command, "%s.x", left_behind);
  directory = command;
  atomic_store(&verdict, says);
  start_server("tcp://127.0.0.1:0");
  witrpc_client *client = connected(quick_options());
  witrpc_service *bank = bank_of(client);
  if (says && text_is(says, "run")) {
    pthread_t thread;
    waiting w = { bank, 0, "" };
    int runs = counter_get(&holding);
    pthread_create(&thread, NULL, call_wait, &w);
    counter_wait(&holding, runs + 1);
    slow_commit(atomic_load(&held));
    pthread_join(thread, NULL);
    CHECK(w.status == status && text_is(w.answer, answer));
  } else {
    CHECK(call(bank, "int Wait()", "[]", 9, got, sizeof got) == status);
    CHECK(answer == NULL || text_is(got, answer));
  }
  CHECK(counter_get(&asked) == before + 1);
  witrpc_service_free(bank);
  witrpc_client_free(client);
  CHECK(witrpc_server_stop(server, 5000) == WITRPC_OK);
  witrpc_server_free(server);
}

static void what_makes_no_sense_stops_the_start(void) {
  directory = NULL;
  refuses("has no store");
  directory = journal;
  atomic_store(&without_durable, true);
  refuses("none of its methods is durable");
  atomic_store(&without_durable, false);
}

static void calls_are_kept_in_a_journal(void) {
  char answer[64], command[600];
  start_server("tcp://127.0.0.1:0");
  refuses("in use by another server");
  witrpc_client *client = connected(quick_options());
  witrpc_service *bank = bank_of(client);
  CHECK(call(bank, "int Pay(int,int)", "[2,3]", 1, answer, sizeof answer) == WITRPC_OK &&
        text_is(answer, "5"));
  CHECK(call(bank, "void Refused()", "[]", 2, answer, sizeof answer) == WITRPC_OVERLOADED);
  CHECK(call(bank, "void Refused()", "[]", 2, answer, sizeof answer) == WITRPC_OVERLOADED);
  waiting w = { bank, 0, "" };
  pthread_t thread;
  pthread_create(&thread, NULL, call_wait, &w);
  counter_wait(&holding, 1);
  /* What a process leaves that is killed now. */
  snprintf(command, sizeof command, "cp -r %s %s", journal, left_behind);
  CHECK(system(command) == 0);
  slow_commit(atomic_load(&held));
  pthread_join(thread, NULL);
  CHECK(w.status == WITRPC_OK && text_is(w.answer, "41"));
  witrpc_service_free(bank);
  witrpc_client_free(client);
  CHECK(witrpc_server_stop(server, 5000) == WITRPC_OK);
  witrpc_server_free(server);
}

static void the_next_life_knows_them(void) {
  char answer[64];
  start_server("tcp://127.0.0.1:0");
  witrpc_client *client = connected(quick_options());
  witrpc_service *bank = bank_of(client);
  CHECK(call(bank, "int Pay(int,int)", "[2,3]", 1, answer, sizeof answer) == WITRPC_OK &&
        text_is(answer, "5"));
  CHECK(call(bank, "int Pay(int,int)", "[2,4]", 1, answer, sizeof answer) == WITRPC_BAD_REQUEST);
  CHECK(call(bank, "int Wait()", "[]", 9, answer, sizeof answer) == WITRPC_OK &&
        text_is(answer, "41"));
  CHECK(atomic_load(&executions) == 1 && counter_get(&asked) == 0);
  witrpc_service_free(bank);
  witrpc_client_free(client);
  CHECK(witrpc_server_stop(server, 5000) == WITRPC_OK);
  witrpc_server_free(server);
}

static void a_resolver_says_what_became_of_a_call(void) {
  after("41", WITRPC_OK, "41");
  after("fail", WITRPC_REMOTE, "it said no");
  after("run", WITRPC_OK, "41");
  after(NULL, WITRPC_OUTCOME_UNKNOWN, NULL);
}

int main(void) {
  char command[600];
  const char *tmp = getenv("TMPDIR");
  watchdog(300);
  snprintf(journal, sizeof journal, "%s/witrpc-durable-%d", tmp ? tmp : "/tmp", (int)getpid());
  snprintf(left_behind, sizeof left_behind, "%s.left", journal);
  configure = serve_durable;
  RUN(what_makes_no_sense_stops_the_start);
  RUN(calls_are_kept_in_a_journal);
  RUN(the_next_life_knows_them);
  RUN(a_resolver_says_what_became_of_a_call);
  CHECK(witrpc_shutdown(10000) == WITRPC_OK);
  /* Each implementation and each resolver that was refused has let go of its user data. */
  counter_wait(&gone, 1);
  snprintf(command, sizeof command, "rm -rf %s*", journal);
  CHECK(system(command) == 0);
  return summary();
}
