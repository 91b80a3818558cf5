// Memory that runs out in the C++ layer: each allocation of a scenario fails once, one after the
// other. What comes out is std::bad_alloc, what was given is destroyed exactly once, and the next
// try succeeds. (The library below it ends the process when it finds no memory:
// tests/c/scarcity.c.)
#include <atomic>
#include <cstdlib>
#include <new>

#include "test.hpp"

using namespace std::chrono_literals;

namespace {

// How many allocations of this thread still succeed; negative = all.
thread_local long left = -1;
std::atomic<long> alive{ 0 };

void *allocate(std::size_t size) {
  if (left == 0) throw std::bad_alloc();
  if (left > 0) --left;
  void *memory = std::malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  ++alive;
  return memory;
}

void release(void *memory) noexcept {
  if (!memory) return;
  --alive;
  std::free(memory);
}

} // namespace

void *operator new(std::size_t size) { return allocate(size); }
void *operator new[](std::size_t size) { return allocate(size); }
void operator delete(void *memory) noexcept { release(memory); }
void operator delete[](void *memory) noexcept { release(memory); }
void operator delete(void *memory, std::size_t) noexcept { release(memory); }
void operator delete[](void *memory, std::size_t) noexcept { release(memory); }

namespace {

// What a callback owns: how many of them there are says whether each is destroyed.
std::atomic<int> tracked{ 0 };
struct Tracked {
  Tracked() { ++tracked; }
  Tracked(const Tracked &) { ++tracked; }
  ~Tracked() { --tracked; }
};

// Too long for a string to hold it in itself.
const char long_text[] =
    "a text that is so long that no string can hold it without memory of its own";

// Runs `scenario` with its first allocation failing, then its second, until none fails any more.
template <class F> void with_failures(F &&scenario) {
  int failures = 0;
  for (long n = 0;; ++n) {
    bool is_over = false;
    left = n;
    try {
      scenario();
      is_over = true;
    } catch (const std::bad_alloc &) {
      ++failures;
    }
    left = -1;
    if (is_over) break;
  }
  CHECK(failures > 0);
}

void options_and_implementations() {
  with_failures([] {
    Tracked own;
    witrpc::ClientOptions options("tcp://127.0.0.1:1");
    options.name(long_text)
        .mark_deduplicated("int Add(int a, int b)")
        .on_reconnected([own] {})
        .on_state_changed([own](witrpc::State) {})
        .retry_if([own](const witrpc::Error &) { return false; })
        .token_provider([own] { return std::string(); });
    witrpc::Client client(options);
    CHECK(client.name() == long_text);
  });
  with_failures([] {
    Tracked own;
    witrpc::Implementation made("Demo.ITest");
    made.handle("int Add(int a, int b)", [own](int a, int b) { return a + b; });
    witrpc::ServerOptions options("tcp://127.0.0.1:0");
    options.serve(made).validator([own](witrpc::Check check) { check.accept(); });
    options.on_execute([own](std::string_view, const witrpc::Guid &) {});
    witrpc::Server server(options);
    CHECK(server.endpoint().find("tcp://") == 0);
  });
}

void calls_and_subscriptions() {
  witrpc::Implementation made("Demo.ITest");
  made.handle("string Echo(string text)", [](std::string text) { return text; })
      .handle("void Fail()", [] { throw std::runtime_error(long_text); });
  witrpc::ServerOptions options("tcp://127.0.0.1:0");
  options.serve(made);
  const witrpc::Server server(options);
  const witrpc::Client client(server.endpoint());
  client.connect();
  const auto test = client.service("Demo.ITest");
  with_failures([&] {
    CHECK(test.call<std::string>(witrpc::CallOptions(10s), "string Echo(string)", long_text) ==
          long_text);
  });
  with_failures([&] {
    const auto failed = test.try_call("void Fail()");
    CHECK(!failed && failed.error().details().find(long_text) != std::string::npos);
  });
  with_failures([&] {
    Tracked own;
    auto answer = test.async<std::string>("string Echo(string)", std::string(long_text));
    CHECK(answer.get() == long_text);
  });
  Counter done;
  int begun = 0;
  with_failures([&] {
    Tracked own;
    const auto call = test.start<std::string>(
        "string Echo(string)", [own, &done](const witrpc::Result<std::string> &) { done.add(); },
        long_text);
    ++begun;
  });
  done.wait(begun);
  with_failures([&] {
    Tracked own;
    const auto subscription =
        test.subscribe("event Action<string> Told", [own](const std::string &) {});
  });
  witrpc::ClientOptions named("tcp://127.0.0.1:1");
  named.name(long_text);
  const witrpc::Client lonely(named);
  CHECK(!lonely.try_connect());
  with_failures([&] {
    const auto health = lonely.health();
    CHECK(health.client_name == long_text && health.last_error);
  });
  with_failures([&] { CHECK(lonely.last_failure()->message().size() > 0); });
}

void all_is_given_back() {
  CHECK(witrpc_shutdown(60000) == WITRPC_OK);
  CHECK(tracked == 0);
}

} // namespace

int main() {
  watchdog(100);
  const long before = alive;
  RUN(options_and_implementations);
  RUN(calls_and_subscriptions);
  RUN(all_is_given_back);
  const long after = alive;
  if (after != before) std::printf("%ld blocks of memory are left\n", after - before), ++failed;
  return summary();
}
