/// @file
/// What clients and calls are to be like: witrpc::ClientOptions, witrpc::CallOptions.
#ifndef WITRPC_OPTIONS_HPP
#define WITRPC_OPTIONS_HPP

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <witrpc/error.hpp>
#include <witrpc/handle.hpp>
#include <witrpc/loop.hpp>
#include <witrpc/types.hpp>

namespace witrpc {

/// State of a client. The numbers are WitRPC's.
enum class State : std::int32_t {
  Connected = WITRPC_CONNECTED,       ///< Connected and authorised.
  Disconnected = WITRPC_DISCONNECTED, ///< Idle, and not reconnecting.
  Reconnecting = WITRPC_RECONNECTING, ///< Attempts in progress.
  Failed = WITRPC_FAILED              ///< Attempts exhausted, or the server refused for good.
};

/// How arguments and results travel. The peers must be set alike.
enum class Codec : std::int32_t {
  Json = WITRPC_CODEC_JSON,                      ///< System.Text.Json, the default.
  MemoryPack = WITRPC_CODEC_MEMORYPACK,          ///< MemoryPack.
  MessagePack = WITRPC_CODEC_MESSAGEPACK,        ///< MessagePack.
  Protobuf = WITRPC_CODEC_PROTOBUF,              ///< protobuf-net.
  GoogleProtobuf = WITRPC_CODEC_GOOGLE_PROTOBUF, ///< Google.Protobuf.
};

/// How delays are spread, so that many clients do not come back at the same moment.
enum class Jitter : std::int32_t {
  None = WITRPC_JITTER_NONE,                ///< The delay as it is.
  Equal = WITRPC_JITTER_EQUAL,              ///< Between half of it and all of it.
  Full = WITRPC_JITTER_FULL,                ///< Between nothing and all of it.
  Decorrelated = WITRPC_JITTER_DECORRELATED ///< Between the initial delay and three times the last.
};

/// How the delays of retries grow.
enum class Backoff : std::int32_t {
  Fixed = WITRPC_BACKOFF_FIXED,            ///< Always the initial delay.
  Linear = WITRPC_BACKOFF_LINEAR,          ///< The initial delay times the number of the retry.
  Exponential = WITRPC_BACKOFF_EXPONENTIAL ///< Multiplied from one to the next.
};

/// A retry that is about to happen.
struct Retry {
  std::string_view method;         ///< Name of the method; valid until the callback returns.
  Error error;                     ///< Why the attempt failed.
  std::uint32_t attempt;           ///< Number of the attempt that failed, from 1.
  std::chrono::milliseconds delay; ///< The delay that follows.
};

/// Where an asynchronous token provider puts its answer. Move-only; without an answer the attempt
/// to connect fails. Any thread.
class Token {
public:
  /// Takes over a handle of the C interface.
  explicit Token(witrpc_token *raw) noexcept : handle_(raw) {}
  /// Gives the token.
  void answer(std::string_view token) {
    detail::check(witrpc_token_answer(handle_.get(), token.data(), token.size()));
    handle_.release();
  }
  /// Says why there is no token.
  void fail(const std::string &reason) {
    detail::check(witrpc_token_fail(handle_.get(), reason.c_str()));
    handle_.release();
  }

private:
  detail::Handle<witrpc_token, witrpc_token_free> handle_;
};

namespace detail {

inline std::chrono::milliseconds clamped(std::uint64_t ms) noexcept {
  const auto most = static_cast<std::uint64_t>(INT64_MAX);
  return std::chrono::milliseconds(static_cast<std::int64_t>(ms < most ? ms : most));
}

/// What a client's callbacks table points to.
struct ClientCallbacks {
  std::function<void(std::uint32_t, std::chrono::milliseconds)> on_reconnecting;
  std::function<void()> on_reconnected;
  std::function<void(const Error &)> on_reconnection_failed;
  std::function<void(State)> on_state_changed;
  std::function<void(const Retry &)> on_retry;
  std::function<bool(const Error &)> is_retryable;

  bool any() const {
    return on_reconnecting || on_reconnected || on_reconnection_failed || on_state_changed ||
           on_retry || is_retryable;
  }

