/*
 * Measures blocking round trips from C: calls through the C ABI, or bare frames over a socket.
 *
 *   blocking calls ENDPOINT
 *   blocking bare PORT REQUEST_SIZE ANSWER_SIZE
 *
 * For each line with a number of ms on standard input it makes round trips for so long and prints
 * their latencies in ns on one line.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <witrpc.h>

enum { MOST = 1000000 };
static long latencies[MOST];

static long nanos(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static int bare;
static char request[65536], answer[65536];
static size_t request_size, answer_size;

static void ping(void) {
  if (write(bare, request, request_size) != (ssize_t)request_size) fail("write");
  for (size_t have = 0; have < answer_size;) {
    ssize_t n = read(bare, answer + have, answer_size - have);
    if (n <= 0) fail("read");
    have += (size_t)n;
  }
}

static witrpc_service *service;
static const char method[] = "string Echo(string text)";
static const char value[] = "\"0123456789012345678901234567890123456789012345678901234567890 \"";

static void call(void) {
  witrpc_bytes argument = { (const uint8_t *)value, sizeof value - 1 };
  witrpc_buffer *result = NULL;
  if (witrpc_service_call_encoded(service, method, sizeof method - 1, &argument, 1, NULL, &result,
                                  NULL) != WITRPC_OK ||
      witrpc_buffer_size(result) != sizeof value - 1) {
    fail("call");
  }
  witrpc_buffer_free(result);
}

int main(int argc, char **argv) {
  void (*once)(void);
  if (argc == 5 && strcmp(argv[1], "bare") == 0) {
    struct sockaddr_in address = { 0 };
    int on = 1;
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    request_size = (size_t)atoi(argv[3]);
    answer_size = (size_t)atoi(argv[4]);
    bare = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(bare, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    setsockopt(bare, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    once = ping;
  } else if (argc == 3 && strcmp(argv[1], "calls") == 0) {
    witrpc_client_options *options = NULL;
    witrpc_client *client = NULL;
    witrpc_client_options_new(argv[2], &options, NULL);
    witrpc_client_new(options, &client, NULL);
    if (witrpc_client_connect(client, NULL) != WITRPC_OK) fail("connect");
    witrpc_client_service(client, "Demo.IEcho", &service, NULL);
    once = call;
  } else {
    fail("usage: see the source");
    return 2;
  }
  for (long ms; scanf("%ld", &ms) == 1;) {
    int n = 0;
    long end = nanos() + ms * 1000000L;
    for (long begin = nanos(); begin < end && n < MOST;) {
      once();
      long now = nanos();
      latencies[n++] = now - begin;
      begin = now;
    }
    for (int i = 0; i < n; i++) printf("%ld ", latencies[i]);
    printf("\n");
    fflush(stdout);
  }
  return 0;
}
