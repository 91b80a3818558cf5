// Clients and servers in C++: calls of every kind, events, errors, tokens, the life of objects.
#include <atomic>
#include <thread>

#include "test.hpp"

using namespace std::chrono_literals;
using witrpc::Status;

namespace {

struct Person {
  std::string Name;
  int Age = 0;
};
WITRPC_FIELDS(Person, Name, Age)

std::atomic<int> executions{ 0 };
Counter holding;
std::mutex held_mutex;
std::optional<witrpc::Request> held;

witrpc::Implementation implementation() {
  witrpc::Implementation made("Demo.ITest");
  made.handle("int Add(int a, int b)",
              [](int a, int b) {
                ++executions;
                return a + b;
              })
      .handle("void Fail()", [] { throw std::runtime_error("on purpose"); })
      .handle("string Who(string prefix)",
              [](const witrpc::Request &request, const std::string &prefix) {
                return prefix + std::string(request.principal()) + "@" +
                       std::string(request.method());
              })
      .handle("Demo.Person Older(Demo.Person person, int years)",
              [](Person person, int years) {
                person.Age += years;
                return person;
              })
      .handle("void Raise(int n)",
              [](const witrpc::Request &request, int n) {
                for (int i = 0; i < n; ++i)
                  request.raise("event Action<int, string> Progress", i, "x");
              })
      .handle_request("int Hold()",
                      [](witrpc::Request request) {
                        std::lock_guard<std::mutex> lock(held_mutex);
                        held = std::move(request);
                        holding.add();
                      })
      .handle_request("void Forget()", [](witrpc::Request) {});
  return made;
}

void answer(int value) {
  std::lock_guard<std::mutex> lock(held_mutex);
  held->reply(value);
  held.reset();
}

witrpc::Server start(const std::string &where = "tcp://127.0.0.1:0") {
  witrpc::ServerOptions options(where);
  options.serve(implementation());
  return witrpc::Server(options);
}

witrpc::Client connected(const witrpc::Server &server) {
  witrpc::ClientOptions options(server.endpoint());
  options.reconnect_delays(10ms, 50ms).reconnect_max_attempts(0);
  witrpc::Client client(options);
  client.connect();
  return client;
}

void calls_of_every_kind() {
  const auto server = start();
  const auto client = connected(server);
  const auto test = client.service("Demo.ITest");
  CHECK(client.state() == witrpc::State::Connected);
  CHECK(test.call<int>("int Add(int a, int b)", 2, 3) == 5);
  CHECK(test.call<witrpc::Buffer>("int Add(int,int)", 2, 3).text() == "5");
  test.call("int Add(int,int)", 2, 3);
  auto sum = test.try_call<int>(witrpc::CallOptions(10s), "int Add(int,int)", 4, 5);
  CHECK(sum && *sum == 9);
  CHECK(test.async<int>("int Add(int,int)", 1, 2).get() == 3);
  const auto older =
      test.call<Person>("Demo.Person Older(Demo.Person, int)", Person{ "Ada", 36 }, 1);
  CHECK(older.Name == "Ada" && older.Age == 37);
  CHECK(test.call<std::string>("string Who(string)", "I am ") == "I am @Who");
  std::promise<int> told;
  auto answer = told.get_future();
  // Only movable: it owns its promise.
  const auto call = test.start<int>(
      "int Add(int,int)",
      [told = std::move(told), here = std::this_thread::get_id()](auto result) mutable {
        const bool elsewhere = here != std::this_thread::get_id();
        told.set_value(result && elsewhere ? *result : -1);
      },
      20, 22);
  CHECK(answer.get() == 42);
  call.cancel();
  CHECK(client.close_and_wait(10s));
}

void completions_say_how_it_ended() {
  const auto server = start();
  const auto client = connected(server);
  const auto test = client.service("Demo.ITest");
  Counter done;
  witrpc::Status status = Status::Ok;
  const auto call = test.start<int>("int Hold()", [&](const witrpc::Result<int> &result) {
    status = result ? Status::Ok : result.error().code();
    done.add();
  });
  holding.wait(1);
  call.cancel();
  done.wait(1);
  CHECK(status == Status::Cancelled);
  answer(1);
  auto late = test.async<int>("int Hold()");
  holding.wait(2);
  answer(42);
  CHECK(late.get() == 42);
}

void errors_tell() {
  const auto server = start();
  const auto client = connected(server);
  const auto test = client.service("Demo.ITest");
  try {
    test.call("void Fail()");
    CHECK(!"it must throw");
  } catch (const witrpc::Error &error) {
    CHECK(error.code() == Status::Remote && error.outcome() == witrpc::Outcome::Answered);
    CHECK(error.message() == "Failed to process request" && error.details() == "on purpose");
    CHECK(error.attempts() == 1 && !error.retryable());
    CHECK(std::string(error.what()) == "Failed to process request: on purpose");
  }
  CHECK(test.try_call("void Forget()").error().details() == "The handler gave no answer");
  CHECK(test.try_call("void Nope()").error().code() == Status::BadRequest);
  CHECK(test.try_call("int Add(").error().code() == Status::InvalidArgument);
  CHECK(test.try_call<std::string>("int Add(int,int)", 1, 1).error().details() ==
        "a number where a string is expected (byte 0)");
  CHECK(test.try_call<int>("int Add(int,int)", 1, "x").error().outcome() ==
        witrpc::Outcome::NotSent);
  CHECK(thrown([&] { (void)test.async<int>("int Add(").get(); }) == Status::InvalidArgument);
  CHECK(thrown([&] { (void)test.start<int>("int Add(", [](auto) {}); }) == Status::InvalidArgument);
  CHECK(!test.try_start<int>("int Add(", [](auto) {}));
  CHECK(!client.try_service("not a name"));
  CHECK(thrown([] { witrpc::Client client("http://a:1"); }) == Status::InvalidArgument);
  CHECK(thrown([] { witrpc::ClientOptions("tcp://a:1").token(std::string("a\0b", 3)); }) ==
        Status::InvalidArgument);
  CHECK(test.try_call(witrpc::CallOptions(1ms), "int Hold()").error().code() == Status::Timeout);
  holding.wait(3);
  answer(1);
  witrpc::Client moved(witrpc::ClientOptions("tcp://127.0.0.1:1"));
  const witrpc::Client taken = std::move(moved);
  CHECK(thrown([&] { moved.connect(); }) == Status::InvalidHandle);
  CHECK(taken.try_connect().error().code() == Status::Transport && taken.last_failure());
}

void events_reach_their_handlers() {
  const auto server = start();
  const auto client = connected(server);
  const auto test = client.service("Demo.ITest");
  Counter seen;
  bool in_order = true;
  auto subscription =
      test.subscribe("event Action<int, string> Progress", [&](int n, const std::string &text) {
        in_order = in_order && n == seen.get() && text == "x";
        seen.add();
      });
  auto wrong = test.subscribe("event Action<int, string> Progress", [](int) {});
  test.call("void Raise(int)", 5);
  seen.wait(5);
  server.raise("Demo.ITest", "event Action<int, string> Progress", 5, "x");
  seen.wait(6);
  CHECK(in_order && subscription.dropped() == 0 && !subscription.mismatch());
  subscription.reset();
  test.call("void Raise(int)", 1);
  CHECK(client.close_and_wait(10s));
  CHECK(seen.get() == 6);
  CHECK(wrong.mismatch() &&
        wrong.mismatch()->details() == "more items than the tuple has (byte 3)");
}

void a_subscription_ends_with_its_handler() {
  const auto server = start();
  const auto client = connected(server);
  const auto test = client.service("Demo.ITest");
  Counter begun, go;
  std::atomic<bool> ended{ false };
  std::optional<witrpc::Subscription> subscription =
      test.subscribe("event Action<int, string> Progress", [&](int, const std::string &) {
        begun.add();
        go.wait(1);
        ended = true;
      });
  test.call("void Raise(int)", 3);
  begun.wait(1);
  std::thread releaser([&] { go.add(); });
  subscription.reset();
  CHECK(ended);
  releaser.join();
  // From within itself it does not wait.
  Counter done;
  std::optional<witrpc::Subscription> own;
  own = test.subscribe("event Action<int, string> Progress", [&](int, const std::string &) {
    own->reset();
    done.add();
  });
  test.call("void Raise(int)", 3);
  done.wait(1);
  CHECK(client.close_and_wait(10s) && done.get() == 1);
}

void outages_are_told_and_survived() {
  std::optional<witrpc::Server> server = start();
  const std::string where = server->endpoint();
  Counter reconnecting, reconnected;
  std::vector<witrpc::State> states;
  {
    witrpc::ClientOptions options(where);
    options.reconnect_delays(10ms, 50ms)
        .reconnect_max_attempts(0)
        .mark_deduplicated("Add")
        .on_reconnecting([&](std::uint32_t attempt, std::chrono::milliseconds) {
          reconnecting.add(attempt > 0);
        })
        .on_reconnected([&] { reconnected.add(); })
        .on_state_changed([&](witrpc::State state) { states.push_back(state); });
    const witrpc::Client client(options);
    client.connect();
    const auto test = client.service("Demo.ITest");
    server.reset();
    reconnecting.wait(1);
    auto waiting = test.async<int>("int Add(int,int)", 1, 2);
    server = start(where);
    CHECK(waiting.get() == 3);
    reconnected.wait(1);
    CHECK(client.wait_for(witrpc::State::Connected, 10s) && client.stats().reconnects == 1);
    CHECK(!client.wait_for(witrpc::State::Failed, 1ms));
  }
  CHECK(states.size() >= 3 && states[0] == witrpc::State::Connected &&
        states[1] == witrpc::State::Reconnecting);
  witrpc::ClientOptions options(where);
  Counter failures;
  std::string why;
  server.reset();
  options.reconnect_delays(1ms, 2ms)
      .reconnect_max_attempts(2)
      .reconnect_first_connect(true)
      .on_reconnection_failed([&](const witrpc::Error &error) {
        why = error.code_name();
        failures.add();
      });
  const witrpc::Client client(options);
  CHECK(!client.try_connect());
  failures.wait(1);
  CHECK(why == "transport" && client.state() == witrpc::State::Failed);
}

void a_call_with_an_id_runs_once() {
  const auto server = start();
  const auto client = connected(server);
  const auto test = client.service("Demo.ITest");
  witrpc::CallOptions options;
  options.invocation_id(witrpc::Guid::random()).deduplicated();
  const int before = executions;
  for (int i = 0; i < 3; ++i) CHECK(test.call<int>(options, "int Add(int,int)", 1, 1) == 2);
  CHECK(executions == before + 1 && server.stats().replayed == 2);
}

void tokens_are_given_and_checked() {
  witrpc::ServerOptions server_options("tcp://127.0.0.1:0");
  server_options.serve(implementation()).validator([](witrpc::Check check) {
    if (check.token() == "throw") throw std::runtime_error("no");
    if (check.token() == "secret") check.accept("ada");
  });
  std::vector<std::string> told;
  std::mutex mutex;
  server_options.on_execute([&](std::string_view method, const witrpc::Guid &) {
    std::lock_guard<std::mutex> lock(mutex);
    told.emplace_back(method);
  });
  const witrpc::Server server(server_options);
  const auto connect = [&](auto &&set) {
    witrpc::ClientOptions options(server.endpoint());
    set(options);
    return witrpc::Client(options);
  };
  const auto good = connect([](auto &o) { o.token("secret"); });
  good.connect();
  CHECK(good.service("Demo.ITest").template call<std::string>("string Who(string)", "") ==
        "ada@Who");
  for (const std::string token : { "wrong", "throw", "" })
    CHECK(connect([&](auto &o) { o.token(token); }).try_connect().error().code() ==
          Status::Unauthorized);
  const auto asked =
      connect([](auto &o) { o.token_provider([] { return std::string("secret"); }); });
  CHECK(asked.try_connect().has_value());
  const auto thrower = connect([](auto &o) {
    o.token_provider([]() -> std::string { throw std::runtime_error("no token today"); });
  });
  const auto refused = thrower.try_connect();
  CHECK(!refused && refused.error().details() == "no token today");

  const auto later = connect([](auto &o) {
    o.token_provider_async([](witrpc::Token token) {
      std::thread([token = std::move(token)]() mutable { token.answer("secret"); }).detach();
    });
  });
  CHECK(later.try_connect().has_value());
  std::lock_guard<std::mutex> lock(mutex);
  CHECK(told == std::vector<std::string>{ "Who" });
}

void a_server_waits_for_its_handlers() {
  Counter begun, go;
  std::atomic<bool> ended{ false };
  witrpc::Implementation slow("Demo.ISlow");
  slow.handle("void Wait()", [&] {
    begun.add();
    go.wait(1);
    ended = true;
  });
  witrpc::ServerOptions options("tcp://127.0.0.1:0");
  options.serve(slow);
  std::optional<witrpc::Server> server(std::in_place, options);
  const auto client = connected(*server);
  auto waiting = client.service("Demo.ISlow").async("void Wait()");
  begun.wait(1);
  CHECK(!server->stop(1ms));
  std::thread releaser([&] { go.add(); });
  server.reset();
  CHECK(ended);
  releaser.join();
  client.close();
  CHECK(thrown([&] { waiting.get(); }) != Status::Ok);
}

void health_tells() {
  std::optional<witrpc::Server> server = start();
  witrpc::ClientOptions options(server->endpoint());
  options.name("main").reconnect_delays(5s, 5s);
  const witrpc::Client client(options);
  auto health = client.check_health(1s);
  CHECK(health.status == witrpc::HealthStatus::Unhealthy && health.client_name == "main" &&
        !health.is_initialized);
  client.connect();
  health = client.check_health(20s);
  CHECK(health.status == witrpc::HealthStatus::Healthy && health.is_authorized &&
        health.is_initialized);
  CHECK(health.round_trip && health.silence && !health.last_error);
  CHECK(server->stats().executed == 0);
  server.reset();
  CHECK(client.wait_for(witrpc::State::Reconnecting, 20s));
  health = client.health();
  CHECK(health.status == witrpc::HealthStatus::Degraded && health.last_error && !health.silence);
}

void callbacks_run_on_ones_own_loop() {
  const auto server = start();
  witrpc::EventLoop loop;
  const auto here = std::this_thread::get_id();
  bool elsewhere = false, connected = false, done = false, deadlock = false;
  witrpc::ClientOptions options(server.endpoint());
  options.loop(loop).on_state_changed(
      [&](witrpc::State) { elsewhere |= here != std::this_thread::get_id(); });
  const witrpc::Client client(options);
  client.start_connect([&](const witrpc::Result<void> &result) { connected = result.has_value(); });
  while (!connected) (void)loop.dispatch(20s);
  const auto test = client.service("Demo.ITest");
  const auto call = test.start<int>(
      "int Add(int,int)",
      [&](const witrpc::Result<int> &sum) {
        elsewhere |= here != std::this_thread::get_id();
        deadlock = thrown([&] { (void)loop.dispatch(); }) == Status::WouldDeadlock;
        // A blocking call within a callback works.
        done = *sum == 3 && test.call<int>("int Add(int,int)", *sum, 1) == 4;
      },
      1, 2);
  while (!done) (void)loop.dispatch(20s, 1);
  CHECK(!elsewhere && deadlock && loop.descriptor() >= 0);
  CHECK(client.close_and_wait(10s));
}

void the_log_is_told() {
  // What waits when it is switched off is told later than this function returns.
  struct Told {
    Counter count;
    std::mutex mutex;
    std::string text;
  };
  const auto told = std::make_shared<Told>();
  witrpc::log_to(witrpc::LogLevel::Debug,
                 [told](witrpc::LogLevel, std::string_view target, std::string_view message) {
                   std::lock_guard<std::mutex> lock(told->mutex);
                   told->text.append(target).append(": ").append(message).append("\n");
                   told->count.add();
                 });
  const auto server = start();
  { const auto client = connected(server); }
  told->count.wait(1);
  witrpc::log_off();
  std::lock_guard<std::mutex> lock(told->mutex);
  CHECK(told->text.find("witrpc::") == 0 && told->text.find("connected") != std::string::npos);
}

void shutdown_ends_everything() { CHECK(witrpc::shutdown(20s)); }

} // namespace

int main() {
  watchdog(300);
  CHECK(witrpc::abi_fits() && !witrpc::version().empty());
  RUN(calls_of_every_kind);
  RUN(completions_say_how_it_ended);
  RUN(errors_tell);
  RUN(events_reach_their_handlers);
  RUN(a_subscription_ends_with_its_handler);
  RUN(outages_are_told_and_survived);
  RUN(a_call_with_an_id_runs_once);
  RUN(tokens_are_given_and_checked);
  RUN(a_server_waits_for_its_handlers);
  RUN(health_tells);
  RUN(callbacks_run_on_ones_own_loop);
  RUN(the_log_is_told);
  RUN(shutdown_ends_everything);
  return summary();
}
