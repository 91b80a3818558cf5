/* Serves and calls itself: enough to know that headers, library and threads fit together. */
#include <stdio.h>
#include <string.h>
#include <witrpc.h>

static void seven(void *user_data, witrpc_request *request) {
  (void)user_data;
  witrpc_request_reply(request, "7", NULL);
}

int main(void) {
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *server_options = NULL;
  witrpc_server *server = NULL;
  witrpc_buffer *endpoint = NULL, *result = NULL;
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_service *service = NULL;
  int good;
  if (!WITRPC_CHECK_ABI()) return 2;
  witrpc_implementation_new("Demo.IX", &implementation, NULL);
  witrpc_implementation_handle(implementation, "int Seven()", seven, NULL, NULL, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &server_options, NULL);
  witrpc_server_options_serve(server_options, implementation);
  if (witrpc_server_start(server_options, &server, NULL)) return 3;
  witrpc_server_endpoint(server, 0, &endpoint);
  witrpc_client_options_new(witrpc_buffer_text(endpoint), &options, NULL);
  witrpc_client_new(options, &client, NULL);
  if (witrpc_client_connect(client, NULL)) return 4;
  witrpc_client_service(client, "Demo.IX", &service, NULL);
  witrpc_service_call(service, "int Seven()", "[]", NULL, &result, NULL);
  good = result && strcmp(witrpc_buffer_text(result), "7") == 0;
  printf("libwitrpc %s: %s\n", witrpc_version(), good ? "good" : "bad");
  witrpc_buffer_free(result);
  witrpc_buffer_free(endpoint);
  witrpc_service_free(service);
  witrpc_client_free(client);
  witrpc_client_options_free(options);
  witrpc_server_free(server);
  witrpc_server_options_free(server_options);
  witrpc_implementation_free(implementation);
  return good ? 0 : 1;
}
