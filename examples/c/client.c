/*
 * The shortest useful client: connect, call, and say what went wrong.
 *
 *   client ENDPOINT          the server is server.c, or `witrpc serve --demo ENDPOINT`
 */
#include <stdio.h>
#include <witrpc.h>

int main(int argc, char **argv) {
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_service *counter = NULL;
  witrpc_buffer *sum = NULL;
  witrpc_error *error = NULL;
  int failed = 1;

  /* Every function gives a status, 0 for success; most can give an error object that says more. */
  if (witrpc_client_options_new(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100", &options, &error) ||
      witrpc_client_new(options, &client, &error) || witrpc_client_connect(client, &error) ||
      witrpc_client_service(client, "Demo.IEcho", &counter, &error))
    goto end;

  /* A method is named by its C# line; arguments are a JSON array, the result is JSON text. */
  if (witrpc_service_call(counter, "int Add(int a, int b)", "[2, 3]", NULL, &sum, &error)) goto end;
  printf("2 + 3 = %s\n", witrpc_buffer_text(sum));
  failed = 0;

end:
  if (error) fprintf(stderr, "%s: %s\n", witrpc_error_name(error), witrpc_error_message(error));
  /* Any order is right, and NULL is allowed. */
  witrpc_error_free(error);
  witrpc_buffer_free(sum);
  witrpc_service_free(counter);
  witrpc_client_free(client);
  witrpc_client_options_free(options);
  return failed;
}
