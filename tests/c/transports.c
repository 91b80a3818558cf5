/* TLS, WebSocket and pipes through the C ABI: what each needs, and what each refuses. */
#include <sys/stat.h>

#include "fixture.h"

#define CERTS "tests/certs/"

static void on_progress(void *user_data, const witrpc_buffer *arguments) {
  (void)arguments;
  counter_add((counter *)user_data, 1);
}

/* Under valgrind handshakes take their time. */
static witrpc_client_options *patient_options(void) {
  witrpc_client_options *options = quick_options();
  witrpc_client_options_connect_timeout_ms(options, 120000);
  return options;
}

/* A call, events, and a way back after an outage. */
static void works(void (*trust)(witrpc_client_options *options)) {
  counter events = COUNTER_INIT;
  witrpc_client_options *options = patient_options();
  if (trust) trust(options);
  witrpc_client *client = connected(options);
  witrpc_service *service = service_of(client);
  witrpc_subscription *subscription = NULL;
  int sum = 0;
  NEED(witrpc_client_state(client) == WITRPC_CONNECTED);
  CHECK(add(service, 2, 3, &sum) == WITRPC_OK && sum == 5);
  CHECK(witrpc_service_subscribe(service, "event Action<int> Progress", on_progress, &events, NULL,
                                 &subscription, NULL) == WITRPC_OK);
  CHECK(witrpc_service_call(service, "void Raise()", "[]", NULL, NULL, NULL) == WITRPC_OK);
  counter_wait(&events, 5);
  kill_server();
  CHECK(witrpc_client_wait_state(client, WITRPC_RECONNECTING, 20000) == WITRPC_OK);
  restart_server();
  CHECK(add(service, 3, 4, &sum) == WITRPC_OK && sum == 7);
  witrpc_subscription_free(subscription);
  witrpc_service_free(service);
  witrpc_client_close_and_wait(client, 20000);
  witrpc_client_free(client);
}

/* The client's reason not to connect. */
static void refused(witrpc_client_options *options, int status, const char *text) {
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  CHECK(witrpc_client_new(options, &client, NULL) == WITRPC_OK);
  witrpc_client_options_free(options);
  CHECK(witrpc_client_connect(client, &error) == status);
  CHECK(contains(witrpc_error_message(error), text) || contains(witrpc_error_details(error), text));
  witrpc_error_free(error);
  witrpc_client_free(client);
}

static char *slurp(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 16384);
  *size = fread(text, 1, 16383, file);
  fclose(file);
  return text;
}

static void with_certificate(witrpc_server_options *options) {
  CHECK(witrpc_server_options_tls_files(options, CERTS "server.pem", CERTS "server-key.pem",
                                        NULL) == WITRPC_OK);
}

static void asks_for_certificates(witrpc_server_options *options) {
  CHECK(witrpc_server_options_tls_files(options, CERTS "server.pem", CERTS "server-key.pem",
                                        CERTS "ca.pem") == WITRPC_OK);
}

static void trust_file(witrpc_client_options *options) {
  CHECK(witrpc_client_options_tls_authorities_file(options, CERTS "ca.pem") == WITRPC_OK);
}

static void trust_text(witrpc_client_options *options) {
  size_t size;
  char *pem = slurp(CERTS "ca.pem", &size);
  CHECK(witrpc_client_options_tls_authorities(options, pem, size) == WITRPC_OK);
  free(pem);
}

static void pin(witrpc_client_options *options) {
  size_t size;
  unsigned byte;
  uint8_t sha256[32];
  char *hex = slurp(CERTS "server.sha256", &size);
  for (int i = 0; i < 32; i++) {
    sscanf(hex + 2 * i, "%2x", &byte);
    sha256[i] = (uint8_t)byte;
  }
  free(hex);
  CHECK(witrpc_client_options_tls_pin(options, sha256) == WITRPC_OK);
}

static void at(const char *where, void (*special)(witrpc_server_options *options)) {
  kill_server();
  configure = special;
  start_server(where);
}

