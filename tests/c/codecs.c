/* Every codec through the C ABI: values are JSON text on both sides, whatever travels. */
#include "fixture.h"

static const char contract_text[] =
    "{\"contract\": \"Demo.IPeople\", \"assembly\": \"Demo\", \"defaults\": {\"memorypack\": "
    "\"object\","
    "\"messagepack\": \"keys\", \"protobuf\": \"fields\"}, \"types\": ["
    "{\"enum\": \"Demo.Color\", \"values\": {\"Red\": 1, \"Green\": 2}},"
    "{\"class\": \"Demo.Person\", \"members\": [\"string Name\", \"int Age\", \"Demo.Color Likes\","
    " \"List<string> Tags\", \"double? Height\"]}],"
    "\"methods\": [\"Demo.Person Older(Demo.Person person, int years)\","
    " \"int Add(int a, int b)\"],"
    "\"events\": [\"event Action<Demo.Person> Aged\"]}";

static witrpc_contract *people;
static int codec;

/* {"Name":"Ann","Age":A,...} becomes the same with the age added. */
static void handle_older(void *user_data, witrpc_request *request) {
  (void)user_data;
  char name[64], tail[256], result[512], event[544];
  int age = 0, years = 0;
  atomic_fetch_add(&executions, 1);
  if (sscanf(witrpc_request_arguments(request), "[{\"Name\":%63[^,],\"Age\":%d,%255[^}]},%d]", name,
             &age, tail, &years) != 4) {
    witrpc_request_fail(request, witrpc_request_arguments(request), NULL);
    return;
  }
  snprintf(result, sizeof result, "{\"Name\":%s,\"Age\":%d,%s}", name, age + years, tail);
  snprintf(event, sizeof event, "[%s]", result);
  CHECK(witrpc_request_raise(request, "Aged", event, NULL) == WITRPC_OK);
  CHECK(witrpc_request_reply(request, result, NULL) == WITRPC_OK);
}

static void serve_people(void) {
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *options = NULL;
  witrpc_buffer *text = NULL;
  CHECK(witrpc_implementation_of(people, &implementation, NULL) == WITRPC_OK);
  CHECK(witrpc_implementation_handle(implementation, "Older", handle_older, NULL, NULL, NULL) ==
        WITRPC_OK);
  CHECK(witrpc_implementation_handle(implementation, "Add", handle_add, NULL, NULL, NULL) ==
        WITRPC_OK);
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, implementation);
  witrpc_implementation_free(implementation);
  CHECK(witrpc_server_options_codec(options, codec) == WITRPC_OK);
  CHECK(witrpc_server_start(options, &server, NULL) == WITRPC_OK);
  witrpc_server_options_free(options);
  witrpc_server_endpoint(server, 0, &text);
  snprintf(endpoint, sizeof endpoint, "%s", witrpc_buffer_text(text));
  witrpc_buffer_free(text);
}

static witrpc_client *client_with(int client_codec) {
  witrpc_client_options *options = quick_options();
  CHECK(witrpc_client_options_codec(options, client_codec) == WITRPC_OK);
  return connected(options);
}

static char event_seen[512];

static void on_aged(void *user_data, const witrpc_buffer *arguments) {
  snprintf(event_seen, sizeof event_seen, "%s", witrpc_buffer_text(arguments));
  counter_add((counter *)user_data, 1);
}

static void a_class_travels(void) {
  static const char before[] = "{\"Name\":\"\xC3\x85sa\",\"Age\":41,\"Likes\":2,\"Tags\":[\"a\","
                               "\"b\"],\"Height\":1.625}";
  static const char after[] = "{\"Name\":\"\xC3\x85sa\",\"Age\":42,\"Likes\":2,\"Tags\":[\"a\","
                              "\"b\"],\"Height\":1.625}";
  char arguments[300];
  counter events = COUNTER_INIT;
  witrpc_client *client = client_with(codec);
  witrpc_service *service = NULL;
  witrpc_subscription *subscription = NULL;
  witrpc_buffer *result = NULL;
  witrpc_error *error = NULL;
  CHECK(witrpc_client_service_of(client, people, &service, NULL) == WITRPC_OK);
  CHECK(witrpc_service_subscribe(service, "Aged", on_aged, &events, NULL, &subscription, NULL) ==
        WITRPC_OK);
  snprintf(arguments, sizeof arguments, "[%s,1]", before);
  int status = witrpc_service_call(service, "Older", arguments, NULL, &result, &error);
  if (status != WITRPC_OK)
    printf("%s: %s\n", witrpc_error_message(error), witrpc_error_details(error));
  NEED(status == WITRPC_OK);
  CHECK(text_is(witrpc_buffer_text(result), after));
  counter_wait(&events, 1);
  snprintf(arguments, sizeof arguments, "[%s]", after);
  CHECK(text_is(event_seen, arguments));
  witrpc_buffer_free(result);
  /* What does not fit is told of before anything is sent, with its place. */
  status = witrpc_service_call(service, "Older", "[{\"Age\":\"old\"},1]", NULL, NULL, &error);
  CHECK(status == WITRPC_INVALID_ARGUMENT && contains(witrpc_error_message(error), "Age"));
  witrpc_error_free(error);
  witrpc_subscription_free(subscription);
  witrpc_service_free(service);
  witrpc_client_close_and_wait(client, 20000);
  witrpc_client_free(client);
}

