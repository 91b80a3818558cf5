/*
 * Callbacks on a libuv loop: the descriptor is polled, and what waits is dispatched on the loop's
 * thread.
 *
 *   libuv ENDPOINT          the server is server.c; link with -luv
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <uv.h>
#include <witrpc.h>

typedef struct {
  witrpc_loop *queue;
  witrpc_client *client;
  witrpc_service *echo;
  uv_poll_t poll;
  int answered, failed;
} app;

static void finish(app *self) {
  uv_poll_stop(&self->poll);
  uv_close((uv_handle_t *)&self->poll, NULL);
}

static void on_sum(void *user_data, int32_t status, const witrpc_buffer *result,
                   const witrpc_error *error) {
  app *self = user_data;
  if (status != WITRPC_OK) {
    fprintf(stderr, "%s\n", witrpc_error_message(error));
    self->failed = 1;
    finish(self);
    return;
  }
  printf("answer %d: %s\n", ++self->answered, witrpc_buffer_text(result));
  if (self->answered == 5) finish(self);
}

static void on_connected(void *user_data, int32_t status, const witrpc_error *error) {
  app *self = user_data;
  if (status != WITRPC_OK) {
    fprintf(stderr, "%s\n", witrpc_error_message(error));
    self->failed = 1;
    finish(self);
    return;
  }
  for (int i = 0; i < 5; i++)
    witrpc_service_start(self->echo, "int Add(int a, int b)", "[2, 3]", NULL, on_sum, self, NULL,
                         NULL, NULL);
}

static void on_readable(uv_poll_t *poll, int status, int events) {
  app *self = poll->data;
  (void)status, (void)events;
  witrpc_dispatch(self->queue, 0, 0, NULL);
}

int main(int argc, char **argv) {
  app self = { 0 };
  witrpc_client_options *options = NULL;
  uv_loop_t *loop = uv_default_loop();
  witrpc_loop_new(&self.queue, NULL);
  witrpc_client_options_new(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100", &options, NULL);
  witrpc_client_options_loop(options, self.queue);
  if (witrpc_client_new(options, &self.client, NULL) != WITRPC_OK) return 1;
  witrpc_client_options_free(options);
  witrpc_client_service(self.client, "Demo.IEcho", &self.echo, NULL);

  uv_poll_init(loop, &self.poll, witrpc_loop_descriptor(self.queue));
  self.poll.data = &self;
  uv_poll_start(&self.poll, UV_READABLE, on_readable);
  witrpc_client_connect_start(self.client, on_connected, &self, NULL, NULL);
  uv_run(loop, UV_RUN_DEFAULT);

  witrpc_client_close_and_wait(self.client, 10000);
  witrpc_service_free(self.echo);
  witrpc_client_free(self.client);
  witrpc_loop_free(self.queue);
  uv_loop_close(loop);
  return self.failed;
}
