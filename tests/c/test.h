/* A small test frame: checks that say what failed, a watchdog, and waiting for things to happen. */
#ifndef WITRPC_TEST_H
#define WITRPC_TEST_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <witrpc.h>

static int passed, failed;
static const char *current;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, current, #condition);                          \
      fflush(stdout);                                                                              \
      failed_here = 1;                                                                             \
    }                                                                                              \
  } while (0)

/* Checks that need what they check go no further. */
#define NEED(condition)                                                                            \
  do {                                                                                             \
    CHECK(condition);                                                                              \
    if (failed_here) return;                                                                       \
  } while (0)

static int failed_here;

static void run(const char *name, void (*test)(void)) {
  current = name;
  failed_here = 0;
  test();
  if (failed_here) {
    failed++;
    printf("FAILED %s\n", name);
  } else {
    passed++;
    printf("ok %s\n", name);
  }
  fflush(stdout);
}

#define RUN(test) run(#test, test)

static void on_alarm(int signal) {
  (void)signal;
  static const char text[] = "watchdog: a test hangs\n";
  (void)!write(1, text, sizeof text - 1);
  abort();
}

/* A test that hangs ends with its name. Generous: valgrind is slow. */
static void watchdog(unsigned seconds) {
  signal(SIGALRM, on_alarm);
  alarm(seconds);
}

static int summary(void) {
  printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}

/* A counter that tests wait for. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int value;
} counter;

#define COUNTER_INIT                                                                               \
  { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 }

static inline void counter_add(counter *c, int n) {
  pthread_mutex_lock(&c->lock);
  c->value += n;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

static inline int counter_get(counter *c) {
  pthread_mutex_lock(&c->lock);
  int value = c->value;
  pthread_mutex_unlock(&c->lock);
  return value;
}

/* Waits until the counter is at least so high; the watchdog ends it otherwise. */
static inline void counter_wait(counter *c, int value) {
  pthread_mutex_lock(&c->lock);
  while (c->value < value) pthread_cond_wait(&c->changed, &c->lock);
  pthread_mutex_unlock(&c->lock);
}

/* user_data of callbacks whose destroy is counted. */
static inline void destroyed(void *user_data) { counter_add((counter *)user_data, 1); }

static inline int text_is(const char *text, const char *expected) {
  return text != NULL && strcmp(text, expected) == 0;
}

static inline int contains(const char *text, const char *part) {
  return text != NULL && strstr(text, part) != NULL;
}

#endif
