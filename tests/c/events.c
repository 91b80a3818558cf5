/* Events through the C ABI: order, queues, handlers that block, targets, slow clients. */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "fixture.h"

#define TICK "event Action<int> Tick"
#define TOCK "event Action<int> Tock"

/* The contract Demo.IFeed beside the one of the fixture. */

static void raise_many(void *user_data, witrpc_request *request) {
  int count = 0;
  (void)user_data;
  sscanf(witrpc_request_arguments(request), "[%d]", &count);
  for (int n = 0; n < count; n++) {
    char arguments[16];
    snprintf(arguments, sizeof arguments, "[%d]", n);
    witrpc_request_raise(request, n % 2 ? TOCK : TICK, arguments, NULL);
  }
  witrpc_request_reply(request, NULL, NULL);
}

static void join_or_leave(void *leaves, witrpc_request *request) {
  char group[32] = "";
  sscanf(witrpc_request_arguments(request), "[\"%31[^\"]", group);
  int status = leaves ? witrpc_request_leave(request, group, NULL)
                      : witrpc_request_join(request, group, NULL);
  if (status == WITRPC_OK)
    witrpc_request_reply(request, NULL, NULL);
  else
    witrpc_request_fail(request, "no", NULL);
}

static void tell(void *user_data, witrpc_request *request) {
  char whom[32] = "", arguments[16];
  int n = 0;
  (void)user_data;
  sscanf(witrpc_request_arguments(request), "[\"%31[^\"]\",%d]", whom, &n);
  snprintf(arguments, sizeof arguments, "[%d]", n);
  if (!strcmp(whom, "caller"))
    witrpc_request_raise_to_caller(request, TICK, arguments, NULL);
  else if (!strcmp(whom, "others"))
    witrpc_request_raise_to_others(request, TICK, arguments, NULL);
  else
    witrpc_request_raise_to_group(request, whom, TICK, arguments, NULL);
  witrpc_request_reply(request, NULL, NULL);
}

static uint8_t last_caller[16];

static void who(void *user_data, witrpc_request *request) {
  (void)user_data;
  witrpc_request_connection(request, last_caller);
  witrpc_request_reply(request, NULL, NULL);
}

/* What a client that was away asks for. */
static _Atomic int state;

static void get_state(void *user_data, witrpc_request *request) {
  char result[16];
  (void)user_data;
  snprintf(result, sizeof result, "%d", atomic_load(&state));
  witrpc_request_reply(request, result, NULL);
}

static counter came = COUNTER_INIT, left_again = COUNTER_INIT, watcher_gone = COUNTER_INIT;

static void on_came(void *user_data, const witrpc_connection *connection) {
  uint8_t id[16];
  (void)user_data;
  if (witrpc_connection_id(connection, id) == WITRPC_OK &&
      contains(witrpc_connection_peer(connection), "127.0.0.1:") &&
      witrpc_connection_principal(connection) != NULL &&
      witrpc_connection_join(connection, witrpc_connection_principal(connection), NULL) ==
          WITRPC_OK)
    counter_add(&came, 1);
}

static void on_left(void *user_data, const witrpc_connection *connection) {
  (void)user_data;
  if (witrpc_connection_principal(connection) != NULL) counter_add(&left_again, 1);
}

/* Every token is good, and the name of its bearer. */
static bool validate(void *user_data, const char *token, const char *peer, char *principal,
                     size_t size) {
  (void)user_data, (void)peer;
  snprintf(principal, size, "%s", token);
  return true;
}

static int overflow = WITRPC_DISCONNECT;

