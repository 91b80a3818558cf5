/* Generic methods, calls by name, and several contracts on one server, through the C ABI. */
#include "fixture.h"

/* Gives back its one argument. */
static void handle_echo(void *user_data, witrpc_request *request) {
  const char *arguments = witrpc_request_arguments(request);
  char result[256];
  CHECK(witrpc_request_type_argument(request, 0) != NULL);
  CHECK(witrpc_request_type_argument(request, 1) == NULL);
  /* The array without its brackets is the value. */
  snprintf(result, sizeof result, "%.*s", (int)strlen(arguments) - 2, arguments + 1);
  (void)user_data;
  witrpc_request_reply(request, result, NULL);
}

/* Says what it was called as: contract, name, type arguments. */
static void handle_describe(void *user_data, witrpc_request *request) {
  char result[256];
  size_t at = (size_t)snprintf(result, sizeof result, "\"%s %s", (const char *)user_data,
                               witrpc_request_method(request));
  const char *type = NULL;
  for (size_t i = 0; (type = witrpc_request_type_argument(request, i)) != NULL; i++)
    at += (size_t)snprintf(result + at, sizeof result - at, " %s", type);
  snprintf(result + at, sizeof result - at, "\"");
  witrpc_request_reply(request, result, NULL);
}

static char first[] = "Demo.IFirst", second[] = "Demo.ISecond";

static witrpc_implementation *implementation_of(char *contract) {
  witrpc_implementation *implementation = NULL;
  witrpc_implementation_new(contract, &implementation, NULL);
  static const char *const described[] = {
    "string Describe<TKey, TValue>(Dictionary<TKey, TValue[]> d)", "string Plain(int a)"
  };
  for (size_t i = 0; i < sizeof described / sizeof *described; i++)
    CHECK(witrpc_implementation_handle(implementation, described[i], handle_describe, contract,
                                       NULL, NULL) == WITRPC_OK);
  CHECK(witrpc_implementation_handle(implementation, "T Echo<T>(T value)", handle_echo, NULL, NULL,
                                     NULL) == WITRPC_OK);
  return implementation;
}

static void several_contracts(witrpc_server_options *options) {
  char *const contracts[] = { first, second };
  for (size_t i = 0; i < 2; i++) {
    witrpc_implementation *implementation = implementation_of(contracts[i]);
    CHECK(witrpc_server_options_serve(options, implementation) == WITRPC_OK);
    witrpc_implementation_free(implementation);
  }
}

static int says(witrpc_service *service, const char *method, const char *arguments,
                const witrpc_call_options *options, const char *expected) {
  witrpc_buffer *result = NULL;
  witrpc_error *error = NULL;
  int status = witrpc_service_call(service, method, arguments, options, &result, &error);
  int same = status == WITRPC_OK && strcmp(witrpc_buffer_text(result), expected) == 0;
  if (!same)
    printf("%s: %s %s\n", method, status == WITRPC_OK ? witrpc_buffer_text(result) : "",
           status == WITRPC_OK ? "" : witrpc_error_message(error));
  witrpc_buffer_free(result);
  witrpc_error_free(error);
  return same;
}

static void generic_calls(void) {
  for (int form = WITRPC_TYPE_NAMES_WEAK; form <= WITRPC_TYPE_NAMES_STRONG; form++) {
    witrpc_client_options *options = quick_options();
    CHECK(witrpc_client_options_type_names(options, form) == WITRPC_OK);
    witrpc_client *client = connected(options);
    char *const contracts[] = { first, second };
    for (size_t i = 0; i < 2; i++) {
      char expected[128];
      witrpc_service *service = NULL;
      NEED(witrpc_client_service(client, contracts[i], &service, NULL) == WITRPC_OK);
      CHECK(says(service, "int Echo<int>(int value)", "[5]", NULL, "5"));
      CHECK(
          says(service, "T Echo<T>(T value) where T = List<string>", "[[\"a\"]]", NULL, "[\"a\"]"));
      snprintf(expected, sizeof expected, "\"%s Describe string int?\"", contracts[i]);
      CHECK(says(service, "Describe<string, int?>(Dictionary<string, int?[]>)", "[{\"a\":[1]}]",
                 NULL, expected));
      witrpc_service_free(service);
    }
    witrpc_client_free(client);
  }
}

