/*
 * An encrypted connection with an access token, which is asked for anew whenever the client
 * connects.
 *
 *   encrypted ENDPOINT TOKEN     the server is server.c with a token
 */
#include <stdio.h>
#include <string.h>
#include <witrpc.h>

/* Runs on a thread for blocking work: it may fetch the token from wherever tokens come. */
static void provide_token(void *user_data, witrpc_token *answer) {
  const char *token = user_data;
  if (*token) {
    witrpc_token_answer(answer, token, strlen(token));
  } else {
    witrpc_token_fail(answer, "there is no token today");
  }
}

int main(int argc, char **argv) {
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_service *echo = NULL;
  witrpc_buffer *sum = NULL;
  witrpc_error *error = NULL;
  char *token = argc > 2 ? argv[2] : "";
  int failed = 1;

  if (witrpc_client_options_new(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100", &options, &error) ||
      witrpc_client_options_encryption(options, true) ||
      witrpc_client_options_token_provider(options, provide_token, token, NULL) ||
      witrpc_client_new(options, &client, &error) || witrpc_client_connect(client, &error) ||
      witrpc_client_service(client, "Demo.IEcho", &echo, &error) ||
      witrpc_service_call(echo, "int Add(int a, int b)", "[20, 22]", NULL, &sum, &error))
    goto end;
  printf("20 + 22 = %s, and nobody could listen\n", witrpc_buffer_text(sum));
  failed = 0;

end:
  if (witrpc_error_code(error) == WITRPC_UNAUTHORIZED)
    fprintf(stderr, "the server refused the token\n");
  else if (error)
    fprintf(stderr, "%s: %s\n", witrpc_error_message(error),
            witrpc_error_details(error) ? witrpc_error_details(error) : "");
  witrpc_error_free(error);
  witrpc_buffer_free(sum);
  witrpc_service_free(echo);
  witrpc_client_free(client);
  witrpc_client_options_free(options);
  return failed;
}