static void serve_feed(witrpc_server_options *options) {
  static char yes;
  witrpc_implementation *feed = NULL;
  witrpc_implementation_new("Demo.IFeed", &feed, NULL);
  witrpc_implementation_handle(feed, "void Raise(int count)", raise_many, NULL, NULL, NULL);
  witrpc_implementation_handle(feed, "void Join(string group)", join_or_leave, NULL, NULL, NULL);
  witrpc_implementation_handle(feed, "void Leave(string group)", join_or_leave, &yes, NULL, NULL);
  witrpc_implementation_handle(feed, "void Tell(string whom, int n)", tell, NULL, NULL, NULL);
  witrpc_implementation_handle(feed, "void Who()", who, NULL, NULL, NULL);
  witrpc_implementation_handle(feed, "int State()", get_state, NULL, NULL, NULL);
  witrpc_server_options_serve(options, feed);
  witrpc_implementation_free(feed);
  witrpc_server_options_validator(options, validate, NULL, NULL);
  witrpc_server_options_on_connection(options, on_came, on_left, &watcher_gone, destroyed);
  CHECK(witrpc_server_options_event_queue(options, 50, 1 << 20, overflow) == WITRPC_OK);
}

static witrpc_service *feed_of(witrpc_client *client) {
  witrpc_service *service = NULL;
  witrpc_client_service(client, "Demo.IFeed", &service, NULL);
  return service;
}

static int ask(witrpc_service *service, const char *method, const char *arguments) {
  return witrpc_service_call(service, method, arguments, NULL, NULL, NULL);
}

/* What handlers saw, in order. */
typedef struct {
  counter seen, gone;
  int numbers[128];
} log_of_events;

#define LOG_INIT                                                                                   \
  {                                                                                                \
    COUNTER_INIT, COUNTER_INIT, { 0 }                                                              \
  }

static void note(void *user_data, const witrpc_buffer *arguments) {
  log_of_events *l = user_data;
  int at = counter_get(&l->seen);
  if (at < 128) sscanf(witrpc_buffer_text(arguments), "[%d]", &l->numbers[at]);
  counter_add(&l->seen, 1);
}

static void log_gone(void *user_data) { counter_add(&((log_of_events *)user_data)->gone, 1); }

static witrpc_subscription *subscribe(witrpc_service *service, const char *event,
                                      witrpc_event_handler handler, void *user_data,
                                      witrpc_destroy destroy) {
  witrpc_subscription *subscription = NULL;
  CHECK(witrpc_service_subscribe(service, event, handler, user_data, destroy, &subscription,
                                 NULL) == WITRPC_OK);
  return subscription;
}

static witrpc_subscription_stats stats_of(const witrpc_subscription *subscription) {
  witrpc_subscription_stats stats = WITRPC_SUBSCRIPTION_STATS_INIT;
  CHECK(witrpc_subscription_stats_get(subscription, &stats) == WITRPC_OK);
  return stats;
}

static void handlers_run_in_the_order_in_which_events_were_raised(void) {
  static log_of_events both = LOG_INIT;
  witrpc_client *client = connected(quick_options());
  witrpc_service *feed = feed_of(client);
  witrpc_subscription *tock = subscribe(feed, TOCK, note, &both, log_gone);
  witrpc_subscription *tick = subscribe(feed, TICK, note, &both, log_gone);
  CHECK(ask(feed, "void Raise(int)", "[100]") == WITRPC_OK);
  counter_wait(&both.seen, 100);
  for (int n = 0; n < 100; n++) CHECK(both.numbers[n] == n);
  CHECK(stats_of(tick).delivered == 50 && stats_of(tick).dropped == 0);
  witrpc_subscription_free(tick);
  witrpc_subscription_free(tock);
  counter_wait(&both.gone, 2);
  witrpc_service_free(feed);
  witrpc_client_free(client);
}

typedef struct {
  log_of_events log;
  counter gate;
} blocked;

#define BLOCKED_INIT                                                                               \
  { LOG_INIT, COUNTER_INIT }

/* Holds the first event until it is let go. */
static void block(void *user_data, const witrpc_buffer *arguments) {
  blocked *b = user_data;
  note(&b->log, arguments);
  if (counter_get(&b->log.seen) == 1) counter_wait(&b->gate, 1);
}

static void blocked_gone(void *user_data) { counter_add(&((blocked *)user_data)->log.gone, 1); }

