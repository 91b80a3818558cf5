/// @file
/// Clients: witrpc::Client, witrpc::Service, calls, subscriptions, contracts.
#ifndef WITRPC_CLIENT_HPP
#define WITRPC_CLIENT_HPP

#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <witrpc/error.hpp>
#include <witrpc/handle.hpp>
#include <witrpc/options.hpp>
#include <witrpc/signature.hpp>
#include <witrpc/value.hpp>

namespace witrpc {

/// A contract: the methods, events and data types of a service, from a `*.witrpc.json` document.
/// Move-only; may go as soon as it has been handed to a client or an implementation.
class Contract {
public:
  /// Reads a document.
  static Contract from_json(std::string_view json) {
    Contract contract;
    witrpc_error *error = nullptr;
    detail::ended(
        witrpc_contract_from_json_n(json.data(), json.size(), contract.handle_.out(), &error),
        &error)
        .value();
    return contract;
  }
  /// Reads a document from a file.
  static Contract from_file(const std::string &path) {
    Contract contract;
    witrpc_error *error = nullptr;
    detail::ended(witrpc_contract_from_file(path.c_str(), contract.handle_.out(), &error), &error)
        .value();
    return contract;
  }
  /// The handle of the C interface; stays this object's.
  witrpc_contract *get() const noexcept { return handle_.get(); }

private:
  Contract() = default;
  detail::Handle<witrpc_contract, witrpc_contract_free> handle_;
};

/// A call under way, to be cancelled. Destroying it does not cancel the call. Move-only.
class Call {
public:
  Call() noexcept = default;
  /// Takes over a handle of the C interface.
  explicit Call(witrpc_call *raw) noexcept : handle_(raw) {}
  /// Ends the call as Status::Cancelled, unless it has ended. What is on its way may still be
  /// executed. Any thread, any callback.
  void cancel() const noexcept { (void)witrpc_call_cancel(handle_.get()); }

private:
  detail::Handle<witrpc_call, witrpc_call_free> handle_;
};

/// A subscription to an event, over all reconnections, until it is destroyed. Move-only.
///
/// When the destructor (or reset()) has returned, the handler does not run any more, and what it
/// refers to may go; from the handler itself it returns at once.
class Subscription {
public:
  Subscription() noexcept = default;
  /// Takes over what `other` owns.
  Subscription(Subscription &&other) noexcept = default;
  /// Ends what it owns, and takes over what `other` does.
  Subscription &operator=(Subscription &&other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::move(other.handle_);
      state_ = std::move(other.state_);
    }
    return *this;
  }
  ~Subscription() { reset(); }

  /// Ends the subscription.
  void reset() noexcept {
    if (!handle_) return;
    handle_.reset();
    state_->gate.close();
  }
  /// Events that were dropped because the handler was too slow.
  std::uint64_t dropped() const noexcept { return witrpc_subscription_dropped(handle_.get()); }
  /// Why the last event that did not fit the handler's parameters was not delivered; nothing if all
  /// did.
  std::optional<Error> mismatch() const {
    if (!state_) return std::nullopt;
    std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->mismatch;
  }

private:
  friend class Service;
  struct State {
    detail::Gate gate;
    std::mutex mutex;
    std::optional<Error> mismatch;
  };
  detail::Handle<witrpc_subscription, witrpc_subscription_free> handle_;
  std::shared_ptr<State> state_;
};

/// One contract of the server that a client is connected to. Move-only; may outlive its client,
/// then its calls end as Status::Closed. Any thread.
///
/// A method is named by the line that you paste from the C# interface, as "int Add(int a, int b)";
/// `R` is the C++ type of its result (`void`, or Buffer for the JSON text as it came), arguments
/// are C++ values; value.hpp says which type stands for which. Options of a call may come first.
class Service {
public:
  /// Takes over a handle of the C interface.
  explicit Service(witrpc_service *raw) noexcept : handle_(raw) {}

