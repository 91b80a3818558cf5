/* The library and the process: fork, exit, many threads, loading and unloading, static
 * initialisation (process_static.cpp). Each part runs in a process of its own under a watchdog. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>

#include "fixture.h"

/* Runs `part` in a child made by fork, before the library has any thread there, and gives its exit
 * code. */
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

static witrpc_client *parents_client;
static witrpc_service *parents_service;

/* What went wrong, as an exit code; 0 = nothing. */
static int use_in_child(void) {
  int sum = 0;
  witrpc_error *error = NULL;
  if (add(parents_service, 1, 1, &sum) != WITRPC_INVALID_HANDLE) return 1;
  if (witrpc_client_connect(parents_client, &error) != WITRPC_INVALID_HANDLE) return 2;
  witrpc_error_free(error);
  if (witrpc_client_state(parents_client) != -1) return 3;
  if (witrpc_server_stop(server, 10) != WITRPC_INVALID_HANDLE) return 4;
  witrpc_service_free(parents_service);
  witrpc_client_free(parents_client);
  /* The child's own objects work, with the parent's server too. */
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  if (add(service, 20, 22, &sum) != WITRPC_OK || sum != 42) return 5;
  if (witrpc_client_close_and_wait(client, 20000) != WITRPC_OK) return 6;
  witrpc_service_free(service);
  witrpc_client_free(client);
  start_server("tcp://127.0.0.1:0");
  client = connected(quick_options());
  service = service_of(client);
  if (add(service, 1, 2, &sum) != WITRPC_OK || sum != 3) return 7;
  return witrpc_shutdown(20000) == WITRPC_OK ? 0 : 8;
}

static void a_fork_leaves_the_parent_alone_and_the_child_its_own(void) {
  parents_client = connected(quick_options());
  parents_service = service_of(parents_client);
  int sum = 0;
  for (int i = 0; i < 3; i++) {
    CHECK(in_child(use_in_child) == 0);
    CHECK(add(parents_service, i, 1, &sum) == WITRPC_OK && sum == i + 1);
  }
  witrpc_service_free(parents_service);
  witrpc_client_free(parents_client);
}

static _Atomic int stop_calling;

static void *call_on(void *argument) {
  int sum = 0;
  while (!atomic_load(&stop_calling))
    if (add(argument, 1, 1, &sum) != WITRPC_OK || sum != 2) return argument;
  return NULL;
}

static void forks_amid_calls_of_other_threads(void) {
  parents_client = connected(quick_options());
  parents_service = service_of(parents_client);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, call_on, parents_service);
  for (int i = 0; i < 5; i++) CHECK(in_child(use_in_child) == 0);
  atomic_store(&stop_calling, 1);
  for (int i = 0; i < 3; i++) {
    void *broken = NULL;
    pthread_join(threads[i], &broken);
    CHECK(broken == NULL);
  }
  witrpc_service_free(parents_service);
  witrpc_client_free(parents_client);
}

static void never(void *user_data, int32_t status, const witrpc_buffer *result,
                  const witrpc_error *error) {
  (void)user_data, (void)status, (void)result, (void)error;
}

/* Ends in the middle of everything, by exit(): with calls on their way, threads, a server. */
static int leave_amid_calls(void) {
  start_server("tcp://127.0.0.1:0");
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  for (int i = 0; i < 50; i++)
    witrpc_service_start(service, "int Hold()", "[]", NULL, never, NULL, NULL, NULL, NULL);
  counter_wait(&holding, 1);
  exit(0);
}

static void exit_with_calls_on_their_way(void) { CHECK(in_child(leave_amid_calls) == 0); }

static void *a_thread_of_many(void *argument) {
  witrpc_service *shared = argument;
  int sum = 0;
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  for (int i = 0; i < 20; i++) {
    if (add(shared, i, 1, &sum) != WITRPC_OK || sum != i + 1) return argument;
    if (add(service, i, 2, &sum) != WITRPC_OK || sum != i + 2) return argument;
  }
  witrpc_service_free(service);
  witrpc_client_free(client);
  return NULL;
}

