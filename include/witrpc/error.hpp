/// @file
/// What can go wrong, and how it is told: witrpc::Status, witrpc::Error, witrpc::Result.
///
/// Every operation comes twice: under its plain name it throws witrpc::Error, under `try_NAME` it
/// returns a witrpc::Result and throws nothing but std::bad_alloc. Without exceptions
/// (`-fno-exceptions`) the plain ones print the error and abort; use the `try_` ones there.
#ifndef WITRPC_ERROR_HPP
#define WITRPC_ERROR_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <witrpc.h>

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
/// 1 if the program is compiled with exceptions.
#define WITRPC_HAS_EXCEPTIONS 1
#else
/// 1 if the program is compiled with exceptions.
#define WITRPC_HAS_EXCEPTIONS 0
#endif

namespace witrpc {

/// How something ended. The numbers are those of witrpc_status; new ones may be added.
enum class Status : std::int32_t {
  Ok = WITRPC_OK,                            ///< It succeeded.
  InvalidArgument = WITRPC_INVALID_ARGUMENT, ///< An argument is wrong; nothing was sent.
  BadRequest = WITRPC_BAD_REQUEST, ///< The server knows no such method, or can't read an argument.
  Unauthorized = WITRPC_UNAUTHORIZED, ///< The token was refused.
  Timeout = WITRPC_TIMEOUT,           ///< No answer, connection or change of state in time.
  Transport = WITRPC_TRANSPORT, ///< The connection could not be made, was lost, or is not there.
  Remote = WITRPC_REMOTE,       ///< The method failed on the server.
  OutcomeUnknown = WITRPC_OUTCOME_UNKNOWN, ///< Whether the call was executed can't be told.
  Cancelled = WITRPC_CANCELLED,            ///< The call was cancelled.
  Overloaded = WITRPC_OVERLOADED,          ///< A queue or limit is full, here or at the server.
  Closed = WITRPC_CLOSED,                  ///< The client or server is closed, or was disconnected.
  Protocol = WITRPC_PROTOCOL,       ///< The peer broke the protocol, or speaks another version.
  Encryption = WITRPC_ENCRYPTION,   ///< The peers do not agree on encryption.
  Certificate = WITRPC_CERTIFICATE, ///< A certificate was not accepted.
  Internal = WITRPC_INTERNAL,       ///< A defect in the library.
  InvalidHandle = WITRPC_INVALID_HANDLE, ///< The object is empty: moved from, or never made.
  WouldDeadlock = WITRPC_WOULD_DEADLOCK, ///< Waiting here would be waiting for oneself.
};

/// What is known about a call that failed. The numbers are those of witrpc_outcome.
enum class Outcome : std::int32_t {
  NotSent = WITRPC_NOT_SENT, ///< The request did not leave this machine: the method did not run.
  Unknown = WITRPC_UNKNOWN,  ///< Sent, and no answer came: the method may have run.
  Answered = WITRPC_ANSWERED ///< The server answered.
};

/// The stable name of a status, as "timeout". Static text.
inline const char *name(Status status) noexcept {
  return witrpc_status_name(static_cast<std::int32_t>(status));
}

/// Why something failed. Cheap to copy (copies share their text); copying never throws.
class Error : public std::exception {
public:
  /// An error of one's own making.
  explicit Error(Status code, std::string_view message, std::string_view details = {},
                 Outcome outcome = Outcome::NotSent)
      : Error(code, message, details, outcome, 0, false) {}

  /// What the C interface reports: a status and, if there is one, an error object, which is taken
  /// over and freed.
  static Error take(std::int32_t status, witrpc_error *error) {
    // Freed also if there is no memory for the copy.
    struct Owned {
      witrpc_error *error;
      ~Owned() { witrpc_error_free(error); }
    } owned{ error };
    return borrow(status, owned.error);
  }

  /// The same with an error object that stays its owner's, as callbacks are given.
  static Error borrow(std::int32_t status, const witrpc_error *error) {
    const Status code = static_cast<Status>(status);
    const char *message = witrpc_error_message(error);
    if (!message) return Error(code, plain_message(code), {}, Outcome::NotSent, 0, false);
    return Error(code, message, or_empty(witrpc_error_details(error)),
                 static_cast<Outcome>(witrpc_error_outcome(error)), witrpc_error_attempts(error),
                 witrpc_error_retryable(error));
  }

  /// The status it stands for.
  Status code() const noexcept { return data_->code; }
  /// The stable name of the status, as "timeout".
  const char *code_name() const noexcept { return name(data_->code); }
  /// What happened, in words: for a remote failure the server's message.
  const std::string &message() const noexcept { return data_->message; }
  /// What lies behind it: for a remote failure the message of the exception; may be empty.
  const std::string &details() const noexcept { return data_->details; }
  /// Whether the request left this machine, and was answered.
  Outcome outcome() const noexcept { return data_->outcome; }
  /// How many attempts were begun; 0 where the call never got that far.
  std::uint32_t attempts() const noexcept { return data_->attempts; }
  /// True if the same call may succeed later and repeating it is known not to execute it twice.
  bool retryable() const noexcept { return data_->retryable; }
  /// Message and details in one line.
  const char *what() const noexcept override { return data_->what.c_str(); }

private:
  struct Data {
    Status code;
    std::string message, details, what;
    Outcome outcome;
    std::uint32_t attempts;
    bool retryable;
  };