static void completed(void *user_data, int32_t status, const witrpc_buffer *result,
                      const witrpc_error *error) {
  (void)result, (void)error;
  if (status == WITRPC_OK) counter_add(user_data, 1);
}

static void a_handler_that_blocks_holds_up_its_own_events_only(void) {
  static blocked slow = BLOCKED_INIT;
  static log_of_events quick = LOG_INIT;
  static counter answered = COUNTER_INIT;
  witrpc_client_options *options = quick_options();
  CHECK(witrpc_client_options_handler_patience_ms(options, 10) == WITRPC_OK);
  witrpc_client *client = connected(options);
  witrpc_service *feed = feed_of(client);
  witrpc_subscription *tick = subscribe(feed, TICK, block, &slow, blocked_gone);
  witrpc_subscription *tock = subscribe(feed, TOCK, note, &quick, log_gone);
  CHECK(ask(feed, "void Raise(int)", "[20]") == WITRPC_OK);
  counter_wait(&quick.seen, 10);
  CHECK(witrpc_service_start(feed, "int State()", "[]", NULL, completed, &answered, NULL, NULL,
                             NULL) == WITRPC_OK);
  counter_wait(&answered, 1);
  CHECK(counter_get(&slow.log.seen) == 1 && stats_of(tick).waiting == 9);
  CHECK(witrpc_client_close_and_wait(client, 10) == WITRPC_TIMEOUT);
  /* What waited is not delivered to a closed client; the handler that runs is let go. */
  CHECK(stats_of(tick).waiting == 0);
  witrpc_subscription_free(tick);
  CHECK(counter_get(&slow.log.gone) == 0);
  counter_add(&slow.gate, 1);
  counter_wait(&slow.log.gone, 1);
  CHECK(witrpc_client_close_and_wait(client, 60000) == WITRPC_OK);
  CHECK(counter_get(&slow.log.seen) == 1);
  witrpc_subscription_free(tock);
  counter_wait(&quick.gone, 1);
  witrpc_service_free(feed);
  witrpc_client_free(client);
}

static void what_does_not_fit_a_queue(int policy, const int *expected, uint64_t dropped) {
  blocked *slow = calloc(1, sizeof *slow);
  *slow = (blocked)BLOCKED_INIT;
  witrpc_client_options *options = quick_options();
  CHECK(witrpc_client_options_event_queue(options, 2, 1 << 20, policy) == WITRPC_OK);
  CHECK(witrpc_client_options_handler_patience_ms(options, WITRPC_NO_TIMEOUT) == WITRPC_OK);
  witrpc_client *client = connected(options);
  witrpc_service *feed = feed_of(client);
  witrpc_subscription *tick = subscribe(feed, TICK, block, slow, blocked_gone);
  CHECK(ask(feed, "void Raise(int)", "[1]") == WITRPC_OK);
  counter_wait(&slow->log.seen, 1);
  CHECK(ask(feed, "void Raise(int)", "[10]") == WITRPC_OK);
  CHECK(stats_of(tick).waiting == 2 && stats_of(tick).dropped == dropped);
  CHECK(witrpc_subscription_dropped(tick) == dropped);
  counter_add(&slow->gate, 1);
  counter_wait(&slow->log.seen, 3);
  CHECK(slow->log.numbers[1] == expected[0] && slow->log.numbers[2] == expected[1]);
  witrpc_subscription_free(tick);
  counter_wait(&slow->log.gone, 1);
  witrpc_service_free(feed);
  CHECK(witrpc_client_close_and_wait(client, 60000) == WITRPC_OK);
  witrpc_client_free(client);
  free(slow);
}

static void what_does_not_fit_a_queue_is_dropped_as_its_policy_says(void) {
  what_does_not_fit_a_queue(WITRPC_DROP_OLDEST, (const int[]){ 6, 8 }, 3);
  what_does_not_fit_a_queue(WITRPC_DROP_NEWEST, (const int[]){ 0, 2 }, 3);
}