  /// The table; it owns a copy of the functions.
  witrpc_client_callbacks table() const {
    witrpc_client_callbacks table = WITRPC_CLIENT_CALLBACKS_INIT;
    if (on_reconnecting)
      table.on_reconnecting = [](void *self, std::uint32_t attempt, std::uint64_t ms) noexcept {
        of(self).on_reconnecting(attempt, clamped(ms));
      };
    if (on_reconnected)
      table.on_reconnected = [](void *self) noexcept { of(self).on_reconnected(); };
    if (on_reconnection_failed)
      table.on_reconnection_failed = [](void *self, const witrpc_error *error) noexcept {
        of(self).on_reconnection_failed(Error::borrow(witrpc_error_code(error), error));
      };
    if (on_state_changed)
      table.on_state_changed = [](void *self, std::int32_t state) noexcept {
        of(self).on_state_changed(static_cast<State>(state));
      };
    if (on_retry)
      table.on_retry = [](void *self, const witrpc_retry_info *info) noexcept {
        of(self).on_retry(Retry{ info->method,
                                 Error::borrow(witrpc_error_code(info->error), info->error),
                                 info->attempt, clamped(info->delay_ms) });
      };
    if (is_retryable)
      table.is_retryable = [](void *self, const witrpc_error *error) noexcept {
        return of(self).is_retryable(Error::borrow(witrpc_error_code(error), error));
      };
    table.user_data = box(*this);
    table.destroy = destroy<ClientCallbacks>;
    return table;
  }

  static const ClientCallbacks &of(void *self) noexcept {
    return *static_cast<const ClientCallbacks *>(self);
  }
};

/// A std::function of a callable that can only be moved.
template <class F> auto shared(F &&f) {
  return [f = std::make_shared<std::decay_t<F>>(std::forward<F>(f))](
             auto &&...a) -> decltype(auto) { return (*f)(std::forward<decltype(a)>(a)...); };
}

} // namespace detail

/// The options of clients. Set what is to be different from the defaults (they stand at the
/// functions of the same name in witrpc.h), then make one or more clients from them.
///
/// Setters return the object, so that they can be chained; they throw Error where what they are
/// given is no UTF-8, holds a NUL, or is no option at all. Values that make no sense together are
/// told when a client is made. Move-only; not to be used from two threads at once.
///
/// Callbacks run on a thread of the library's own (or where Client::dispatch is called), one after
/// the other. An exception that leaves one ends the program, as with std::thread.
class ClientOptions {
public:
  /// Options for clients of the server at `endpoint`, as "tcp://host:port".
  explicit ClientOptions(std::string_view endpoint) {
    witrpc_error *error = nullptr;
    detail::ended(
        witrpc_client_options_new_n(endpoint.data(), endpoint.size(), handle_.out(), &error),
        &error)
        .value();
  }

  /// What a `witrpc.toml` says about the client `name`. Without a path the file is the one that the
  /// environment variable WITRPC_CONFIG names, else witrpc.toml in the working directory.
  static ClientOptions named(const std::string &name, const std::string &path = {}) {
    ClientOptions options{ Empty() };
    witrpc_error *error = nullptr;
    detail::ended(witrpc_client_options_named(path.empty() ? nullptr : path.c_str(), name.c_str(),
                                              options.handle_.out(), &error),
                  &error)
        .value();
    return options;
  }

