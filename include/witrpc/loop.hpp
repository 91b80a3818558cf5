/// @file
/// Callbacks on a loop of your own: witrpc::EventLoop. And what the library has to say: log_to.
#ifndef WITRPC_LOOP_HPP
#define WITRPC_LOOP_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <witrpc/error.hpp>
#include <witrpc/handle.hpp>

namespace witrpc {

/// A queue of callbacks that a loop of yours runs: epoll, libuv, GLib, a game loop. Clients and
/// servers that were given it have their callbacks run by dispatch(), on the thread that calls it,
/// and nowhere else. Move-only.
///
/// Destroy clients on the loop's thread, or after the queue: their destructor waits for callbacks
/// that only dispatch() can run. Destroyed first, the queue leaves its callbacks to a thread of the
/// library's own.
class EventLoop {
public:
  EventLoop() {
    witrpc_error *error = nullptr;
    detail::ended(witrpc_loop_new(handle_.out(), &error), &error).value();
  }
  /// Readable while callbacks wait: poll it, never read from it or close it. -1 on Windows.
  int descriptor() const noexcept { return witrpc_loop_descriptor(handle_.get()); }
  /// Runs the callbacks that wait now, at most `most` of them (0 = all), and says how many; waits
  /// for the first one for at most `wait`. Throws Status::WouldDeadlock from one of them.
  std::size_t dispatch(Limit wait = std::chrono::milliseconds(0), std::size_t most = 0) const {
    std::size_t count = 0;
    detail::check(witrpc_dispatch(handle_.get(), wait.milliseconds(), most, &count));
    return count;
  }
  /// The handle of the C interface; stays this object's.
  witrpc_loop *get() const noexcept { return handle_.get(); }

private:
  detail::Handle<witrpc_loop, witrpc_loop_free> handle_;
};

/// How much a record of the log matters.
enum class LogLevel : std::int32_t {
  Error = WITRPC_LOG_ERROR, ///< What should not happen.
  Warn = WITRPC_LOG_WARN,   ///< What a user may want to mend.
  Info = WITRPC_LOG_INFO,   ///< Connections come and go.
  Debug = WITRPC_LOG_DEBUG, ///< Retries, single connections.
  Trace = WITRPC_LOG_TRACE  ///< Everything.
};

/// Has what the library says at `level` and above told to `f(LogLevel, std::string_view target,
/// std::string_view message)`, on a thread of its own; it replaces the function before.
template <class F> void log_to(LogLevel level, F &&f) {
  using Box = std::decay_t<F>;
  witrpc_error *error = nullptr;
  detail::ended(
      witrpc_log_to(
          static_cast<std::int32_t>(level),
          [](void *self, std::int32_t of, const char *target, const char *message) noexcept {
            (*static_cast<Box *>(self))(static_cast<LogLevel>(of), std::string_view(target),
                                        std::string_view(message));
          },
          detail::box(std::forward<F>(f)), detail::destroy<Box>, &error),
      &error)
      .value();
}

/// Tells nobody any more; what waits is still told, so what the function refers to must outlive it.
inline void log_off() noexcept { witrpc_log_off(); }

} // namespace witrpc

#endif
