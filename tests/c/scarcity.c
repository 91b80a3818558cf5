/* A machine that has nothing left: no descriptors, no threads, no memory. Each part runs in a
 * process of its own. Whatever is missing, there is an error that says so, and with room again
 * everything works; without memory the process ends by SIGABRT, as documented, and never in another
 * way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "fixture.h"

/* The library calls these instead of the C library's. */
static _Atomic int no_threads;
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
  if (atomic_load(&no_threads)) return EAGAIN;
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
  *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, attributes, start, argument);
}

/* How many allocations of this thread still succeed; negative = all. */
static _Thread_local long left = -1;
static int may_allocate(void) { return left < 0 || left-- > 0; }
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
void *malloc(size_t size) { return may_allocate() ? __libc_malloc(size) : NULL; }
void *calloc(size_t count, size_t size) {
  return may_allocate() ? __libc_calloc(count, size) : NULL;
}
void *realloc(void *old, size_t size) { return may_allocate() ? __libc_realloc(old, size) : NULL; }
int posix_memalign(void **out, size_t alignment, size_t size) {
  void *made = may_allocate() ? __libc_memalign(alignment, size) : NULL;
  if (!made) return ENOMEM;
  *out = made;
  return 0;
}

/* Runs `part` in a process of its own and gives its exit code, or 1000 and its signal. */
static int in_child(int (*part)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    watchdog(100);
    _exit(part());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int works(void) {
  start_server("tcp://127.0.0.1:0");
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  int sum = 0;
  int status = add(service, 20, 22, &sum);
  witrpc_service_free(service);
  witrpc_client_free(client);
  kill_server();
  return status == WITRPC_OK && sum == 42;
}

static void descriptors(rlim_t most) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = most;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static int without_descriptors(void) {
  struct rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  start_server("tcp://127.0.0.1:0");
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  witrpc_client_options_new(endpoint, &options, NULL);
  witrpc_client_options_reconnect_max_attempts(options, 1);
  if (witrpc_client_new(options, &client, &error) != WITRPC_OK) return 1;
  descriptors(0);
  witrpc_loop *loop = NULL;
  if (witrpc_loop_new(&loop, &error) == WITRPC_OK) return 2;
  if (loop || !contains(witrpc_error_message(error), "descriptor")) return 3;
  witrpc_error_free(error);
  if (witrpc_client_connect(client, &error) != WITRPC_TRANSPORT) return 4;
  if (!contains(witrpc_error_details(error), "files")) return 5;
  witrpc_error_free(error);
  witrpc_server *second = NULL;
  witrpc_server_options *served = NULL;
  witrpc_implementation *implementation = NULL;
  witrpc_implementation_new("Demo.ITest", &implementation, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &served, NULL);
  witrpc_server_options_serve(served, implementation);
  witrpc_implementation_free(implementation);
  if (witrpc_server_start(served, &second, &error) == WITRPC_OK || second) return 6;
  if (!contains(witrpc_error_details(error), "files")) return 7;
  witrpc_error_free(error);
  descriptors(before.rlim_cur);
  if (witrpc_client_connect(client, &error) != WITRPC_OK) return 8;
  witrpc_client_free(client);
  witrpc_client_options_free(options);
  witrpc_server_options_free(served);
  kill_server();
  return works() ? 0 : 9;
}

/* A server that can't take a connection waits, and takes it when it can. */
static int without_descriptors_for_those_who_come(void) {
  struct rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  start_server("tcp://127.0.0.1:0");
  witrpc_client_free(connected(quick_options()));
  int pipes[2];
  if (pipe(pipes)) return 1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    char byte;
    watchdog(100);
    if (read(pipes[0], &byte, 1) != 1) _exit(1);
    witrpc_client *client = connected(quick_options());
    witrpc_service *service = service_of(client);
    int sum = 0;
    _exit(add(service, 1, 2, &sum) == WITRPC_OK && sum == 3 ? 0 : 2);
  }
  descriptors(0);
  if (write(pipes[1], "x", 1) != 1) return 2;
  usleep(50000); /* It need not have come by now; then this proves less, and nothing wrong. */
  descriptors(before.rlim_cur);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

static counter told = COUNTER_INIT;
static void on_state(void *user_data, int32_t state) {
  (void)user_data, (void)state;
  counter_add(&told, 1);
}

static int without_threads(void) {
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_error *error = NULL;
  witrpc_server *refused = NULL;
  witrpc_server_options *served = NULL;
  witrpc_client_options_new("tcp://127.0.0.1:1", &options, NULL);
  witrpc_implementation *implementation = NULL;
  witrpc_implementation_new("Demo.ITest", &implementation, NULL);
  witrpc_server_options_new("tcp://127.0.0.1:0", &served, NULL);
  witrpc_server_options_serve(served, implementation);
  witrpc_implementation_free(implementation);
  atomic_store(&no_threads, 1);
  if (witrpc_client_new(options, &client, &error) != WITRPC_INTERNAL || client) return 1;
  if (!contains(witrpc_error_message(error), "runtime")) return 2;
  witrpc_error_free(error);
  if (witrpc_server_start(served, &refused, &error) != WITRPC_INTERNAL || refused) return 3;
  if (!contains(witrpc_error_message(error), "runtime")) return 4;
  witrpc_error_free(error);
  witrpc_client_options_free(options);
  witrpc_server_options_free(served);
  atomic_store(&no_threads, 0);
  start_server("tcp://127.0.0.1:0");
  options = quick_options();
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  callbacks.on_state_changed = on_state;
  witrpc_client_options_callbacks(options, &callbacks);
  if (witrpc_client_new(options, &client, NULL) != WITRPC_OK) return 5;
  witrpc_client_options_free(options);
  /* There is none for callbacks: they wait until there is. */
  atomic_store(&no_threads, 1);
  if (witrpc_client_connect(client, NULL) != WITRPC_OK || counter_get(&told)) return 6;
  atomic_store(&no_threads, 0);
  witrpc_client_disconnect(client);
  counter_wait(&told, 2);
  witrpc_client_free(client);
  kill_server();
  return works() ? 0 : 7;
}

static void passes(int (*part)(void)) {
  int code = in_child(part);
  if (code) printf("%s: code %d\n", current, code), failed_here = 1;
}
static void no_descriptors(void) { passes(without_descriptors); }
static void no_descriptors_for_those_who_come(void) {
  passes(without_descriptors_for_those_who_come);
}
static void no_threads_for_anything(void) { passes(without_threads); }

static long allocations;
/* Everything that a program does, with one allocation that fails. */
static int without_memory(void) {
  const struct rlimit no_core = { 0, 0 };
  setrlimit(RLIMIT_CORE, &no_core);
  if (!freopen("/dev/null", "w", stderr)) return 1;
  left = allocations;
  witrpc_client_options *options = NULL;
  witrpc_client *client = NULL;
  witrpc_service *service = NULL;
  witrpc_error *error = NULL;
  witrpc_buffer *result = NULL;
  witrpc_client_options_new("tcp://127.0.0.1:1", &options, &error);
  witrpc_client_options_mark_deduplicated(options, "int Add(int a, int b)");
  witrpc_client_new(options, &client, &error);
  witrpc_client_service(client, "Demo.ITest", &service, &error);
  witrpc_service_call(service, "int Add(int a, int b)", "[1, 2]", NULL, &result, &error);
  int is_over = left >= 0;
  left = -1;
  return is_over ? 2 : 0;
}

static void without_memory_the_process_ends_in_one_way(void) {
  int ends = 0;
  for (allocations = 0; allocations < 4000; allocations += allocations < 40 ? 1 : 41) {
    int code = in_child(without_memory);
    if (code == 2) break;
    if (code != 0 && code != 1000 + SIGABRT) {
      printf("without allocation %ld: %d\n", allocations, code);
      failed_here = 1;
    }
    ends += code != 0;
  }
  CHECK(ends > 10 && allocations < 4000);
}

int main(void) {
  watchdog(300);
  RUN(no_descriptors);
  RUN(no_descriptors_for_those_who_come);
  RUN(no_threads_for_anything);
  RUN(without_memory_the_process_ends_in_one_way);
  return summary();
}