  /// What clients are called in health reports.
  ClientOptions &name(const std::string &name) { return text(witrpc_client_options_name, name); }
  /// Has all callbacks run by `loop`.dispatch(). Set it before token providers.
  ClientOptions &loop(const EventLoop &loop) {
    return set(witrpc_client_options_loop, static_cast<const witrpc_loop *>(loop.get()));
  }
  /// One more server to try; they are tried in turn.
  ClientOptions &endpoint(const std::string &endpoint) {
    return text(witrpc_client_options_add_endpoint, endpoint);
  }
  /// Limit of one attempt to connect. Default 10 s.
  ClientOptions &connect_timeout(std::chrono::milliseconds limit) {
    return set(witrpc_client_options_connect_timeout_ms, Limit(limit).milliseconds());
  }
  /// Limit of one attempt of a call. Default 30 s.
  ClientOptions &attempt_timeout(Limit limit) {
    return set(witrpc_client_options_attempt_timeout_ms, limit.milliseconds());
  }
  /// Largest message accepted, in bytes. Default 256 MiB.
  ClientOptions &max_frame(std::size_t bytes) {
    return set(witrpc_client_options_max_frame, bytes);
  }
  /// Bounds of the queue of calls that wait for the link or for room. Default 4,096 and 64 MiB.
  ClientOptions &queue_limits(std::size_t calls, std::size_t bytes) {
    return set(witrpc_client_options_queue_limits, calls, bytes);
  }
  /// Requests without an answer at the same time; more wait. Default 16,384.
  ClientOptions &max_in_flight(std::size_t calls) {
    return set(witrpc_client_options_max_in_flight, calls);
  }
  /// How arguments and results are encoded. Default JSON.
  ClientOptions &codec(Codec codec) {
    return set(witrpc_client_options_codec, static_cast<std::int32_t>(codec));
  }
  /// TCP keep-alive: silence before the first probe, time between probes, unanswered probes.
  /// Default 10 s, 5 s, 3.
  ClientOptions &keepalive(Limit idle, Limit interval, std::uint32_t probes) {
    return set(witrpc_client_options_keepalive, idle.milliseconds(), interval.milliseconds(),
               probes);
  }
  /// How long sent bytes may stay unacknowledged (Linux). Default 20 s.
  ClientOptions &user_timeout(Limit limit) {
    return set(witrpc_client_options_user_timeout_ms, limit.milliseconds());
  }
  /// WebSockets: silence before a ping, and after it until the link is dead. Default 15 s and 20 s.
  ClientOptions &websocket_ping(Limit interval, Limit timeout) {
    return set(witrpc_client_options_websocket_ping, interval.milliseconds(),
               timeout.milliseconds());
  }

  /// Switches automatic reconnection on: 10 attempts, delays of 1, 2, 4 … 120 s. Every setter named
  /// reconnect_… does so too.
  ClientOptions &reconnect() { return set(witrpc_client_options_reconnect); }
  /// Automatic reconnection for long-running clients, of which there may be many: unlimited
  /// attempts, decorrelated jitter, a random first delay, the first connect covered.
  ClientOptions &reconnect_fleet() { return set(witrpc_client_options_reconnect_fleet); }
  /// Attempts until the client gives up; 0 = unlimited. Default 10.
  ClientOptions &reconnect_max_attempts(std::uint32_t attempts) {
    return set(witrpc_client_options_reconnect_max_attempts, attempts);
  }
  /// Delay before the first attempt, cap of the delays, and their growth. Default 1 s, 2 min, 2.0.
  ClientOptions &reconnect_delays(Limit initial, Limit max, double multiplier = 2.0) {
    return set(witrpc_client_options_reconnect_delays, initial.milliseconds(), max.milliseconds(),
               multiplier);
  }
  /// How the delays are spread. Default not at all.
  ClientOptions &reconnect_jitter(Jitter jitter, bool random_first_delay = false) {
    return set(witrpc_client_options_reconnect_jitter, static_cast<std::int32_t>(jitter),
               random_first_delay);
  }
  /// Whether to reconnect also when the server closed the connection in order. Default true.
  ClientOptions &reconnect_on_disconnect(bool on) {
    return set(witrpc_client_options_reconnect_on_disconnect, on);
  }
  /// Whether the very first connect is covered too. Default false.
  ClientOptions &reconnect_first_connect(bool on) {
    return set(witrpc_client_options_reconnect_first_connect, on);
  }
  /// How long a link must have stood to end the growth of the delays. Default 10 s.
  ClientOptions &reconnect_stable_after(Limit limit) {
    return set(witrpc_client_options_reconnect_stable_after_ms, limit.milliseconds());
  }

