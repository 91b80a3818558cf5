/* A server of Demo.ITest within the test program, and clients of it. */
#ifndef WITRPC_FIXTURE_H
#define WITRPC_FIXTURE_H

#include "test.h"

static witrpc_server *server;
static char endpoint[64];
/* Sets what is special about a test's server. */
static void (*configure)(witrpc_server_options *options);
static _Atomic int executions;
/* Requests that "Hold" keeps until they are let go. */
static witrpc_request *_Atomic held;
static counter holding = COUNTER_INIT;

static void handle_add(void *user_data, witrpc_request *request) {
  (void)user_data;
  int a = 0, b = 0;
  char result[16];
  atomic_fetch_add(&executions, 1);
  sscanf(witrpc_request_arguments(request), "[%d,%d]", &a, &b);
  snprintf(result, sizeof result, "%d", a + b);
  witrpc_request_reply(request, result, NULL);
}

static void handle_fail(void *user_data, witrpc_request *request) {
  (void)user_data;
  witrpc_request_fail(request, "on purpose", NULL);
}

static void handle_forget(void *user_data, witrpc_request *request) {
  (void)user_data;
  witrpc_request_free(request);
}

static void handle_hold(void *user_data, witrpc_request *request) {
  (void)user_data;
  atomic_store(&held, request);
  counter_add(&holding, 1);
}

static void handle_raise(void *user_data, witrpc_request *request) {
  (void)user_data;
  for (int i = 0; i < 5; i++) {
    char arguments[16];
    snprintf(arguments, sizeof arguments, "[%d]", i);
    witrpc_request_raise(request, "event Action<int> Progress", arguments, NULL);
  }
  witrpc_request_reply(request, NULL, NULL);
}

static void start_server(const char *where) {
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *options = NULL;
  witrpc_buffer *text = NULL;
  witrpc_implementation_new("Demo.ITest", &implementation, NULL);
  witrpc_implementation_handle(implementation, "int Add(int a, int b)", handle_add, NULL, NULL,
                               NULL);
  witrpc_implementation_handle(implementation, "void Fail()", handle_fail, NULL, NULL, NULL);
  witrpc_implementation_handle(implementation, "void Forget()", handle_forget, NULL, NULL, NULL);
  witrpc_implementation_handle(implementation, "int Hold()", handle_hold, NULL, NULL, NULL);
  witrpc_implementation_handle(implementation, "void Raise()", handle_raise, NULL, NULL, NULL);
  witrpc_server_options_new(where, &options, NULL);
  witrpc_server_options_serve(options, implementation);
  witrpc_implementation_free(implementation);
  if (configure) configure(options);
  witrpc_error *error = NULL;
  if (witrpc_server_start(options, &server, &error) != WITRPC_OK) {
    printf("%s: %s\n", witrpc_error_message(error), witrpc_error_details(error));
    abort();
  }
  witrpc_server_options_free(options);
  witrpc_server_endpoint(server, 0, &text);
  snprintf(endpoint, sizeof endpoint, "%s", witrpc_buffer_text(text));
  witrpc_buffer_free(text);
}

/* The server dies without a word and comes back at the same place. */
static inline void kill_server(void) {
  witrpc_server_free(server);
  server = NULL;
}

static inline void restart_server(void) {
  char where[64];
  snprintf(where, sizeof where, "%s", endpoint);
  start_server(where);
}

/* Quick reconnection, so that tests do not wait for seconds. */
static inline witrpc_client_options *quick_options(void) {
  witrpc_client_options *options = NULL;
  witrpc_client_options_new(endpoint, &options, NULL);
  witrpc_client_options_reconnect_delays(options, 10, 50, 2.0);
  witrpc_client_options_reconnect_max_attempts(options, 0);
  return options;
}

static inline witrpc_client *connected(witrpc_client_options *options) {
  witrpc_client *client = NULL;
  witrpc_client_new(options, &client, NULL);
  witrpc_client_options_free(options);
  witrpc_client_connect(client, NULL);
  return client;
}

static inline witrpc_service *service_of(witrpc_client *client) {
  witrpc_service *service = NULL;
  witrpc_client_service(client, "Demo.ITest", &service, NULL);
  return service;
}

static inline int add(witrpc_service *service, int a, int b, int *sum) {
  char arguments[32];
  witrpc_buffer *result = NULL;
  snprintf(arguments, sizeof arguments, "[%d,%d]", a, b);
  int status = witrpc_service_call(service, "int Add(int,int)", arguments, NULL, &result, NULL);
  if (status == WITRPC_OK) *sum = atoi(witrpc_buffer_text(result));
  witrpc_buffer_free(result);
  return status;
}

#endif