static void lines_with_built_in_types_need_no_contract(void) {
  witrpc_client *client = client_with(codec);
  witrpc_service *service = NULL;
  witrpc_error *error = NULL;
  witrpc_buffer *result = NULL;
  witrpc_client_service(client, "Demo.IPeople", &service, NULL);
  CHECK(witrpc_service_call(service, "int Add(int,int)", "[2,3]", NULL, &result, NULL) ==
        WITRPC_OK);
  CHECK(text_is(witrpc_buffer_text(result), "5"));
  witrpc_buffer_free(result);
  if (codec != WITRPC_CODEC_JSON && codec != WITRPC_CODEC_GOOGLE_PROTOBUF) {
    int status = witrpc_service_call(service, "Demo.Person Older(Demo.Person,int)",
                                     "[{\"Name\":\"x\"},1]", NULL, NULL, &error);
    CHECK(status == WITRPC_INVALID_ARGUMENT);
    CHECK(contains(witrpc_error_message(error), "Demo.Person") ||
          contains(witrpc_error_details(error), "Demo.Person"));
    witrpc_error_free(error);
  }
  witrpc_service_free(service);
  witrpc_client_free(client);
}

/* One of another codec is noticed where its bytes do not fit, which those of a class never do. */
static void another_codec_is_an_error_and_runs_nothing(void) {
  int before = atomic_load(&executions);
  int other = codec == WITRPC_CODEC_JSON ? WITRPC_CODEC_MEMORYPACK : WITRPC_CODEC_JSON;
  witrpc_client *client = client_with(other);
  witrpc_service *service = NULL;
  witrpc_error *error = NULL;
  witrpc_client_service_of(client, people, &service, NULL);
  CHECK(witrpc_service_call(service, "Older", "[{\"Name\":\"Ann\"},1]", NULL, NULL, &error) ==
        WITRPC_BAD_REQUEST);
  CHECK(contains(witrpc_error_message(error), "argument 1"));
  CHECK(atomic_load(&executions) == before);
  witrpc_error_free(error);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void every_codec(void) {
  for (codec = WITRPC_CODEC_JSON; codec <= WITRPC_CODEC_PROTOBUF; codec++) {
    serve_people();
    a_class_travels();
    lines_with_built_in_types_need_no_contract();
    another_codec_is_an_error_and_runs_nothing();
    kill_server();
  }
}

static void google_protobuf_is_json_for_what_is_no_message(void) {
  codec = WITRPC_CODEC_GOOGLE_PROTOBUF;
  serve_people();
  lines_with_built_in_types_need_no_contract();
  kill_server();
}

static void a_contract_comes_from_a_file_too(void) {
  char path[64];
  witrpc_contract *contract = NULL;
  witrpc_error *error = NULL;
  snprintf(path, sizeof path, "/tmp/witrpc-contract-%ld", (long)getpid());
  FILE *file = fopen(path, "w");
  fputs(contract_text, file);
  fclose(file);
  CHECK(witrpc_contract_from_file(path, &contract, NULL) == WITRPC_OK);
  witrpc_contract_free(contract);
  unlink(path);
  CHECK(witrpc_contract_from_file(path, &contract, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contract == NULL && contains(witrpc_error_message(error), path));
  witrpc_error_free(error);
}

int main(void) {
  watchdog(600);
  witrpc_error *error = NULL;
  if (witrpc_contract_from_json(contract_text, &people, &error) != WITRPC_OK) {
    printf("%s\n", witrpc_error_message(error));
    return 1;
  }
  RUN(every_codec);
  RUN(google_protobuf_is_json_for_what_is_no_message);
  RUN(a_contract_comes_from_a_file_too);
  witrpc_contract_free(people);
  CHECK(witrpc_shutdown(20000) == WITRPC_OK);
  return summary();
}