  /// Calls a method and waits for its result. Blocks for at most the limits of the options.
  template <class R = void, class... A>
  R call(std::string_view method, const A &...arguments) const {
    return try_call<R>(method, arguments...).value();
  }
  /// The same with options.
  template <class R = void, class... A>
  R call(const CallOptions &options, std::string_view method, const A &...arguments) const {
    return try_call<R>(options, method, arguments...).value();
  }
  /// Calls a method and waits for its result, or an error.
  template <class R = void, class... A>
  Result<R> try_call(std::string_view method, const A &...arguments) const {
    return blocking<R>(nullptr, method, detail::arguments(arguments...));
  }
  /// The same with options.
  template <class R = void, class... A>
  Result<R> try_call(const CallOptions &options, std::string_view method,
                     const A &...arguments) const {
    return blocking<R>(options.get(), method, detail::arguments(arguments...));
  }

  /// Calls a method without waiting. All errors come by the future. Destroying the future does not
  /// wait, and does not cancel the call.
  template <class R = void, class... A>
  std::future<R> async(std::string_view method, const A &...arguments) const {
    return future<R>(nullptr, method, detail::arguments(arguments...));
  }
  /// The same with options.
  template <class R = void, class... A>
  std::future<R> async(const CallOptions &options, std::string_view method,
                       const A &...arguments) const {
    return future<R>(options.get(), method, detail::arguments(arguments...));
  }

  /// Calls a method without waiting and has `done(Result<R>)` called with its end: exactly once, on
  /// the client's callback thread, never inside this function. If this function throws, `done` is
  /// not called.
  template <class R = void, class Done, class... A>
  Call start(std::string_view method, Done &&done, const A &...arguments) const {
    return begin<R>(nullptr, method, detail::arguments(arguments...), std::forward<Done>(done))
        .value();
  }
  /// The same with options.
  template <class R = void, class Done, class... A>
  Call start(const CallOptions &options, std::string_view method, Done &&done,
             const A &...arguments) const {
    return begin<R>(options.get(), method, detail::arguments(arguments...),
                    std::forward<Done>(done))
        .value();
  }
  /// As start(), with the failure as a result.
  template <class R = void, class Done, class... A>
  Result<Call> try_start(std::string_view method, Done &&done, const A &...arguments) const {
    return begin<R>(nullptr, method, detail::arguments(arguments...), std::forward<Done>(done));
  }
  /// The same with options.
  template <class R = void, class Done, class... A>
  Result<Call> try_start(const CallOptions &options, std::string_view method, Done &&done,
                         const A &...arguments) const {
    return begin<R>(options.get(), method, detail::arguments(arguments...),
                    std::forward<Done>(done));
  }

#if defined(__cpp_impl_coroutine)
  /// Calls a method from a coroutine: `int sum = co_await echo.co_call<int>("int Add(int,int)", 2,
  /// 3)`. The coroutine goes on on the client's callback thread. See coroutine.hpp.
  template <class R = void, class... A>
  auto co_call(std::string_view method, const A &...arguments) const;
  /// The same with options.
  template <class R = void, class... A>
  auto co_call(const CallOptions &options, std::string_view method, const A &...arguments) const;
#endif

  /// Calls `handler` for each event, in order, on the client's callback thread. `event` is a line
  /// pasted from the C# interface, as "event Action<int> Progress"; the handler's parameters are
  /// the event's values. Connected or not.
  template <class F>
  [[nodiscard]] Subscription subscribe(std::string_view event, F &&handler) const {
    return try_subscribe(event, std::forward<F>(handler)).value();
  }
  /// The same with the failure as a result.
  template <class F> Result<Subscription> try_subscribe(std::string_view event, F &&handler) const {
    struct Box {
      std::decay_t<F> handler;
      std::shared_ptr<Subscription::State> state;
    };
    Subscription subscription;
    subscription.state_ = std::make_shared<Subscription::State>();
    witrpc_error *error = nullptr;
    auto made = detail::ended(
        witrpc_service_subscribe_n(
            handle_.get(), event.data(), event.size(),
            [](void *self, const witrpc_buffer *arguments) noexcept {
              Box &box = *static_cast<Box *>(self);
              detail::Gate::Pass pass(box.state->gate);
              if (!pass.is_open()) return;
              auto values = detail::Signature<std::decay_t<F>>::decode(detail::text_of(arguments));
              if (values) {
                std::apply(box.handler, std::move(*values));
              } else {
                std::lock_guard<std::mutex> lock(box.state->mutex);
                box.state->mismatch = values.error();
              }
            },
            new Box{ std::forward<F>(handler), subscription.state_ }, detail::destroy<Box>,
            subscription.handle_.out(), &error),
        &error);
    if (!made) return made.error();
    return subscription;
  }

