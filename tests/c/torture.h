/* What the generated torture test (tools/torture.py) is made of: draws, pools of handles of every
 * kind, and the main program. */
#ifndef WITRPC_TORTURE_H
#define WITRPC_TORTURE_H

#include <limits.h>
#include <math.h>

#include "fixture.h"

#define BAD_TEXT "bad \xff text"

/* The same sequence each time; which thread draws what may differ. */
static _Atomic uint64_t seed = 20261130;

static uint64_t draw(void) {
  uint64_t z = atomic_fetch_add(&seed, 0x9E3779B97F4A7C15u) + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) >> 8;
}
static int flip(void) { return draw() & 1; }
static int rarely(void) { return draw() % 5 == 0; }

static uint64_t any_number(void) {
  static const uint64_t numbers[] = { 0, 1, 2, 3, 5, 100, 65536, INT_MAX, UINT32_MAX, UINT64_MAX };
  return numbers[draw() % (sizeof numbers / sizeof *numbers)];
}
static double any_double(void) {
  static const double numbers[] = { 0, 1, 2, -1, 0.5, 1e300, HUGE_VAL };
  uint64_t n = draw() % 8;
  return n == 7 ? (double)NAN : numbers[n];
}
static size_t any_struct_size(size_t right) {
  const size_t sizes[] = { 0, 4, sizeof(size_t), (size_t)1 << 20, right, right, right, right };
  return sizes[draw() % 8];
}

static char unused_endpoint[64];

static const char *any_text(const char *parameter) {
  static const char *const texts[] = { "",
                                       BAD_TEXT,
                                       "x",
                                       "Add",
                                       "int Add(int a, int b)",
                                       "event Action<int> Progress",
                                       "[1,2]",
                                       "[]",
                                       "null",
                                       "{}",
                                       "Demo.ITest",
                                       "tcp://127.0.0.1:0",
                                       "pipe://",
                                       "no/such/file",
                                       "int Add(",
                                       "T Echo<T>(T value)",
                                       "[[[[" };
  if (rarely()) return NULL;
  if (flip()) {
    if (strcmp(parameter, "method") == 0) return "int Add(int a, int b)";
    if (strcmp(parameter, "event") == 0) return "event Action<int> Progress";
    if (strcmp(parameter, "contract") == 0) return "Demo.ITest";
    if (strcmp(parameter, "endpoint") == 0) return unused_endpoint;
    if (strcmp(parameter, "arguments") == 0) return flip() ? "[1,2]" : "[1]";
  }
  return texts[draw() % (sizeof texts / sizeof *texts)];
}

typedef struct {
  const void *data;
  size_t size;
} sized;

static sized any_sized(void) {
  static const sized texts[] = {
    { NULL, 0 },      { NULL, 5 },          { "", 0 },
    { "\xff", 1 },    { "[1,2]", 5 },       { "int Add(int,int)", 16 },
    { "a\0b", 3 },    { "Demo.ITest", 10 }, { "event Action<int> Progress", 26 },
    { "x", SIZE_MAX }
  };
  sized one = texts[draw() % (sizeof texts / sizeof *texts)];
  /* A size that no memory has is refused without a look at it. */
  if (one.size == SIZE_MAX && !rarely()) one.size = 1;
  return one;
}

static int is_status(const char *name, int32_t status) {
  if (status >= WITRPC_OK && status <= WITRPC_WOULD_DEADLOCK && status != WITRPC_INTERNAL) return 1;
  printf("%s: status %d\n", name, (int)status);
  return 0;
}

/* User data that a function was given, and how often it was destroyed. */
typedef struct {
  _Atomic int given, destroyed;
} tally;
static void count_destroy(void *user_data) {
  atomic_fetch_add(&((tally *)user_data)->destroyed, 1);
}
static void expect_destroy(tally *one) { atomic_fetch_add(&one->given, 1); }

/* Live handles, and freed ones, by kind. */
#define POOL_SIZE 8
typedef struct {
  pthread_mutex_t lock;
  void *live[POOL_SIZE], *freed;
  int count;
} pool;

static void *make_any(const char *kind);
static const char *any_kind(void);

static void *any_handle(pool *p, void *(*make)(void)) {
  static int on_stack;
  void *handle = NULL;
  uint64_t n = draw() % 10;
  if (n == 0) return NULL;
  if (n == 1) return flip() ? (void *)(uintptr_t)draw() : (void *)&on_stack;
  if (n == 2) return make_any(any_kind());
  pthread_mutex_lock(&p->lock);
  if (n == 3)
    handle = p->freed;
  else if (p->count)
    handle = p->live[draw() % (uint64_t)p->count];
  int is_empty = p->count == 0;
  pthread_mutex_unlock(&p->lock);
  if (n != 3 && is_empty) return make();
  return handle;
}

/* What does not fit any more is freed, and remembered as freed. */
static void *keep_handle(pool *p, void *handle) {
  void *old = NULL;
  if (!handle) return NULL;
  pthread_mutex_lock(&p->lock);
  if (p->count < POOL_SIZE)
    p->live[p->count++] = handle;
  else {
    uint64_t at = draw() % POOL_SIZE;
    old = p->live[at];
    p->live[at] = handle;
    p->freed = old;
  }
  pthread_mutex_unlock(&p->lock);
  return old;
}