  Error(Status code, std::string_view message, std::string_view details, Outcome outcome,
        std::uint32_t attempts, bool retryable) {
    auto data = std::make_shared<Data>();
    data->code = code;
    data->message = message;
    data->details = details;
    data->what = data->message;
    if (!details.empty()) data->what.append(": ").append(details);
    data->outcome = outcome;
    data->attempts = attempts;
    data->retryable = retryable;
    data_ = std::move(data);
  }

  static const char *or_empty(const char *text) noexcept { return text ? text : ""; }

  static const char *plain_message(Status code) noexcept {
    switch (code) {
    case Status::InvalidHandle:
      return "the object is empty: it was moved from, or ended";
    case Status::InvalidArgument:
      return "an argument is wrong";
    case Status::Timeout:
      return "it took too long";
    case Status::Closed:
      return "the client or server is closed";
    case Status::WouldDeadlock:
      return "waiting here would be waiting for the callback or handler that this was called from";
    default:
      return name(code);
    }
  }

  std::shared_ptr<const Data> data_;
};

namespace detail {

/// Throws; without exceptions, prints and aborts.
[[noreturn]] inline void raise(const Error &error) {
#if WITRPC_HAS_EXCEPTIONS
  throw error;
#else
  std::fprintf(stderr, "witrpc: %s\n", error.what());
  std::abort();
#endif
}

} // namespace detail

/// A value or an Error, as std::expected has it from C++23 on.
///
/// `T` is any type but Error, `void` too.
template <class T> class [[nodiscard]] Result {
public:
  using value_type = T;     ///< As std::expected has it.
  using error_type = Error; ///< As std::expected has it.

  /// A value.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  /// An error.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  /// True if there is a value.
  bool has_value() const noexcept { return state_.index() == 0; }
  /// True if there is a value.
  explicit operator bool() const noexcept { return has_value(); }

  /// The value; throws the error if there is none.
  T &value() & { return has_value() ? **this : (detail::raise(error()), **this); }
  /// The value; throws the error if there is none.
  const T &value() const & { return has_value() ? **this : (detail::raise(error()), **this); }
  /// The value, moved out; throws the error if there is none.
  T value() && {
    if (!has_value()) detail::raise(error());
    return std::move(**this);
  }
  /// The value, or `other` if there is none.
  template <class U> T value_or(U &&other) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
  }
  /// The value, or `other` if there is none.
  template <class U> T value_or(U &&other) const & {
    return has_value() ? **this : static_cast<T>(std::forward<U>(other));
  }

  /// The value. There must be one.
  T &operator*() noexcept { return *std::get_if<0>(&state_); }
  /// The value. There must be one.
  const T &operator*() const noexcept { return *std::get_if<0>(&state_); }
  /// The value. There must be one.
  T *operator->() noexcept { return std::get_if<0>(&state_); }
  /// The value. There must be one.
  const T *operator->() const noexcept { return std::get_if<0>(&state_); }
  /// The error. There must be one.
  const Error &error() const noexcept { return *std::get_if<1>(&state_); }

private:
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <> class [[nodiscard]] Result<void> {
public:
  using value_type = void;  ///< As std::expected has it.
  using error_type = Error; ///< As std::expected has it.

  /// Success.
  Result() = default;
  /// An error.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  /// True if it succeeded.
  bool has_value() const noexcept { return state_.index() == 0; }
  /// True if it succeeded.
  explicit operator bool() const noexcept { return has_value(); }
  /// Throws the error if there is one.
  void value() const {
    if (!has_value()) detail::raise(error());
  }
  /// The error. There must be one.
  const Error &error() const noexcept { return *std::get_if<1>(&state_); }

private:
  std::variant<std::monostate, Error> state_;
};

namespace detail {

/// The end of a C function that has no error object.
inline Result<void> ended(std::int32_t status) {
  if (status == WITRPC_OK) return {};
  return Error::take(status, nullptr);
}

/// The end of a C function with its error object, which is taken over. By address: which argument
/// is evaluated first is not said, and the function that gives the status writes the error.
inline Result<void> ended(std::int32_t status, witrpc_error *const *error) {
  if (status == WITRPC_OK) return {};
  return Error::take(status, *error);
}

/// Throws if a C function without an error object has failed.
inline void check(std::int32_t status) {
  if (status != WITRPC_OK) raise(Error::take(status, nullptr));
}

} // namespace detail
} // namespace witrpc

#endif