  /// Switches the retry policy on: 3 retries after 0.5, 1 and 2 s, for no method until one is
  /// declared. Every setter named retry_… or mark_… does so too.
  ClientOptions &retry() { return set(witrpc_client_options_retry); }
  /// Attempts after the first one. Default 3.
  ClientOptions &retry_max_retries(std::uint32_t retries) {
    return set(witrpc_client_options_retry_max_retries, retries);
  }
  /// Delay before the first retry, cap of the delays, and how they grow. Default 0.5 s, 30 s,
  /// exponential, 2.0.
  ClientOptions &retry_delays(Limit initial, Limit max, Backoff backoff = Backoff::Exponential,
                              double multiplier = 2.0) {
    return set(witrpc_client_options_retry_delays, initial.milliseconds(), max.milliseconds(),
               static_cast<std::int32_t>(backoff), multiplier);
  }
  /// How the delays of retries are spread. Default not at all.
  ClientOptions &retry_jitter(Jitter jitter) {
    return set(witrpc_client_options_retry_jitter, static_cast<std::int32_t>(jitter));
  }
  /// One more status number of WitRPC that is retried; 500 adds methods that failed on the server.
  ClientOptions &retry_on_status(std::int32_t status) {
    return set(witrpc_client_options_retry_on_status, status);
  }
  /// Limit of retries over time: so many a second, and so many for every hundred calls. Default 10
  /// and 20.
  ClientOptions &retry_budget(std::uint32_t per_second, std::uint32_t percent) {
    return set(witrpc_client_options_retry_budget, per_second, percent);
  }
  /// No limit of retries over time.
  ClientOptions &retry_no_budget() { return set(witrpc_client_options_retry_no_budget); }
  /// This method, by name or by line, may run twice: it is repeated anywhere.
  ClientOptions &mark_idempotent(const std::string &method) {
    return text(witrpc_client_options_mark_idempotent, method);
  }
  /// This method must not run twice: it is repeated only where the server recognises it.
  ClientOptions &mark_deduplicated(const std::string &method) {
    return text(witrpc_client_options_mark_deduplicated, method);
  }
  /// All methods may run twice, but those marked deduplicated.
  ClientOptions &retry_all_methods() { return set(witrpc_client_options_retry_all_methods); }

  /// WitRPC's own encryption; the server must be set alike. Default off.
  ClientOptions &encryption(bool on = true) { return set(witrpc_client_options_encryption, on); }
  /// The access token.
  ClientOptions &token(const std::string &token) {
    return text(witrpc_client_options_token, token);
  }
  /// Takes the access token from a file, which is read anew before every attempt to connect.
  ClientOptions &token_file(const std::string &path) {
    return text(witrpc_client_options_token_file, path);
  }
  /// Asks for the access token before every attempt to connect: `std::string provider()`. It may
  /// block; an exception fails the attempt.
  template <class F> ClientOptions &token_provider(F &&provider) {
    using Box = std::decay_t<F>;
    detail::check(witrpc_client_options_token_provider(
        handle_.get(),
        [](void *self, witrpc_token *answer) noexcept {
          provide(*static_cast<Box *>(self), answer);
        },
        detail::box(std::forward<F>(provider)), detail::destroy<Box>));
    return *this;
  }
  /// The same with a provider that may answer later, on any thread: `void provider(Token)`.
  template <class F> ClientOptions &token_provider_async(F &&provider) {
    using Box = std::decay_t<F>;
    detail::check(witrpc_client_options_token_provider_async(
        handle_.get(),
        [](void *self, witrpc_token *raw) noexcept { (*static_cast<Box *>(self))(Token(raw)); },
        detail::box(std::forward<F>(provider)), detail::destroy<Box>));
    return *this;
  }

  /// Certificate authorities to trust, as the text of a PEM file. Default: the system's.
  ClientOptions &tls_authorities(std::string_view pem) {
    return set(witrpc_client_options_tls_authorities, pem.data(), pem.size());
  }
  /// The same from a file, which is read when a client is made.
  ClientOptions &tls_authorities_file(const std::string &path) {
    return text(witrpc_client_options_tls_authorities_file, path);
  }
  /// Whether to trust the system's authorities also where others are given. Default false.
  ClientOptions &tls_system_authorities(bool also) {
    return set(witrpc_client_options_tls_system_authorities, also);
  }
  /// The name that the server's certificate must be for. Default: the host of the endpoint.
  ClientOptions &tls_server_name(const std::string &name) {
    return text(witrpc_client_options_tls_server_name, name);
  }
  /// Accepts the certificate with this SHA-256, and no others but those given by further calls.
  ClientOptions &tls_pin(const std::array<std::uint8_t, 32> &sha256) {
    return set(witrpc_client_options_tls_pin, sha256.data());
  }
  /// The client's own certificate and key, as the texts of PEM files.
  ClientOptions &tls_identity(std::string_view certificate, std::string_view key) {
    return set(witrpc_client_options_tls_identity, certificate.data(), certificate.size(),
               key.data(), key.size());
  }
  /// The same from files, which are read when a client is made.
  ClientOptions &tls_identity_files(const std::string &certificate, const std::string &key) {
    no_nul(certificate), no_nul(key);
    return set(witrpc_client_options_tls_identity_files, certificate.c_str(), key.c_str());
  }