  /// The handle of the C interface; stays this object's.
  witrpc_service *get() const noexcept { return handle_.get(); }

private:
  template <class R> static Result<R> result_of(Buffer buffer) {
    if constexpr (std::is_void_v<R>)
      return {};
    else if constexpr (std::is_same_v<R, Buffer>)
      return buffer;
    else
      return detail::decode<R>(buffer.text());
  }

  template <class R> static Result<R> result_of(const witrpc_buffer *borrowed) {
    if constexpr (std::is_void_v<R>)
      return {};
    else if constexpr (std::is_same_v<R, Buffer>)
      return Buffer(witrpc_buffer_retain(borrowed));
    else
      return detail::decode<R>(detail::text_of(borrowed));
  }

  template <class R>
  Result<R> blocking(const witrpc_call_options *options, std::string_view method,
                     const std::string &arguments) const {
    Buffer buffer;
    witrpc_error *error = nullptr;
    const auto status =
        witrpc_service_call_n(handle_.get(), method.data(), method.size(), arguments.data(),
                              arguments.size(), options, buffer.out(), &error);
    if (status != WITRPC_OK) return Error::take(status, error);
    return result_of<R>(std::move(buffer));
  }

  template <class R, class Done>
  Result<Call> begin(const witrpc_call_options *options, std::string_view method,
                     const std::string &arguments, Done &&done) const {
    using Box = std::decay_t<Done>;
    witrpc_call *call = nullptr;
    witrpc_error *error = nullptr;
    const auto status = witrpc_service_start_n(
        handle_.get(), method.data(), method.size(), arguments.data(), arguments.size(), options,
        [](void *self, std::int32_t ended, const witrpc_buffer *result,
           const witrpc_error *problem) noexcept {
          Box &box = *static_cast<Box *>(self);
          if (ended == WITRPC_OK)
            box(result_of<R>(result));
          else
            box(Result<R>(Error::borrow(ended, problem)));
        },
        detail::box(std::forward<Done>(done)), detail::destroy<Box>, &call, &error);
    if (status != WITRPC_OK) return Error::take(status, error);
    return Call(call);
  }

  template <class R>
  std::future<R> future(const witrpc_call_options *options, std::string_view method,
                        const std::string &arguments) const {
    auto shared = std::make_shared<std::promise<R>>();
    // Goes before the promise if memory runs out: a promise that breaks would need some.
    std::future<R> future = shared->get_future();
    auto begun = begin<R>(options, method, arguments, [shared](Result<R> result) {
      if (!result) return fail(*shared, result.error());
      if constexpr (std::is_void_v<R>)
        shared->set_value();
      else
        shared->set_value(std::move(*result));
    });
    if (!begun) fail(*shared, begun.error());
    return future;
  }

  template <class R> static void fail(std::promise<R> &promise, const Error &error) {
#if WITRPC_HAS_EXCEPTIONS
    promise.set_exception(std::make_exception_ptr(error));
#else
    (void)promise;
    detail::raise(error);
#endif
  }

  template <class R, bool Throws> friend class CallAwaiter;

  detail::Handle<witrpc_service, witrpc_service_free> handle_;
};

/// A verdict on a client.
enum class HealthStatus : std::int32_t {
  Healthy = WITRPC_HEALTHY,    ///< Connected, initialized and authorised.
  Degraded = WITRPC_DEGRADED,  ///< Reconnecting: calls wait for the link.
  Unhealthy = WITRPC_UNHEALTHY ///< Failed, disconnected, or without an answer to a deep check.
};

