// Calls from coroutines (C++20).
#include "test.hpp"

using namespace std::chrono_literals;

namespace {

Counter holding;
std::mutex held_mutex;
std::optional<witrpc::Request> held;

witrpc::Server start() {
  witrpc::Implementation made("Demo.ITest");
  made.handle("int Add(int a, int b)", [](int a, int b) { return a + b; })
      .handle("void Fail()", [] { throw std::runtime_error("on purpose"); })
      .handle_request("int Hold()", [](witrpc::Request request) {
        std::lock_guard<std::mutex> lock(held_mutex);
        held = std::move(request);
        holding.add();
      });
  witrpc::ServerOptions options("tcp://127.0.0.1:0");
  options.serve(made);
  return witrpc::Server(options);
}

witrpc::Task<int> sum(const witrpc::Service &test, int count) {
  int total = 0;
  for (int i = 1; i <= count; ++i) total = co_await test.co_call<int>("int Add(int,int)", total, i);
  co_return total;
}

witrpc::Task<std::string> failure(const witrpc::Service &test) {
  try {
    co_await test.co_call("void Fail()");
  } catch (const witrpc::Error &error) {
    co_return error.details();
  }
  co_return "nothing";
}

witrpc::Task<> nested(const witrpc::Service &test, int &out) {
  out = co_await sum(test, 3) + co_await sum(test, 4);
  const witrpc::CallOptions options(10s);
  out += co_await test.co_call<int>(options, "int Add(int,int)", 100, 0);
}

witrpc::Task<> unsent(const witrpc::Service &test) { co_await test.co_call("int Add("); }

void awaited_calls_give_results_and_errors() {
  const auto server = start();
  const witrpc::Client client(server.endpoint());
  client.connect();
  const auto test = client.service("Demo.ITest");
  CHECK(sum(test, 100).get() == 5050);
  CHECK(failure(test).get() == "on purpose");
  int out = 0;
  nested(test, out).get();
  CHECK(out == 116);
  CHECK(thrown([&] { unsent(test).get(); }) == witrpc::Status::InvalidArgument);
  { auto never = sum(test, 1); }
}

// Runs at once, and can be destroyed while it waits.
struct Eager {
  struct promise_type {
    Eager get_return_object() {
      return { std::coroutine_handle<promise_type>::from_promise(*this) };
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

void a_destroyed_coroutine_cancels_its_call() {
  const auto server = start();
  const witrpc::Client client(server.endpoint());
  client.connect();
  const auto test = client.service("Demo.ITest");
  bool resumed = false;
  auto waiting = [](const witrpc::Service &service, bool &flag) -> Eager {
    co_await service.co_call<int>("int Hold()");
    flag = true;
  }(test, resumed);
  holding.wait(1);
  waiting.handle.destroy();
  {
    std::lock_guard<std::mutex> lock(held_mutex);
    held.reset();
  }
  CHECK(client.close_and_wait(10s) && !resumed);
}

} // namespace

int main() {
  watchdog(300);
  RUN(awaited_calls_give_results_and_errors);
  RUN(a_destroyed_coroutine_cancels_its_call);
  CHECK(witrpc::shutdown(20s));
  return summary();
}
