/// @file
/// C++20 coroutines: calls that are awaited, and witrpc::Task for programs without a coroutine
/// library of their own. There only if the compiler has coroutines.
///
///     witrpc::Task<int> twice(const witrpc::Service &echo, int n) {
///       int sum = co_await echo.co_call<int>("int Add(int a, int b)", n, n);
///       co_return sum;
///     }
///     int four = twice(echo, 2).get();
#ifndef WITRPC_COROUTINE_HPP
#define WITRPC_COROUTINE_HPP

#if defined(__cpp_impl_coroutine)

#include <coroutine>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <witrpc/client.hpp>

namespace witrpc {

/// A call that a coroutine waits for. What Service::co_call gives; co_await it once.
///
/// The coroutine goes on on the client's callback thread. A coroutine that is destroyed while it
/// waits cancels its call; that must not happen at the same moment on another thread as the end of
/// the call, as is so with coroutines everywhere.
template <class R, bool Throws> class [[nodiscard]] CallAwaiter {
public:
  /// @cond what the compiler calls
  CallAwaiter(const Service &service, const witrpc_call_options *options, std::string_view method,
              std::string arguments)
      : service_(&service), options_(options), method_(method), arguments_(std::move(arguments)) {}
  CallAwaiter(const CallAwaiter &) = delete;
  CallAwaiter &operator=(const CallAwaiter &) = delete;
  ~CallAwaiter() {
    if (!state_) return;
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->waiting = nullptr;
    const bool ended = state_->result.has_value();
    lock.unlock();
    if (!ended) call_.cancel();
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) {
    auto state = std::make_shared<State>();
    state_ = state;
    auto begun =
        service_->template begin<R>(options_, method_, arguments_, [state](Result<R> result) {
          std::unique_lock<std::mutex> lock(state->mutex);
          state->result.emplace(std::move(result));
          const auto resumed = std::exchange(state->waiting, nullptr);
          lock.unlock();
          if (resumed) resumed.resume();
        });
    if (!begun) {
      state->result.emplace(begun.error());
      return false;
    }
    call_ = std::move(*begun);
    std::lock_guard<std::mutex> lock(state->mutex);
    if (state->result) return false;
    state->waiting = waiting;
    return true;
  }
  auto await_resume() {
    if constexpr (Throws)
      return std::move(*state_->result).value();
    else
      return std::move(*state_->result);
  }
  /// @endcond

private:
  struct State {
    std::mutex mutex;
    std::optional<Result<R>> result;
    std::coroutine_handle<> waiting;
  };
  const Service *service_;
  const witrpc_call_options *options_;
  std::string_view method_;
  std::string arguments_;
  Call call_;
  std::shared_ptr<State> state_;
};

template <class R, class... A>
auto Service::co_call(std::string_view method, const A &...arguments) const {
  return CallAwaiter<R, WITRPC_HAS_EXCEPTIONS>(*this, nullptr, method,
                                               detail::arguments(arguments...));
}
template <class R, class... A>
auto Service::co_call(const CallOptions &options, std::string_view method,
                      const A &...arguments) const {
  return CallAwaiter<R, WITRPC_HAS_EXCEPTIONS>(*this, options.get(), method,
                                               detail::arguments(arguments...));
}

/// A coroutine with one result. It begins when it is awaited, or by get(). Move-only.
template <class T = void> class [[nodiscard]] Task;

namespace detail {

template <class T> struct TaskPromise;

struct TaskBase {
  std::coroutine_handle<> waiting = std::noop_coroutine();
  std::exception_ptr problem;

  struct Final {
    bool await_ready() const noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> ended) noexcept {
      return ended.promise().waiting;
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { problem = std::current_exception(); }
};

template <class T> struct TaskPromise : TaskBase {
  std::optional<T> value;
  Task<T> get_return_object() noexcept;
  template <class U> void return_value(U &&result) { value.emplace(std::forward<U>(result)); }
  T take() {
    if (problem) std::rethrow_exception(problem);
    return std::move(*value);
  }
};
template <> struct TaskPromise<void> : TaskBase {
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const {
    if (problem) std::rethrow_exception(problem);
  }
};

/// Runs at once and keeps itself alive until its end.
struct Detached {
  struct promise_type {
    Detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

} // namespace detail

template <class T> class [[nodiscard]] Task {
public:
  /// @cond what the compiler calls
  using promise_type = detail::TaskPromise<T>;
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  Task(Task &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task &operator=(Task &&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
    handle_.promise().waiting = waiting;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }
  /// @endcond

  /// Runs the coroutine and waits for its result. Not from a callback of a client that it awaits:
  /// that would be waiting for oneself, for ever.
  T get() && {
    std::promise<void> ended;
    auto future = ended.get_future();
    run(*this, std::move(ended));
    future.wait();
    return handle_.promise().take();
  }

private:
  struct Settle {
    Task &task;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
      return task.await_suspend(waiting);
    }
    void await_resume() const noexcept {}
  };
  static detail::Detached run(Task &task, std::promise<void> ended) {
    co_await Settle{ task };
    ended.set_value();
  }
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {
template <class T> Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
} // namespace detail

} // namespace witrpc

#endif
#endif
