// A small test frame: checks that say what failed, a watchdog, waiting for things to happen; and a
// server of Demo.ITest within the test program.
#ifndef WITRPC_TEST_HPP
#define WITRPC_TEST_HPP

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unistd.h>

#include <witrpc.hpp>

inline int passed = 0, failed = 0;
inline bool failed_here = false;

#define CHECK(...)                                                                                 \
  do {                                                                                             \
    if (!(__VA_ARGS__)) {                                                                          \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #__VA_ARGS__);                                \
      failed_here = true;                                                                          \
    }                                                                                              \
  } while (0)

// The status that an expression throws; Ok if it does not.
template <class F> witrpc::Status thrown(F &&f) {
  try {
    f();
  } catch (const witrpc::Error &error) {
    return error.code();
  }
  return witrpc::Status::Ok;
}

inline void run(const char *name, void (*test)()) {
  failed_here = false;
  try {
    test();
  } catch (const std::exception &problem) {
    std::printf("%s: %s\n", name, problem.what());
    failed_here = true;
  }
  ++(failed_here ? failed : passed);
  std::printf("%s %s\n", failed_here ? "FAILED" : "ok", name);
  std::fflush(stdout);
}
#define RUN(test) run(#test, test)

// Generous: valgrind is slow.
inline void watchdog(unsigned seconds) {
  std::signal(SIGALRM, [](int) {
    static const char text[] = "watchdog: a test hangs\n";
    (void)!write(1, text, sizeof text - 1);
    std::abort();
  });
  alarm(seconds);
}

inline int summary() {
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}

// A number that tests wait for; the watchdog ends it otherwise.
class Counter {
public:
  void add(int n = 1) {
    std::lock_guard<std::mutex> lock(mutex_);
    value_ += n;
    changed_.notify_all();
  }
  int get() {
    std::lock_guard<std::mutex> lock(mutex_);
    return value_;
  }
  void wait(int value) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return value_ >= value; });
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int value_ = 0;
};

#endif
