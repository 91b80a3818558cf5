/* Encryption and tokens from files, through the C ABI. */
#include "fixture.h"

static char token_path[64];

static void write_token(const char *token) {
  FILE *file = fopen(token_path, "w");
  fprintf(file, "%s\n", token);
  fclose(file);
}

static void encrypts(witrpc_server_options *options) {
  CHECK(witrpc_server_options_encryption(options, true) == WITRPC_OK);
  CHECK(witrpc_server_options_handshake_timeout_ms(options, 120000) == WITRPC_OK);
  CHECK(witrpc_server_options_token_file(options, token_path) == WITRPC_OK);
}

static void waits_for_slow_clients(witrpc_server_options *options) {
  CHECK(witrpc_server_options_handshake_timeout_ms(options, 120000) == WITRPC_OK);
}

/* The key pair is made while connecting, which valgrind makes slow. */
static witrpc_client_options *patient_options(void) {
  witrpc_client_options *options = quick_options();
  witrpc_client_options_connect_timeout_ms(options, 120000);
  return options;
}

static witrpc_client_options *encrypted_options(void) {
  witrpc_client_options *options = patient_options();
  CHECK(witrpc_client_options_encryption(options, true) == WITRPC_OK);
  return options;
}

static void an_encrypted_call_with_a_token(void) {
  witrpc_client_options *options = encrypted_options();
  CHECK(witrpc_client_options_token(options, "first") == WITRPC_OK);
  witrpc_client *client = connected(options);
  witrpc_service *service = service_of(client);
  int sum = 0;
  CHECK(witrpc_client_state(client) == WITRPC_CONNECTED);
  CHECK(add(service, 2, 3, &sum) == WITRPC_OK && sum == 5);
  /* Back after an outage, encrypted as before. */
  kill_server();
  CHECK(witrpc_client_wait_state(client, WITRPC_RECONNECTING, 20000) == WITRPC_OK);
  restart_server();
  CHECK(add(service, 3, 4, &sum) == WITRPC_OK && sum == 7);
  witrpc_service_free(service);
  witrpc_client_free(client);
}

static void refused(witrpc_client_options *options, int status, const char *text) {
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_connect(client, &error) == status);
  CHECK(witrpc_client_state(client) == WITRPC_FAILED);
  CHECK(contains(witrpc_error_message(error), text) || contains(witrpc_error_details(error), text));
  witrpc_error_free(error);
  witrpc_client_free(client);
}

static void who_does_not_encrypt_or_has_no_token_is_refused(void) {
  witrpc_client_options *options = patient_options();
  witrpc_client_options_token(options, "first");
  refused(options, WITRPC_ENCRYPTION, "switch encryption on");
  options = encrypted_options();
  witrpc_client_options_token(options, "wrong");
  refused(options, WITRPC_UNAUTHORIZED, "refused the token");
}

static void a_new_token_counts_on_a_connection_that_stands(void) {
  witrpc_client_options *options = encrypted_options();
  CHECK(witrpc_client_options_token_file(options, token_path) == WITRPC_OK);
  witrpc_client *client = connected(options);
  witrpc_service *service = service_of(client);
  witrpc_client_stats stats = WITRPC_CLIENT_STATS_INIT;
  int sum = 0;
  CHECK(add(service, 1, 1, &sum) == WITRPC_OK && sum == 2);
  write_token("other");
  CHECK(add(service, 1, 2, &sum) == WITRPC_OK && sum == 3);
  CHECK(witrpc_client_stats_get(client, &stats) == WITRPC_OK);
  CHECK(stats.reconnects == 0);
  witrpc_service_free(service);
  witrpc_client_free(client);
  write_token("first");
}

static void a_server_without_its_token_does_not_start(void) {
  witrpc_server_options *options = NULL;
  witrpc_implementation *implementation = NULL;
  witrpc_server *none = NULL;
  witrpc_error *error = NULL;
  witrpc_implementation_new("Demo.ITest", &implementation, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, implementation);
  witrpc_implementation_free(implementation);
  CHECK(witrpc_server_options_token_file(options, "/no/such/file") == WITRPC_OK);
  CHECK(witrpc_server_start(options, &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(none == NULL && contains(witrpc_error_message(error), "/no/such/file"));
  witrpc_error_free(error);
  witrpc_server_options_free(options);
}

static void without_encryption_no_call_leaves_in_clear(void) {
  kill_server();
  configure = waits_for_slow_clients;
  restart_server();
  refused(encrypted_options(), WITRPC_ENCRYPTION, "the server does not encrypt");
}

int main(void) {
  watchdog(600);
  snprintf(token_path, sizeof token_path, "/tmp/witrpc-token-%ld", (long)getpid());
  write_token("first");
  configure = encrypts;
  start_server("tcp://127.0.0.1:0");
  RUN(an_encrypted_call_with_a_token);
  RUN(who_does_not_encrypt_or_has_no_token_is_refused);
  RUN(a_new_token_counts_on_a_connection_that_stands);
  RUN(a_server_without_its_token_does_not_start);
  RUN(without_encryption_no_call_leaves_in_clear);
  kill_server();
  unlink(token_path);
  CHECK(witrpc_shutdown(20000) == WITRPC_OK);
  return summary();
}