static void events_that_can_not_be_read_are_counted(void) {
  static log_of_events l = LOG_INIT;
  witrpc_client *client = connected(quick_options());
  witrpc_service *feed = feed_of(client);
  witrpc_subscription *tick = subscribe(feed, TICK, note, &l, log_gone);
  CHECK(witrpc_server_raise(server, "Demo.IFeed", "event Action<string> Tick", "[\"x\"]", NULL) ==
        WITRPC_OK);
  CHECK(witrpc_server_raise(server, "Demo.IFeed", TICK, "[7]", NULL) == WITRPC_OK);
  counter_wait(&l.seen, 1);
  CHECK(l.numbers[0] == 7 && stats_of(tick).unreadable == 1 && stats_of(tick).delivered == 2);
  witrpc_subscription_free(tick);
  witrpc_service_free(feed);
  witrpc_client_free(client);
}

typedef struct {
  witrpc_client *client;
  witrpc_service *feed;
  witrpc_subscription *tick;
  log_of_events log;
  uint8_t id[16];
} member;

static void enter(member *m, const char *name) {
  witrpc_client_options *options = quick_options();
  witrpc_client_options_token(options, name);
  m->client = connected(options);
  m->feed = feed_of(m->client);
  m->log = (log_of_events)LOG_INIT;
  m->tick = subscribe(m->feed, TICK, note, &m->log, NULL);
  CHECK(ask(m->feed, "void Who()", "[]") == WITRPC_OK);
  memcpy(m->id, last_caller, 16);
}

static void leave(member *m) {
  witrpc_subscription_free(m->tick);
  witrpc_service_free(m->feed);
  CHECK(witrpc_client_close_and_wait(m->client, 60000) == WITRPC_OK);
  witrpc_client_free(m->client);
}

static void events_reach_those_who_are_meant(void) {
  static member ann, twin, bob;
  size_t n = 99;
  int before = counter_get(&came);
  enter(&ann, "ann");
  enter(&twin, "ann");
  enter(&bob, "bob");
  CHECK(counter_get(&came) == before + 3);
  CHECK(witrpc_server_raise_to_connection(server, bob.id, "Demo.IFeed", TICK, "[1]", &n, NULL) ==
        WITRPC_OK);
  CHECK(n == 1);
  CHECK(witrpc_server_raise_to_principal(server, "ann", "Demo.IFeed", TICK, "[2]", &n, NULL) ==
        WITRPC_OK);
  CHECK(n == 2);
  /* The group that each was put into when it came. */
  CHECK(witrpc_server_raise_to_group(server, "bob", "Demo.IFeed", TICK, "[3]", &n, NULL) ==
        WITRPC_OK);
  CHECK(n == 1);
  CHECK(ask(ann.feed, "void Join(string)", "[\"red\"]") == WITRPC_OK);
  CHECK(witrpc_server_group_add(server, bob.id, "red", NULL) == WITRPC_OK);
  CHECK(ask(twin.feed, "void Tell(string,int)", "[\"red\",4]") == WITRPC_OK);
  CHECK(ask(ann.feed, "void Leave(string)", "[\"red\"]") == WITRPC_OK);
  CHECK(ask(twin.feed, "void Tell(string,int)", "[\"red\",5]") == WITRPC_OK);
  CHECK(witrpc_server_group_remove(server, bob.id, "red", NULL) == WITRPC_OK);
  CHECK(ask(twin.feed, "void Tell(string,int)", "[\"red\",6]") == WITRPC_OK);
  CHECK(ask(ann.feed, "void Tell(string,int)", "[\"caller\",7]") == WITRPC_OK);
  CHECK(ask(ann.feed, "void Tell(string,int)", "[\"others\",8]") == WITRPC_OK);
  CHECK(witrpc_server_raise(server, "Demo.IFeed", TICK, "[9]", NULL) == WITRPC_OK);
  counter_wait(&ann.log.seen, 4);
  counter_wait(&twin.log.seen, 3);
  counter_wait(&bob.log.seen, 6);
  static const int to_ann[] = { 2, 4, 7, 9 }, to_twin[] = { 2, 8, 9 };
  static const int to_bob[] = { 1, 3, 4, 5, 8, 9 };
  CHECK(!memcmp(ann.log.numbers, to_ann, sizeof to_ann));
  CHECK(!memcmp(twin.log.numbers, to_twin, sizeof to_twin));
  CHECK(!memcmp(bob.log.numbers, to_bob, sizeof to_bob));
  int gone = counter_get(&left_again);
  leave(&ann), leave(&twin), leave(&bob);
  counter_wait(&left_again, gone + 3);
  CHECK(witrpc_server_raise_to_connection(server, bob.id, "Demo.IFeed", TICK, "[1]", &n, NULL) ==
        WITRPC_OK);
  CHECK(n == 0);
}