/// A health report.
struct Health {
  HealthStatus status = HealthStatus::Unhealthy;    ///< The verdict.
  std::string client_name;                          ///< What the client is called.
  State connection_state = State::Disconnected;     ///< State of the connection.
  bool is_initialized = false;                      ///< The server has answered the introduction.
  bool is_authorized = false;                       ///< The server has accepted the token.
  std::optional<std::chrono::milliseconds> silence; ///< Since the server's last sign of life.
  std::optional<std::chrono::microseconds> round_trip; ///< Of the deep check, or the last ping.
  std::uint64_t in_flight = 0;                         ///< Calls on their way now.
  std::uint64_t queued = 0;                            ///< Calls that wait now.
  std::uint64_t reconnects = 0;                        ///< Reconnections that succeeded.
  std::optional<Error> last_error;                     ///< Why the last link or check failed.
};

/// A client of one server, or of several that stand in for each other. Move-only; any thread, any
/// callback.
///
/// The destructor closes the client and waits until its callbacks have returned, so that what they
/// refer to may go after it; from a callback of this client it does not wait.
class Client {
public:
  /// Makes a client, which is not connected yet. Throws where an option makes no sense.
  explicit Client(const ClientOptions &options) : Client(create(options).value()) {}
  /// The same for a server of which nothing but the endpoint is to be said.
  explicit Client(std::string_view endpoint) : Client(ClientOptions(endpoint)) {}
  /// The same with the failure as a result.
  static Result<Client> create(const ClientOptions &options) {
    witrpc_client *raw = nullptr;
    witrpc_error *error = nullptr;
    auto made = detail::ended(witrpc_client_new(options.get(), &raw, &error), &error);
    if (!made) return made.error();
    return Client(raw);
  }
  /// Takes over a handle of the C interface.
  explicit Client(witrpc_client *raw) noexcept : handle_(raw) {}
  /// Takes over what `other` owns.
  Client(Client &&other) noexcept = default;
  /// Ends what it owns, and takes over what `other` does.
  Client &operator=(Client &&other) noexcept {
    if (this != &other) {
      end();
      handle_ = std::move(other.handle_);
    }
    return *this;
  }
  ~Client() { end(); }

  /// Connects and waits until the server has authorised the client. Connected already, it does
  /// nothing. Blocks for at most the connect timeout of each attempt.
  void connect() const { try_connect().value(); }
  /// The same with the failure as a result.
  Result<void> try_connect() const { return tell(witrpc_client_connect); }
  /// Connects without waiting; `done(Result<void>)` is called exactly once, on the callback thread.
  template <class Done> void start_connect(Done &&done) const {
    using Box = std::decay_t<Done>;
    witrpc_error *error = nullptr;
    detail::ended(witrpc_client_connect_start(
                      handle_.get(),
                      [](void *self, std::int32_t status, const witrpc_error *problem) noexcept {
                        Box &box = *static_cast<Box *>(self);
                        if (status == WITRPC_OK)
                          box(Result<void>());
                        else
                          box(Result<void>(Error::borrow(status, problem)));
                      },
                      detail::box(std::forward<Done>(done)), detail::destroy<Box>, &error),
                  &error)
        .value();
  }
  /// Drops the link, if there is one, and connects anew without a delay.
  void reconnect() const { try_reconnect().value(); }
  /// The same with the failure as a result.
  Result<void> try_reconnect() const { return tell(witrpc_client_reconnect); }
  /// Ends the wait before the next attempt to reconnect; does nothing else.
  void reconnect_now() const { detail::check(witrpc_client_reconnect_now(handle_.get())); }
  /// Ends attempts to reconnect in progress: the client is Disconnected.
  void stop_reconnection() const { detail::check(witrpc_client_stop_reconnection(handle_.get())); }
  /// Drops the link and stays without one until connect(). Calls under way end as Status::Closed.
  void disconnect() const { detail::check(witrpc_client_disconnect(handle_.get())); }
  /// Disconnects for good, without waiting; callbacks may still run after it.
  void close() const { detail::check(witrpc_client_close(handle_.get())); }
  /// Closes and waits until the last callback has returned; false if that took longer than `limit`.
  /// Throws Status::WouldDeadlock from a callback of this client.
  bool close_and_wait(Limit limit) const {
    return in_time(witrpc_client_close_and_wait(handle_.get(), limit.milliseconds()));
  }