static void thirty_two_threads(void) {
  witrpc_client *client = connected(quick_options());
  witrpc_service *service = service_of(client);
  pthread_t threads[32];
  for (int i = 0; i < 32; i++) pthread_create(&threads[i], NULL, a_thread_of_many, service);
  for (int i = 0; i < 32; i++) {
    void *broken = NULL;
    pthread_join(threads[i], &broken);
    CHECK(broken == NULL);
  }
  witrpc_service_free(service);
  witrpc_client_free(client);
}

typedef struct {
  witrpc_client *client;
  witrpc_service *service;
  witrpc_call *call, *other;
  counter ended, other_ended;
  int status;
} from_inside;

static void other_ended(void *user_data, int32_t status, const witrpc_buffer *result,
                        const witrpc_error *error) {
  from_inside *f = user_data;
  (void)result, (void)error;
  f->status = status;
  counter_add(&f->other_ended, 1);
}

/* Cancels another call and itself, and frees everything, its own client first. */
static void free_all_inside(void *user_data, int32_t status, const witrpc_buffer *result,
                            const witrpc_error *error) {
  from_inside *f = user_data;
  (void)status, (void)result, (void)error;
  witrpc_call_cancel(f->call);
  witrpc_call_cancel(f->other);
  CHECK(witrpc_client_close_and_wait(f->client, 1000) == WITRPC_WOULD_DEADLOCK);
  witrpc_client_free(f->client);
  witrpc_service_free(f->service);
  witrpc_call_free(f->call);
  witrpc_call_free(f->other);
  counter_add(&f->ended, 1);
}

static void cancelling_and_freeing_from_inside_a_callback(void) {
  static from_inside f = { NULL, NULL, NULL, NULL, COUNTER_INIT, COUNTER_INIT, -1 };
  f.client = connected(quick_options());
  f.service = service_of(f.client);
  int before = counter_get(&holding);
  CHECK(witrpc_service_start(f.service, "int Hold()", "[]", NULL, other_ended, &f, NULL, &f.other,
                             NULL) == WITRPC_OK);
  counter_wait(&holding, before + 1);
  witrpc_request *request = atomic_load(&held);
  CHECK(witrpc_service_start(f.service, "int Hold()", "[]", NULL, free_all_inside, &f, NULL,
                             &f.call, NULL) == WITRPC_OK);
  counter_wait(&holding, before + 2);
  witrpc_request_reply(atomic_load(&held), "1", NULL);
  counter_wait(&f.ended, 1);
  counter_wait(&f.other_ended, 1);
  CHECK(f.status == WITRPC_CANCELLED);
  witrpc_request_free(request);
}

/* Loads the library, uses it, unloads it, and does so again: it stays, being marked nodelete. */
static int load_and_unload(void) {
  for (int i = 0; i < 3; i++) {
    void *library = dlopen("libwitrpc.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 1;
    int32_t (*options_new)(const char *, witrpc_client_options **, witrpc_error **);
    int32_t (*client_new)(const witrpc_client_options *, witrpc_client **, witrpc_error **);
    int32_t (*connect)(const witrpc_client *, witrpc_error **);
    *(void **)&options_new = dlsym(library, "witrpc_client_options_new");
    *(void **)&client_new = dlsym(library, "witrpc_client_new");
    *(void **)&connect = dlsym(library, "witrpc_client_connect");
    if (!options_new || !client_new || !connect) return 2;
    witrpc_client_options *options = NULL;
    witrpc_client *client = NULL;
    if (options_new(endpoint, &options, NULL) || client_new(options, &client, NULL)) return 3;
    if (connect(client, NULL) != WITRPC_OK) return 4;
    /* With its threads running and a client connected. */
    if (dlclose(library) != 0) return 5;
  }
  return 0;
}

static void loading_and_unloading(void) { CHECK(in_child(load_and_unload) == 0); }

static void shutdown_ends_everything(void) { CHECK(witrpc_shutdown(20000) == WITRPC_OK); }

int main(void) {
  watchdog(300);
  RUN(exit_with_calls_on_their_way);
  start_server("tcp://127.0.0.1:0");
  RUN(a_fork_leaves_the_parent_alone_and_the_child_its_own);
  RUN(forks_amid_calls_of_other_threads);
  RUN(thirty_two_threads);
  RUN(cancelling_and_freeing_from_inside_a_callback);
  RUN(loading_and_unloading);
  kill_server();
  RUN(shutdown_ends_everything);
  return summary();
}