#define POOL(kind)                                                                                 \
  static pool pool_##kind = { PTHREAD_MUTEX_INITIALIZER, { NULL }, NULL, 0 };                      \
  static inline void keep_##kind(kind *handle) { kind##_free(keep_handle(&pool_##kind, handle)); } \
  static kind *make_##kind(void);                                                                  \
  static void *make_any_##kind(void) { return make_##kind(); }                                     \
  static inline void *any_##kind(void) { return any_handle(&pool_##kind, make_any_##kind); }       \
  static void drain_##kind(void) {                                                                 \
    while (pool_##kind.count) kind##_free(pool_##kind.live[--pool_##kind.count]);                  \
  }

/* Makes one, keeps it in its pool, and gives it. */
#define MAKE(kind, ...)                                                                            \
  static kind *make_##kind(void) {                                                                 \
    kind *made = NULL;                                                                             \
    __VA_ARGS__;                                                                                   \
    keep_##kind(made);                                                                             \
    return made;                                                                                   \
  }

typedef struct {
  const char *name;
  void (*call)(void);
} entry;

static const entry *all_entries;
static tally *all_tallies;
static size_t all_count;
static counter inside = COUNTER_INIT;

static void torment(int times) {
  for (int i = 0; i < times; i++)
    for (size_t k = 0; k < all_count; k++) all_entries[k].call();
}

static void torment_in_callback(void *user_data, int32_t state) {
  (void)user_data, (void)state;
  torment(5);
  counter_add(&inside, 1);
}

static void torment_in_handler(void *user_data, witrpc_request *request) {
  (void)user_data;
  torment(5);
  witrpc_request_reply(request, NULL, NULL);
  counter_add(&inside, 1);
}

static void free_pools(void);

static void from_outside(void) { torment(100); }

static void from_inside_a_callback(void) {
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  witrpc_client_options *options = quick_options();
  callbacks.on_state_changed = torment_in_callback;
  witrpc_client_options_callbacks(options, &callbacks);
  int before = counter_get(&inside);
  witrpc_client *client = connected(options);
  counter_wait(&inside, before + 1);
  witrpc_client_free(client);
}

static void from_inside_a_handler(void) {
  witrpc_implementation *implementation = NULL;
  witrpc_server_options *options = NULL;
  witrpc_server *own = NULL;
  witrpc_buffer *where = NULL;
  witrpc_client_options *client_options = NULL;
  witrpc_service *service = NULL;
  witrpc_implementation_new("Demo.IOwn", &implementation, NULL);
  witrpc_implementation_handle(implementation, "void Torment()", torment_in_handler, NULL, NULL,
                               NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, implementation);
  NEED(witrpc_server_start(options, &own, NULL) == WITRPC_OK);
  witrpc_server_endpoint(own, 0, &where);
  witrpc_client_options_new(witrpc_buffer_text(where), &client_options, NULL);
  witrpc_client_options_attempt_timeout_ms(client_options, 250000);
  witrpc_client *client = connected(client_options);
  witrpc_client_service(client, "Demo.IOwn", &service, NULL);
  CHECK(witrpc_service_call(service, "void Torment()", "[]", NULL, NULL, NULL) == WITRPC_OK);
  witrpc_service_free(service);
  witrpc_client_free(client);
  witrpc_server_free(own);
  witrpc_buffer_free(where);
  witrpc_server_options_free(options);
  witrpc_implementation_free(implementation);
}

/* After all that the library works as before, and each destroy has run exactly once. */
static void everything_is_whole(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  int sum = 0;
  CHECK(add(service, 20, 22, &sum) == WITRPC_OK && sum == 42);
  witrpc_service_free(service);
  witrpc_client_free(client);
  witrpc_log_off();
  free_pools();
  free_pools();
  kill_server();
  CHECK(witrpc_shutdown(60000) == WITRPC_OK);
  /* What a handler was given that had begun before its server was freed. */
  free_pools();
  CHECK(witrpc_shutdown(60000) == WITRPC_OK);
  for (size_t k = 0; k < all_count; k++) {
    int given = atomic_load(&all_tallies[k].given);
    int destroyed = atomic_load(&all_tallies[k].destroyed);
    if (given == destroyed) continue;
    printf("%s: %d given, %d destroyed\n", all_entries[k].name, given, destroyed);
    failed_here = 1;
  }
}

#define TORTURE_MAIN(entries, tallies, count)                                                      \
  int main(void) {                                                                                 \
    watchdog(580);                                                                                 \
    start_server("tcp://127.0.0.1:0");                                                             \
    snprintf(unused_endpoint, sizeof unused_endpoint, "%s", endpoint);                             \
    all_entries = entries;                                                                         \
    all_tallies = tallies;                                                                         \
    all_count = count;                                                                             \
    RUN(from_outside);                                                                             \
    RUN(from_inside_a_callback);                                                                   \
    RUN(from_inside_a_handler);                                                                    \
    RUN(everything_is_whole);                                                                      \
    return summary();                                                                              \
  }

#endif