static void websocket_fragments(witrpc_client_options *options) {
  CHECK(witrpc_client_options_websocket_fragment(options, 7) == WITRPC_OK);
  CHECK(witrpc_client_options_websocket_ping(options, 1000, 1000) == WITRPC_OK);
}

static void every_transport_carries_calls_events_and_reconnects(void) {
  at("ws://127.0.0.1:0/api/", NULL);
  works(websocket_fragments);
  at("tls://127.0.0.1:0", with_certificate);
  works(trust_file);
  at("wss://localhost:0/api/", with_certificate);
  works(trust_text);
  char pipe[64];
  snprintf(pipe, sizeof pipe, "pipe://witrpc-c-%ld", (long)getpid());
  at(pipe, NULL);
  works(NULL);
}

static void a_server_is_trusted_for_a_reason(void) {
  uint8_t zeros[32] = { 0 };
  at("tls://127.0.0.1:0", with_certificate);
  works(pin);
  witrpc_client_options *options = patient_options();
  witrpc_client_options_tls_pin(options, zeros);
  refused(options, WITRPC_CERTIFICATE, "certificate");
  options = patient_options();
  witrpc_client_options_tls_authorities_file(options, CERTS "stranger.pem");
  refused(options, WITRPC_CERTIFICATE, "certificate");
  options = patient_options();
  trust_file(options);
  CHECK(witrpc_client_options_tls_server_name(options, "other.example") == WITRPC_OK);
  refused(options, WITRPC_CERTIFICATE, "certificate");
  /* By another name of the certificate's than the endpoint's. */
  options = patient_options();
  trust_file(options);
  witrpc_client_options_tls_server_name(options, "localhost");
  witrpc_client *client = connected(options);
  CHECK(witrpc_client_state(client) == WITRPC_CONNECTED);
  witrpc_client_free(client);
}

static void authorities_of_the_system_may_be_added(void) {
  at("tls://127.0.0.1:0", with_certificate);
  witrpc_client_options *options = patient_options();
  trust_file(options);
  CHECK(witrpc_client_options_tls_system_authorities(options, true) == WITRPC_OK);
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  /* A machine without any has nothing to add, and the client says so. */
  if (witrpc_client_new(options, &client, &error) == WITRPC_OK) {
    CHECK(witrpc_client_connect(client, NULL) == WITRPC_OK);
  } else {
    CHECK(contains(witrpc_error_message(error), "the system's certificate authorities"));
  }
  witrpc_error_free(error);
  witrpc_client_options_free(options);
  witrpc_client_free(client);
}

static void a_client_shows_a_certificate_where_one_is_asked_for(void) {
  size_t certificate_size, key_size;
  int sum = 0;
  at("tls://127.0.0.1:0", asks_for_certificates);
  char *certificate = slurp(CERTS "client.pem", &certificate_size);
  char *key = slurp(CERTS "client-key.pem", &key_size);
  for (int from_files = 0; from_files < 2; from_files++) {
    witrpc_client_options *options = patient_options();
    trust_file(options);
    if (from_files) {
      CHECK(witrpc_client_options_tls_identity_files(options, CERTS "client.pem",
                                                     CERTS "client-key.pem") == WITRPC_OK);
    } else {
      CHECK(witrpc_client_options_tls_identity(options, certificate, certificate_size, key,
                                               key_size) == WITRPC_OK);
    }
    witrpc_client *client = connected(options);
    witrpc_service *service = service_of(client);
    CHECK(add(service, 2, 3, &sum) == WITRPC_OK && sum == 5);
    witrpc_service_free(service);
    witrpc_client_free(client);
  }
  free(certificate);
  free(key);
  witrpc_client_options *options = patient_options();
  trust_file(options);
  refused(options, WITRPC_CERTIFICATE, "certificate");
}