typedef struct {
  witrpc_service *feed;
  counter fetched, gone;
  int value;
} mirror;

static void fetch(void *user_data) {
  mirror *m = user_data;
  witrpc_buffer *result = NULL;
  if (witrpc_service_call(m->feed, "int State()", "[]", NULL, &result, NULL) == WITRPC_OK) {
    m->value = atoi(witrpc_buffer_text(result));
    counter_add(&m->fetched, 1);
  }
  witrpc_buffer_free(result);
}

static void mirror_gone(void *user_data) { counter_add(&((mirror *)user_data)->gone, 1); }

static void what_was_missed_is_fetched_when_the_link_is_back(void) {
  static mirror m = { NULL, COUNTER_INIT, COUNTER_INIT, 0 };
  static log_of_events l = LOG_INIT;
  witrpc_client_callbacks callbacks = WITRPC_CLIENT_CALLBACKS_INIT;
  callbacks.on_reconnected = fetch;
  callbacks.user_data = &m;
  callbacks.destroy = mirror_gone;
  witrpc_client_options *options = quick_options();
  witrpc_client_options_callbacks(options, &callbacks);
  witrpc_client *client = connected(options);
  m.feed = feed_of(client);
  witrpc_subscription *tick = subscribe(m.feed, TICK, note, &l, log_gone);
  for (int life = 1; life <= 5; life++) {
    kill_server();
    atomic_store(&state, life * 10);
    restart_server();
    counter_wait(&m.fetched, life);
    CHECK(m.value == life * 10);
    CHECK(ask(m.feed, "void Raise(int)", "[1]") == WITRPC_OK);
    counter_wait(&l.seen, life);
  }
  witrpc_subscription_free(tick);
  witrpc_service_free(m.feed);
  witrpc_client_free(client);
  counter_wait(&m.gone, 1);
  counter_wait(&l.gone, 1);
}