  /// The state now.
  State state() const noexcept { return static_cast<State>(witrpc_client_state(handle_.get())); }
  /// Waits until the client is in a state; false if it was not within `limit`.
  bool wait_for(State state, Limit limit) const {
    return in_time(witrpc_client_wait_state(handle_.get(), static_cast<std::int32_t>(state),
                                            limit.milliseconds()));
  }
  /// What the client has done and does.
  witrpc_client_stats stats() const {
    witrpc_client_stats stats = WITRPC_CLIENT_STATS_INIT;
    detail::check(witrpc_client_stats_get(handle_.get(), &stats));
    return stats;
  }
  /// Why the last link or attempt to connect failed; nothing if nothing has.
  std::optional<Error> last_failure() const {
    witrpc_error *error = witrpc_client_last_failure(handle_.get());
    if (!error) return std::nullopt;
    return Error::take(witrpc_error_code(error), error);
  }

  /// How the client is, as far as it knows itself: nothing is sent.
  Health health() const { return report(witrpc_client_health_get); }
  /// The deep check: the report, and a round trip to the server if the client is connected.
  Health check_health(Limit limit) const {
    return report(
        [&limit](const witrpc_client *client, witrpc_client_health *raw, witrpc_error **error) {
          return witrpc_client_check_health(client, limit.milliseconds(), raw, error);
        });
  }
  /// What the client is called; empty if it has no name.
  std::string name() const {
    Buffer text;
    detail::check(witrpc_client_name(handle_.get(), text.out()));
    return std::string(text.text());
  }

  /// A service by the name of its contract, as "Demo.IEcho". Nothing is sent.
  Service service(std::string_view contract) const { return try_service(contract).value(); }
  /// The same with the failure as a result.
  Result<Service> try_service(std::string_view contract) const {
    witrpc_service *raw = nullptr;
    witrpc_error *error = nullptr;
    auto made = detail::ended(
        witrpc_client_service_n(handle_.get(), contract.data(), contract.size(), &raw, &error),
        &error);
    if (!made) return made.error();
    return Service(raw);
  }
  /// A service whose contract declares its methods, events and types.
  Service service(const Contract &contract) const {
    witrpc_service *raw = nullptr;
    witrpc_error *error = nullptr;
    detail::ended(witrpc_client_service_of(handle_.get(), contract.get(), &raw, &error), &error)
        .value();
    return Service(raw);
  }

  /// The handle of the C interface; stays this object's.
  witrpc_client *get() const noexcept { return handle_.get(); }

private:
  Result<void> tell(std::int32_t (*f)(const witrpc_client *, witrpc_error **)) const {
    witrpc_error *error = nullptr;
    return detail::ended(f(handle_.get(), &error), &error);
  }
  template <class F> Health report(F &&ask) const {
    witrpc_client_health raw = WITRPC_CLIENT_HEALTH_INIT;
    witrpc_error *error = nullptr;
    detail::check(ask(handle_.get(), &raw, &error));
    Health health;
    if (error) health.last_error = Error::take(witrpc_error_code(error), error);
    health.status = static_cast<HealthStatus>(raw.status);
    health.client_name = name();
    health.connection_state = static_cast<State>(raw.connection_state);
    health.is_initialized = raw.is_initialized;
    health.is_authorized = raw.is_authorized;
    if (raw.silence_ms != WITRPC_NO_TIMEOUT) health.silence = detail::clamped(raw.silence_ms);
    if (raw.round_trip_us != WITRPC_NO_TIMEOUT)
      health.round_trip = std::chrono::microseconds(static_cast<std::int64_t>(raw.round_trip_us));
    health.in_flight = raw.in_flight;
    health.queued = raw.queued;
    health.reconnects = raw.reconnects;
    return health;
  }
  static bool in_time(std::int32_t status) {
    if (status == WITRPC_TIMEOUT) return false;
    detail::check(status);
    return true;
  }
  void end() noexcept {
    if (handle_) (void)witrpc_client_close_and_wait(handle_.get(), WITRPC_NO_TIMEOUT);
    handle_.reset();
  }

  detail::Handle<witrpc_client, witrpc_client_free> handle_;
};

} // namespace witrpc

#endif
