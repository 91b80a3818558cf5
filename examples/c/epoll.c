/*
 * Callbacks on a loop of one's own, with plain epoll: one thread does everything, and no callback
 * ever runs anywhere else. Calls that are made every 10 ms by a timer, until five have been
 * answered.
 *
 *   epoll ENDPOINT          the server is server.c
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <witrpc.h>

static int answered, failed;

static void on_connected(void *user_data, int32_t status, const witrpc_error *error) {
  (void)user_data;
  if (status == WITRPC_OK) return;
  fprintf(stderr, "%s: %s\n", witrpc_error_name(error), witrpc_error_message(error));
  failed = 1;
}

static void on_sum(void *user_data, int32_t status, const witrpc_buffer *result,
                   const witrpc_error *error) {
  (void)user_data;
  if (status == WITRPC_OK) {
    printf("answer %d: %s\n", ++answered, witrpc_buffer_text(result));
  } else {
    fprintf(stderr, "%s: %s\n", witrpc_error_name(error), witrpc_error_message(error));
    failed = 1;
  }
}

int main(int argc, char **argv) {
  witrpc_loop *loop = NULL;
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_service *echo = NULL;
  witrpc_loop_new(&loop, NULL);
  witrpc_client_options_new(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100", &options, NULL);
  witrpc_client_options_loop(options, loop);
  if (witrpc_client_new(options, &client, NULL) != WITRPC_OK) return 1;
  witrpc_client_options_free(options);
  witrpc_client_service(client, "Demo.IEcho", &echo, NULL);
  witrpc_client_connect_start(client, on_connected, NULL, NULL, NULL);

  int epoll = epoll_create1(EPOLL_CLOEXEC);
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  struct itimerspec every = { { 0, 10000000 }, { 0, 10000000 } };
  timerfd_settime(timer, 0, &every, NULL);
  struct epoll_event callbacks = { .events = EPOLLIN, .data.fd = witrpc_loop_descriptor(loop) };
  struct epoll_event ticks = { .events = EPOLLIN, .data.fd = timer };
  epoll_ctl(epoll, EPOLL_CTL_ADD, callbacks.data.fd, &callbacks);
  epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &ticks);

  while (answered < 5 && !failed) {
    struct epoll_event ready[4];
    int count = epoll_wait(epoll, ready, 4, -1);
    for (int i = 0; i < count; i++) {
      if (ready[i].data.fd == timer) {
        uint64_t ticked;
        if (read(timer, &ticked, sizeof ticked) == sizeof ticked &&
            witrpc_client_state(client) == WITRPC_CONNECTED)
          witrpc_service_start(echo, "int Add(int a, int b)", "[2, 3]", NULL, on_sum, NULL, NULL,
                               NULL, NULL);
      } else {
        /* Runs what waits, here; the descriptor is readable until nothing waits. */
        witrpc_dispatch(loop, 0, 0, NULL);
      }
    }
  }
  /* On the loop's thread this runs the callbacks that are left. */
  witrpc_client_close_and_wait(client, 10000);
  witrpc_service_free(echo);
  witrpc_client_free(client);
  witrpc_loop_free(loop);
  close(timer);
  close(epoll);
  return failed;
}