static void what_can_not_be_read_is_named(void) {
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  witrpc_client_options_new("tls://127.0.0.1:1", &options, NULL);
  witrpc_client_options_tls_authorities_file(options, "/no/such/ca.pem");
  CHECK(witrpc_client_new(options, &client, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "certificate authorities from /no/such/ca.pem"));
  witrpc_error_free(error);
  witrpc_client_options_tls_authorities_file(options, CERTS "server-key.pem");
  CHECK(witrpc_client_new(options, &client, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "no certificate in it"));
  witrpc_error_free(error);
  trust_file(options);
  witrpc_client_options_tls_identity_files(options, CERTS "client.pem", CERTS "client.pem");
  CHECK(witrpc_client_new(options, &client, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "private key"));
  witrpc_error_free(error);
  witrpc_client_options_free(options);

  witrpc_server_options *server_options = NULL;
  witrpc_implementation *implementation = NULL;
  witrpc_server *none = NULL;
  witrpc_implementation_new("Demo.ITest", &implementation, NULL);
  witrpc_server_options_new("tls://127.0.0.1:0", &server_options, NULL);
  witrpc_server_options_serve(server_options, implementation);
  witrpc_implementation_free(implementation);
  CHECK(witrpc_server_start(server_options, &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "certificate"));
  witrpc_error_free(error);
  witrpc_server_options_tls_files(server_options, CERTS "server.pem", "/no/such/key.pem", NULL);
  CHECK(witrpc_server_start(server_options, &none, &error) == WITRPC_INVALID_ARGUMENT);
  CHECK(contains(witrpc_error_message(error), "private key from /no/such/key.pem"));
  witrpc_error_free(error);
  witrpc_server_options_free(server_options);
}

static void shared_pipe(witrpc_server_options *options) {
  CHECK(witrpc_server_options_pipe_mode(options, 0660) == WITRPC_OK);
}

static void a_pipe_is_for_its_owner_unless_told_otherwise(void) {
  char where[96];
  struct stat file;
  snprintf(where, sizeof where, "pipe:///tmp/witrpc-c-mode-%ld", (long)getpid());
  at(where, NULL);
  CHECK(stat(where + strlen("pipe://"), &file) == 0 && (file.st_mode & 0777) == 0600);
  at(where, shared_pipe);
  CHECK(stat(where + strlen("pipe://"), &file) == 0 && (file.st_mode & 0777) == 0660);
  works(NULL);
}

static char also_at[64];

static void at_a_second_place(witrpc_server_options *options) {
  CHECK(witrpc_server_options_add_endpoint(options, also_at) == WITRPC_OK);
  CHECK(witrpc_server_options_keepalive(options, 5000, 1000, 3) == WITRPC_OK);
  CHECK(witrpc_server_options_user_timeout_ms(options, 10000) == WITRPC_OK);
}

static void one_server_listens_at_several_places(void) {
  int sum = 0;
  snprintf(also_at, sizeof also_at, "pipe://witrpc-c-also-%ld", (long)getpid());
  at("tcp://127.0.0.1:0", at_a_second_place);
  for (size_t index = 0; index < 2; index++) {
    witrpc_buffer *text = NULL;
    witrpc_client_options *options = NULL;
    CHECK(witrpc_server_endpoint(server, index, &text) == WITRPC_OK);
    witrpc_client_options_new(witrpc_buffer_text(text), &options, NULL);
    witrpc_buffer_free(text);
    witrpc_client *client = connected(options);
    witrpc_service *service = service_of(client);
    CHECK(add(service, 2, 3, &sum) == WITRPC_OK && sum == 5);
    witrpc_service_free(service);
    witrpc_client_free(client);
  }
}

int main(void) {
  watchdog(600);
  RUN(every_transport_carries_calls_events_and_reconnects);
  RUN(a_server_is_trusted_for_a_reason);
  RUN(authorities_of_the_system_may_be_added);
  RUN(a_client_shows_a_certificate_where_one_is_asked_for);
  RUN(what_can_not_be_read_is_named);
  RUN(a_pipe_is_for_its_owner_unless_told_otherwise);
  RUN(one_server_listens_at_several_places);
  kill_server();
  CHECK(witrpc_shutdown(20000) == WITRPC_OK);
  return summary();
}