/* A client that is authorised and then reads nothing. */
static int mute_client(void) {
  static const uint8_t initialization[] = { 0x25, 0,    0,    0,    3,    0xb2, 0xed, 0x35, 0xd7,
                                            0x73, 0x49, 0x36, 0x48, 0x95, 0x16, 0x0e, 0x91, 0x3f,
                                            0xbc, 0x18, 0x68, 3,    0,    0,    0,    0x0c, 0,
                                            0,    0,    2,    5,    4,    1,    0,    0,    0,
                                            0,    3,    0,    0,    0 };
  static const uint8_t authorization[] = { 0x1f, 0,    0,    0,    3,    0x86, 0xb0, 0x6c, 0x71,
                                           0x7e, 0xfd, 0x12, 0x4b, 0xad, 0x5c, 0xe4, 0xc0, 0x97,
                                           0x4d, 0x52, 0xcd, 4,    0,    0,    0,    6,    0,
                                           0,    0,    1,    4,    0,    0,    0,    0 };
  uint8_t answer[256];
  struct sockaddr_in address = { 0 };
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
  int mute = socket(AF_INET, SOCK_STREAM, 0), little = 4096;
  setsockopt(mute, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
  CHECK(connect(mute, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(write(mute, initialization, sizeof initialization) == (ssize_t)sizeof initialization);
  CHECK(read(mute, answer, sizeof answer) > 0);
  CHECK(write(mute, authorization, sizeof authorization) == (ssize_t)sizeof authorization);
  CHECK(read(mute, answer, sizeof answer) > 0);
  return mute;
}

static witrpc_server_stats server_stats(void) {
  witrpc_server_stats stats = WITRPC_SERVER_STATS_INIT;
  CHECK(witrpc_server_stats_get(server, &stats) == WITRPC_OK);
  return stats;
}

static void flood_a_mute_client(void) {
  char *arguments = malloc(20004);
  memset(arguments, 'x', 20003);
  memcpy(arguments, "[\"", 2);
  memcpy(arguments + 20001, "\"]", 3);
  for (int n = 0; n < 2000; n++) {
    witrpc_server_stats stats = server_stats();
    if (stats.events_dropped > 10 || stats.slow_clients_closed > 0) break;
    witrpc_server_raise(server, "Demo.IFeed", "event Action<string> Large", arguments, NULL);
  }
  free(arguments);
}

static void a_client_that_does_not_read_costs_the_server_no_more_than_its_queue(void) {
  kill_server();
  overflow = WITRPC_DROP_OLDEST;
  restart_server();
  int mute = mute_client(), before = counter_get(&left_again);
  flood_a_mute_client();
  CHECK(server_stats().events_dropped > 10 && server_stats().slow_clients_closed == 0);
  CHECK(server_stats().connections == 1);
  close(mute);
  counter_wait(&left_again, before + 1);
  kill_server();
  overflow = WITRPC_DISCONNECT;
  restart_server();
  mute = mute_client();
  before = counter_get(&left_again);
  flood_a_mute_client();
  CHECK(server_stats().slow_clients_closed == 1 && server_stats().events_dropped == 0);
  counter_wait(&left_again, before + 1);
  close(mute);
}

static void options_that_make_no_sense_are_refused(void) {
  witrpc_client_options *client = quick_options();
  witrpc_server_options *options = NULL;
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  CHECK(witrpc_client_options_event_queue(client, 0, 1, 0) == WITRPC_INVALID_ARGUMENT);
  CHECK(witrpc_client_options_event_queue(client, 1, 0, 0) == WITRPC_INVALID_ARGUMENT);
  CHECK(witrpc_client_options_event_queue(client, 1, 1, 3) == WITRPC_INVALID_ARGUMENT);
  CHECK(witrpc_client_options_event_queue(client, 1, 1, -1) == WITRPC_INVALID_ARGUMENT);
  CHECK(witrpc_server_options_event_queue(options, 0, 1, 0) == WITRPC_INVALID_ARGUMENT);
  CHECK(witrpc_server_options_event_queue(options, 1, 1, 3) == WITRPC_INVALID_ARGUMENT);
  witrpc_server_options_free(options);
  witrpc_client_options_free(client);
}

static void shutdown_ends_everything(void) { CHECK(witrpc_shutdown(20000) == WITRPC_OK); }

static void each_server_has_let_go_of_its_user_data(void) {
  CHECK(counter_get(&watcher_gone) == 8);
}

int main(void) {
  watchdog(300);
  configure = serve_feed;
  start_server("tcp://127.0.0.1:0");
  RUN(handlers_run_in_the_order_in_which_events_were_raised);
  RUN(a_handler_that_blocks_holds_up_its_own_events_only);
  RUN(what_does_not_fit_a_queue_is_dropped_as_its_policy_says);
  RUN(events_that_can_not_be_read_are_counted);
  RUN(events_reach_those_who_are_meant);
  RUN(what_was_missed_is_fetched_when_the_link_is_back);
  RUN(a_client_that_does_not_read_costs_the_server_no_more_than_its_queue);
  RUN(options_that_make_no_sense_are_refused);
  kill_server();
  RUN(shutdown_ends_everything);
  RUN(each_server_has_let_go_of_its_user_data);
  return summary();
}
