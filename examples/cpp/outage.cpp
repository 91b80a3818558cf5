// A client that survives outages, as examples/c/outage.c is one: what happens when the connection
// is cut in the middle of a call, when the server dies and comes back, and when it stays away.
//
//   outage ENDPOINT [deduplicated|idempotent]
//
// The server must serve Demo.IEcho (`witrpc serve --demo`) and close the connection after the first
// call
// (`--close-after 1`). Lines that begin with "cue:" tell whoever watches to kill the server process
// and to start it again; examples/c/demo.sh does.
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <witrpc.hpp>

using namespace std::chrono_literals;

namespace {

// What the callbacks tell the main thread.
class Seen {
public:
  void count(int Seen::*what) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++(this->*what);
    changed_.notify_all();
  }
  void wait(int Seen::*what, int times) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return this->*what >= times; });
  }
  int get(int Seen::*what) {
    std::lock_guard<std::mutex> lock(mutex_);
    return this->*what;
  }
  int reconnecting = 0, reconnected = 0, failed = 0, retries = 0;

private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

int call(const witrpc::Service &echo, const char *method,
         std::optional<int> argument = std::nullopt) {
  auto answer = argument ? echo.try_call<int>(method, *argument) : echo.try_call<int>(method);
  if (answer) return *answer;
  std::cout << "  " << method << " ended as \"" << answer.error().code_name()
            << "\": " << answer.error().what() << std::endl;
  return -1;
}

} // namespace

int main(int argc, char **argv) try {
  const std::string endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5100";
  Seen seen;

  // Reconnect after 0.2, 0.4, 0.8 ... s; give up after six attempts.
  witrpc::ClientOptions options(endpoint);
  options.reconnect_delays(200ms, 1s).reconnect_max_attempts(6);
  // Retry CountUp, which must not run twice: only where the server recognises the repetition.
  if (argc > 2 && argv[2] == std::string("idempotent"))
    options.mark_idempotent("CountUp");
  else
    options.mark_deduplicated("CountUp");
  options
      .on_reconnecting([&](std::uint32_t attempt, std::chrono::milliseconds delay) {
        std::cout << "  on_reconnecting: attempt " << attempt << " in " << delay.count() << " ms"
                  << std::endl;
        seen.count(&Seen::reconnecting);
      })
      .on_reconnected([&] {
        std::cout << "  on_reconnected" << std::endl;
        seen.count(&Seen::reconnected);
      })
      .on_reconnection_failed([&](const witrpc::Error &error) {
        std::cout << "  on_reconnection_failed: " << error.what() << std::endl;
        seen.count(&Seen::failed);
      })
      .on_retry([&](const witrpc::Retry &retry) {
        std::cout << "  on_retry: attempt " << retry.attempt << " of " << retry.method
                  << " failed (" << retry.error.message() << "), the next one in "
                  << retry.delay.count() << " ms" << std::endl;
        seen.count(&Seen::retries);
      });

  witrpc::Client client(options);
  client.connect();
  const auto echo = client.service("Demo.IEcho");

  std::cout << "\nAct 1: the connection is cut in the middle of a call" << std::endl;
  const int answer = call(echo, "int CountUp(int by)", 1);
  seen.wait(&Seen::reconnected, 1);
  const int executions = call(echo, "int Count()");

  std::cout << "\nAct 2: the server process dies and comes back" << std::endl;
  const int attempts_before = seen.get(&Seen::reconnecting);
  std::cout << "cue: kill the server" << std::endl;
  seen.wait(&Seen::reconnecting, attempts_before + 2);
  auto waiting = echo.async<int>("int Add(int a, int b)", 2, 3); // waits for the link
  std::cout << "cue: start the server" << std::endl;
  const int sum = waiting.get();

  std::cout << "\nAct 3: the server dies and stays away" << std::endl;
  std::cout << "cue: kill the server" << std::endl;
  seen.wait(&Seen::failed, 1);
  const bool is_failed = client.state() == witrpc::State::Failed;
  const bool is_refused = !echo.try_call<int>("int Add(int a, int b)", 2, 3);

  std::cout << "\nsummary: cut: answered " << answer << ", executed " << executions << ", retries "
            << seen.get(&Seen::retries) << " | death: Add answered " << sum
            << " | gone: " << (is_failed ? "Failed" : "?") << ", later call "
            << (is_refused ? "refused" : "answered") << std::endl;
} catch (const witrpc::Error &error) {
  std::cerr << error.code_name() << ": " << error.what() << std::endl;
  return 1;
}