static void what_is_wrong_with_a_generic_call(void) {
  static const struct {
    const char *method, *text;
    int status;
  } cases[] = {
    { "T Echo<T>(T value)", "no type is given for T of Echo", WITRPC_INVALID_ARGUMENT },
    { "Echo<Preson>(Preson p)", "no type is given for Preson", WITRPC_INVALID_ARGUMENT },
    { "Echo<Demo.P>(Demo.P p)", "the assembly of Demo.P is not known", WITRPC_INVALID_ARGUMENT },
    { "T Echo<T>(T value) where U = int", "Echo has no type parameter U", WITRPC_INVALID_ARGUMENT },
    { "int Echo<string>(int value)", "Method not found", WITRPC_BAD_REQUEST },
  };
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = NULL;
  NEED(witrpc_client_service(client, first, &service, NULL) == WITRPC_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    witrpc_error *error = NULL;
    int status = witrpc_service_call(service, cases[i].method, "[5]", NULL, NULL, &error);
    CHECK(status == cases[i].status && contains(witrpc_error_message(error), cases[i].text));
    witrpc_error_free(error);
  }
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void calls_by_name(void) {
  witrpc_client_options *options = quick_options();
  CHECK(witrpc_client_options_method_lookup(options, WITRPC_LOOKUP_NAME) == WITRPC_OK);
  CHECK(witrpc_client_options_method_lookup(options, 3) == WITRPC_INVALID_ARGUMENT);
  CHECK(witrpc_client_options_type_names(options, 2) == WITRPC_INVALID_ARGUMENT);
  witrpc_client *client = connected(options);
  witrpc_service *service = NULL, *base = NULL;
  NEED(witrpc_client_service(client, second, &service, NULL) == WITRPC_OK);
  CHECK(says(service, "string Plain(int)", "[1]", NULL, "\"Demo.ISecond Plain\""));
  /* Of a contract that is not served under this name, which may be the base of one that is. */
  NEED(witrpc_client_service(client, "Demo.IBase", &base, NULL) == WITRPC_OK);
  CHECK(says(base, "string Plain(int)", "[1]", NULL, "\"Demo.IFirst Plain\""));
  witrpc_call_options *call = NULL;
  witrpc_call_options_new(&call);
  CHECK(witrpc_call_options_method_lookup(call, WITRPC_LOOKUP_ID_OR_NAME) == WITRPC_OK);
  CHECK(says(base, "string Plain(int)", "[1]", call, "\"Demo.IFirst Plain\""));
  CHECK(witrpc_call_options_method_lookup(call, WITRPC_LOOKUP_ID) == WITRPC_OK);
  CHECK(witrpc_service_call(base, "string Plain(int)", "[1]", call, NULL, NULL) ==
        WITRPC_BAD_REQUEST);
  CHECK(witrpc_call_options_method_lookup(call, -1) == WITRPC_INVALID_ARGUMENT);
  witrpc_call_options_free(call);
  witrpc_service_free(base);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void does_not_start(witrpc_implementation *one, witrpc_implementation *other,
                           const char *text) {
  witrpc_server_options *options = NULL;
  witrpc_server *none = NULL;
  witrpc_error *error = NULL;
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, one);
  if (other) witrpc_server_options_serve(options, other);
  CHECK(witrpc_server_start(options, &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(none == NULL && contains(witrpc_error_message(error), text));
  witrpc_error_free(error);
  witrpc_server_options_free(options);
  witrpc_implementation_free(one);
  witrpc_implementation_free(other);
}

static void services_that_make_no_sense(void) {
  witrpc_implementation *one = implementation_of(first);
  witrpc_implementation_handle(one, "int Echo<int>(int v)", handle_echo, NULL, NULL, NULL);
  does_not_start(one, NULL, "int Echo<int>(int v) has type arguments");
  one = implementation_of(first);
  witrpc_implementation_handle(one, "U Echo<U>(U v)", handle_echo, NULL, NULL, NULL);
  does_not_start(one, NULL, "it has a handler already");
  does_not_start(implementation_of(first), implementation_of(first),
                 "two services of contract \"Demo.IFirst\"");
}

/* Several endpoints of one server, several servers in one process. */
static void many_endpoints_and_servers(void) {
  char pipe[64];
  snprintf(pipe, sizeof pipe, "pipe://witrpc-c-generics-%ld", (long)getpid());
  const char *const places[] = { "tcp://127.0.0.1:0", "ws://127.0.0.1:0/api/", pipe };
  witrpc_server *servers[2] = { NULL, NULL };
  for (size_t s = 0; s < 2; s++) {
    witrpc_server_options *options = NULL;
    witrpc_server_options_new(places[0], &options, NULL);
    /* A pipe has one server. */
    for (size_t i = 1; i < (s == 0 ? 3 : 2); i++)
      CHECK(witrpc_server_options_add_endpoint(options, places[i]) == WITRPC_OK);
    several_contracts(options);
    NEED(witrpc_server_start(options, &servers[s], NULL) == WITRPC_OK);
    witrpc_server_options_free(options);
  }
  for (size_t s = 0; s < 2; s++) {
    for (size_t i = 0; i < (s == 0 ? 3 : 2); i++) {
      witrpc_buffer *where = NULL;
      witrpc_client_options *options = NULL;
      witrpc_service *service = NULL;
      NEED(witrpc_server_endpoint(servers[s], i, &where) == WITRPC_OK);
      witrpc_client_options_new(witrpc_buffer_text(where), &options, NULL);
      witrpc_client *client = connected(options);
      NEED(witrpc_client_service(client, second, &service, NULL) == WITRPC_OK);
      CHECK(says(service, "string Plain(int)", "[1]", NULL, "\"Demo.ISecond Plain\""));
      CHECK(says(service, "Echo<Guid?>(Guid?)", "[null]", NULL, "null"));
      witrpc_service_free(service);
      witrpc_client_free(client);
      witrpc_buffer_free(where);
    }
    CHECK(witrpc_server_stop(servers[s], 20000) == WITRPC_OK);
    witrpc_server_free(servers[s]);
  }
}

int main(void) {
  watchdog(300);
  configure = several_contracts;
  start_server("tcp://127.0.0.1:0");
  RUN(generic_calls);
  RUN(what_is_wrong_with_a_generic_call);
  RUN(calls_by_name);
  RUN(services_that_make_no_sense);
  RUN(many_endpoints_and_servers);
  kill_server();
  CHECK(witrpc_shutdown(20000) == WITRPC_OK);
  return summary();
}
