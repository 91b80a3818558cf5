/// @file
/// What owns things: handles of the C interface, buffers, and the boxes that callbacks live in.
#ifndef WITRPC_HANDLE_HPP
#define WITRPC_HANDLE_HPP

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include <witrpc/error.hpp>

namespace witrpc {
namespace detail {

/// The only owner of a handle of the C interface.
template <class T, void (*Free)(T *)> class Handle {
public:
  Handle() noexcept = default;
  explicit Handle(T *raw) noexcept : raw_(raw) {}
  Handle(Handle &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    if (this != &other) {
      reset();
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  ~Handle() { reset(); }

  T *get() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  void reset() noexcept {
    if (raw_) Free(std::exchange(raw_, nullptr));
  }
  T *release() noexcept { return std::exchange(raw_, nullptr); }
  /// Where a C function puts a new handle; what was held is freed.
  T **out() noexcept {
    reset();
    return &raw_;
  }

private:
  T *raw_ = nullptr;
};

/// What a callback owns. Made here, deleted by the library's `destroy`, exactly once.
template <class F> void destroy(void *box) noexcept { delete static_cast<F *>(box); }

/// Moves a callable into a box of its own.
template <class F> std::decay_t<F> *box(F &&f) { return new std::decay_t<F>(std::forward<F>(f)); }

/// Lets whoever ends something wait for the callbacks of it that are running on other threads, and
/// keeps out those that come later.
class Gate {
public:
  /// A callback begins and ends.
  class Pass {
  public:
    explicit Pass(Gate &gate) : gate_(gate) {
      std::lock_guard<std::mutex> lock(gate_.mutex_);
      ++gate_.inside_;
      is_open_ = !gate_.closed_;
      outer_ = std::exchange(here(), &gate_);
    }
    ~Pass() {
      here() = outer_;
      std::lock_guard<std::mutex> lock(gate_.mutex_);
      if (--gate_.inside_ == 0) gate_.empty_.notify_all();
    }
    Pass(const Pass &) = delete;
    Pass &operator=(const Pass &) = delete;
    /// False if the callback came too late and must not run.
    bool is_open() const noexcept { return is_open_; }

  private:
    Gate &gate_;
    Gate *outer_;
    bool is_open_;
  };

  /// Lets no callback in any more and waits until none is inside; from such a callback, returns at
  /// once.
  void close() {
    std::unique_lock<std::mutex> lock(mutex_);
    closed_ = true;
    if (here() == this) return;
    empty_.wait(lock, [this] { return inside_ == 0; });
  }

private:
  static Gate *&here() noexcept {
    static thread_local Gate *current = nullptr;
    return current;
  }

  std::mutex mutex_;
  std::condition_variable empty_;
  int inside_ = 0;
  bool closed_ = false;
};

} // namespace detail

/// Says "no limit" where a time limit is asked for.
struct NoTimeout {
  explicit constexpr NoTimeout() = default;
};
/// No limit: what is asked for may take for ever.
inline constexpr NoTimeout no_timeout{};

/// A time limit: any std::chrono duration, rounded up to ms; a negative one counts as zero. Or
/// witrpc::no_timeout.
class Limit {
public:
  /// This long.
  template <class Rep, class Period>
  constexpr Limit(std::chrono::duration<Rep, Period> limit) : ms_(rounded(limit)) {}
  /// For ever.
  constexpr Limit(NoTimeout) noexcept : ms_(WITRPC_NO_TIMEOUT) {}
  /// In ms, as the C interface takes it.
  constexpr std::uint64_t milliseconds() const noexcept { return ms_; }

private:
  template <class Rep, class Period>
  static constexpr std::uint64_t rounded(std::chrono::duration<Rep, Period> limit) {
    // By way of double: a duration of hours need not fit into one of ms.
    const double ms = std::chrono::duration<double, std::milli>(limit).count();
    if (!(ms > 0)) return 0;
    if (ms >= 9.0e18) return WITRPC_NO_TIMEOUT - 1;
    const auto whole = static_cast<std::uint64_t>(ms);
    return static_cast<double>(whole) < ms ? whole + 1 : whole;
  }

  std::uint64_t ms_;
};

/// Bytes that the library made, without a copy: a result as JSON text. Move-only.
class Buffer {
public:
  Buffer() noexcept = default;
  /// Takes over a buffer of the C interface.
  explicit Buffer(witrpc_buffer *raw) noexcept : handle_(raw) {}

  /// The bytes as text; valid as long as the buffer lives.
  std::string_view text() const noexcept {
    return { reinterpret_cast<const char *>(data()), size() };
  }
  /// The bytes; valid as long as the buffer lives.
  const std::uint8_t *data() const noexcept { return witrpc_buffer_data(handle_.get()); }
  /// How many bytes.
  std::size_t size() const noexcept { return witrpc_buffer_size(handle_.get()); }
  /// The handle of the C interface; stays this object's.
  witrpc_buffer *get() const noexcept { return handle_.get(); }
  /// Where a C function puts a new buffer.
  witrpc_buffer **out() noexcept { return handle_.out(); }

private:
  detail::Handle<witrpc_buffer, witrpc_buffer_free> handle_;
};

namespace detail {

/// The text of a borrowed buffer.
inline std::string_view text_of(const witrpc_buffer *buffer) noexcept {
  const char *data = reinterpret_cast<const char *>(witrpc_buffer_data(buffer));
  return data ? std::string_view(data, witrpc_buffer_size(buffer)) : std::string_view();
}

} // namespace detail
} // namespace witrpc

#endif