  /// Before each wait for an attempt to reconnect: `f(attempt, delay)`, attempts from 1.
  template <class F> ClientOptions &on_reconnecting(F &&f) {
    return callbacks_.on_reconnecting = detail::shared(std::forward<F>(f)), *this;
  }
  /// The link is back: `f()`. The place to fetch what was missed.
  template <class F> ClientOptions &on_reconnected(F &&f) {
    return callbacks_.on_reconnected = detail::shared(std::forward<F>(f)), *this;
  }
  /// The attempts are used up, or the server refused for good: `f(const Error &)`.
  template <class F> ClientOptions &on_reconnection_failed(F &&f) {
    return callbacks_.on_reconnection_failed = detail::shared(std::forward<F>(f)), *this;
  }
  /// The state is another one: `f(State)`.
  template <class F> ClientOptions &on_state_changed(F &&f) {
    return callbacks_.on_state_changed = detail::shared(std::forward<F>(f)), *this;
  }
  /// A call is tried again after a delay: `f(const Retry &)`.
  template <class F> ClientOptions &on_retry(F &&f) {
    return callbacks_.on_retry = detail::shared(std::forward<F>(f)), *this;
  }
  /// Asked about failures of declared methods that no retryable status covers: `bool f(const Error
  /// &)`.
  template <class F> ClientOptions &retry_if(F &&f) {
    return callbacks_.is_retryable = detail::shared(std::forward<F>(f)), *this;
  }

  /// The handle of the C interface with all callbacks set; stays this object's.
  witrpc_client_options *get() const {
    if (callbacks_.any()) {
      const witrpc_client_callbacks table = callbacks_.table();
      detail::check(witrpc_client_options_callbacks(handle_.get(), &table));
    }
    return handle_.get();
  }

private:
  struct Empty {};
  explicit ClientOptions(Empty) noexcept {}
  template <class... P, class... A>
  ClientOptions &set(std::int32_t (*f)(witrpc_client_options *, P...), A... a) {
    detail::check(f(handle_.get(), a...));
    return *this;
  }
  ClientOptions &text(std::int32_t (*f)(witrpc_client_options *, const char *),
                      const std::string &text) {
    no_nul(text);
    return set(f, text.c_str());
  }
  static void no_nul(const std::string &text) {
    if (text.find('\0') != std::string::npos)
      detail::raise(Error(Status::InvalidArgument, "an option's text holds a NUL"));
  }
  template <class F> static void provide(F &provider, witrpc_token *answer) {
#if WITRPC_HAS_EXCEPTIONS
    try {
#endif
      const std::string token = provider();
      witrpc_token_answer(answer, token.data(), token.size());
#if WITRPC_HAS_EXCEPTIONS
    } catch (const std::exception &problem) {
      witrpc_token_fail(answer, problem.what());
    } catch (...) {
      witrpc_token_fail(answer, "the token provider threw");
    }
#endif
  }

  detail::Handle<witrpc_client_options, witrpc_client_options_free> handle_;
  detail::ClientCallbacks callbacks_;
};

/// What is special about a call. May be used for many calls; move-only, not to be changed while it
/// is used.
class CallOptions {
public:
  CallOptions() { detail::check(witrpc_call_options_new(handle_.out())); }
  /// Limit of the whole call: waiting for the link, all attempts, all delays. Default: what all
  /// attempts and delays can take.
  explicit CallOptions(Limit limit) : CallOptions() { timeout(limit); }

  /// Limit of the whole call.
  CallOptions &timeout(Limit limit) {
    detail::check(witrpc_call_options_timeout_ms(handle_.get(), limit.milliseconds()));
    return *this;
  }
  /// The call may run twice: the retry policy may repeat it anywhere.
  CallOptions &idempotent() {
    detail::check(witrpc_call_options_idempotent(handle_.get()));
    return *this;
  }
  /// The call must not run twice: the retry policy may repeat it where the server recognises it.
  CallOptions &deduplicated() {
    detail::check(witrpc_call_options_deduplicated(handle_.get()));
    return *this;
  }
  /// The call's own id, not all zero: by it the server recognises the call, also when it comes from
  /// another process later.
  CallOptions &invocation_id(const Guid &id) {
    detail::check(witrpc_call_options_invocation_id(handle_.get(), id.bytes.data()));
    return *this;
  }
  /// The handle of the C interface; stays this object's.
  witrpc_call_options *get() const noexcept { return handle_.get(); }

private:
  detail::Handle<witrpc_call_options, witrpc_call_options_free> handle_;
};

} // namespace witrpc

#endif
