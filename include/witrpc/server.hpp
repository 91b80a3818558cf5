/// @file
/// Servers: witrpc::Implementation, witrpc::ServerOptions, witrpc::Server, witrpc::Request.
#ifndef WITRPC_SERVER_HPP
#define WITRPC_SERVER_HPP

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <witrpc/client.hpp>
#include <witrpc/error.hpp>
#include <witrpc/handle.hpp>
#include <witrpc/signature.hpp>
#include <witrpc/value.hpp>

namespace witrpc {

/// A call to be answered, now or later, on any thread. Move-only; destroyed without an answer, it
/// fails the call.
class Request {
public:
  /// Takes over a handle of the C interface.
  explicit Request(witrpc_request *raw) noexcept : handle_(raw) {}

  /// Name of the method; valid until the request is answered.
  std::string_view method() const noexcept { return view(witrpc_request_method(handle_.get())); }
  /// The arguments as a JSON array; valid until the request is answered.
  std::string_view arguments() const noexcept {
    return view(witrpc_request_arguments(handle_.get()));
  }
  /// The arguments as values.
  template <class... A> Result<std::tuple<A...>> arguments_as() const {
    return detail::decode_all<A...>(arguments());
  }
  /// Who calls, as the token validator said; empty without one.
  std::string_view principal() const noexcept {
    return view(witrpc_request_principal(handle_.get()));
  }
  /// Address and port of the client.
  std::string_view peer() const noexcept { return view(witrpc_request_peer(handle_.get())); }
  /// The call's id, stable over its attempts.
  Guid invocation_id() const {
    Guid id;
    detail::check(witrpc_request_invocation_id(handle_.get(), id.bytes.data()));
    return id;
  }
  /// Raises an event of this contract to all clients: each gets it before the answer of this call.
  template <class... A> void raise(const std::string &event, const A &...values) const {
    witrpc_error *error = nullptr;
    const std::string json = detail::arguments(values...);
    detail::ended(witrpc_request_raise(handle_.get(), event.c_str(), json.c_str(), &error), &error)
        .value();
  }

  /// Answers a method without a result.
  void reply() { reply_json("null"); }
  /// Answers with a value.
  template <class T> void reply(const T &value) {
    std::string json;
    Writer out(json);
    detail::write<std::decay_t<const T>>(out, value);
    reply_json(json);
  }
  /// Answers with JSON text.
  void reply_json(std::string_view json) {
    witrpc_error *error = nullptr;
    end(witrpc_request_reply_n(handle_.get(), json.data(), json.size(), &error), &error);
  }
  /// Fails the call: the caller sees status 500 with `details`.
  void fail(const std::string &details) {
    witrpc_error *error = nullptr;
    end(witrpc_request_fail(handle_.get(), details.c_str(), &error), &error);
  }
  /// The handle of the C interface; stays this object's.
  witrpc_request *get() const noexcept { return handle_.get(); }

private:
  static std::string_view view(const char *text) noexcept { return text ? text : ""; }
  void end(std::int32_t status, witrpc_error *const *error) {
    detail::ended(status, error).value();
    handle_.release();
  }
  detail::Handle<witrpc_request, witrpc_request_free> handle_;
};

/// A contract and a handler for each of its methods. May be given to several servers. Move-only.
class Implementation {
public:
  /// An implementation of a contract of which only the name is known.
  explicit Implementation(const std::string &contract) {
    witrpc_error *error = nullptr;
    detail::ended(witrpc_implementation_new(contract.c_str(), handle_.out(), &error), &error)
        .value();
  }
  /// An implementation of a contract with its declarations.
  explicit Implementation(const Contract &contract) {
    witrpc_error *error = nullptr;
    detail::ended(witrpc_implementation_of(contract.get(), handle_.out(), &error), &error).value();
  }

  /// Has a method carried out by a function of its values: `[](int a, int b) { return a + b; }`. A
  /// first parameter `const Request &` says who calls. What it throws fails the call, with the text
  /// of what() as details; arguments that do not fit its parameters do too.
  ///
  /// It runs on threads for blocking work, several calls at once.
  template <class F> Implementation &handle(const std::string &method, F &&handler) {
    return handle_request(method, [handler = std::decay_t<F>(std::forward<F>(handler))](
                                      Request request) mutable { answer(handler, request); });
  }
  /// Has a method carried out by a function that answers the request itself, now or later: `void
  /// handler(Request)`.
  template <class F> Implementation &handle_request(const std::string &method, F &&handler) {
    using Box = std::decay_t<F>;
    witrpc_error *error = nullptr;
    detail::ended(
        witrpc_implementation_handle(
            handle_.get(), method.c_str(),
            [](void *self, witrpc_request *raw) noexcept { run(*static_cast<Box *>(self), raw); },
            detail::box(std::forward<F>(handler)), detail::destroy<Box>, &error),
        &error)
        .value();
    return *this;
  }
  /// The handle of the C interface; stays this object's.
  witrpc_implementation *get() const noexcept { return handle_.get(); }

private:
  template <class F> static void run(F &handler, witrpc_request *raw) {
#if WITRPC_HAS_EXCEPTIONS
    // Who owns the request when an exception comes out is not known: its handle is, and fails the
    // call unless that has ended.
    try {
      handler(Request(raw));
    } catch (...) {
      witrpc_request_free(raw);
    }
#else
    handler(Request(raw));
#endif
  }

  template <class F> static void answer(F &handler, Request &request) {
    using Signature = detail::Signature<F>;
    auto values = Signature::decode(request.arguments());
    if (!values) return request.fail(values.error().what());
    const auto call = [&](auto &&...items) -> decltype(auto) {
      if constexpr (Signature::wants_request)
        return handler(static_cast<const Request &>(request),
                       std::forward<decltype(items)>(items)...);
      else
        return handler(std::forward<decltype(items)>(items)...);
    };
#if WITRPC_HAS_EXCEPTIONS
    try {
#endif
      if constexpr (std::is_void_v<typename Signature::Return>) {
        std::apply(call, std::move(*values));
        request.reply();
      } else {
        request.reply(std::apply(call, std::move(*values)));
      }
#if WITRPC_HAS_EXCEPTIONS
    } catch (const std::exception &problem) {
      request.fail(problem.what());
    } catch (...) {
      request.fail("the handler threw");
    }
#endif
  }

  detail::Handle<witrpc_implementation, witrpc_implementation_free> handle_;
};

/// A token to be checked, now or later, on any thread. Move-only; destroyed without an answer, it
/// refuses the token.
class Check {
public:
  /// Takes over a handle of the C interface.
  explicit Check(witrpc_check *raw) noexcept : handle_(raw) {}
  /// The token; valid until the check is ended. Empty where the client has none.
  std::string_view token() const noexcept { return view(witrpc_check_token(handle_.get())); }
  /// Address and port of the client, or "local" at a pipe; valid until the check is ended.
  std::string_view peer() const noexcept { return view(witrpc_check_peer(handle_.get())); }
  /// Accepts the token and names its bearer; never by the token itself, because tokens change.
  void accept(const std::string &principal = {}) {
    detail::check(witrpc_check_accept(handle_.get(), principal.c_str()));
    handle_.release();
  }
  /// Refuses the token.
  void refuse() {
    detail::check(witrpc_check_refuse(handle_.get()));
    handle_.release();
  }

private:
  static std::string_view view(const char *text) noexcept { return text ? text : ""; }
  detail::Handle<witrpc_check, witrpc_check_free> handle_;
};

/// The options of servers; what they mean and their defaults stand at the functions of the same
/// name in witrpc.h. Setters return the object, and throw as those of ClientOptions. Move-only.
class ServerOptions {
public:
  /// A server that listens at `endpoint`, as "tcp://127.0.0.1:5000"; port 0 picks a free one.
  explicit ServerOptions(const std::string &endpoint) {
    witrpc_error *error = nullptr;
    detail::ended(witrpc_server_options_new(endpoint.c_str(), handle_.out(), &error), &error)
        .value();
  }
  /// Listens at one more endpoint.
  ServerOptions &endpoint(const std::string &endpoint) {
    return set(witrpc_server_options_add_endpoint, endpoint.c_str());
  }
  /// Serves an implementation, as it is now. Several are allowed, one is needed.
  ServerOptions &serve(const Implementation &implementation) {
    return set(witrpc_server_options_serve,
               static_cast<const witrpc_implementation *>(implementation.get()));
  }
  /// Has handlers run by `loop`.dispatch(), one at a time, instead of on threads, side by side.
  ServerOptions &loop(const EventLoop &loop) {
    return set(witrpc_server_options_loop, static_cast<const witrpc_loop *>(loop.get()));
  }
  /// How arguments and results are encoded. Default JSON.
  ServerOptions &codec(Codec codec) {
    return set(witrpc_server_options_codec, static_cast<std::int32_t>(codec));
  }
  /// Connections at the same time. Default 10,000.
  ServerOptions &max_clients(std::size_t clients) {
    return set(witrpc_server_options_max_clients, clients);
  }
  /// Largest message accepted, in bytes: authorised, and before. Default 256 MiB and 64 KiB.
  ServerOptions &max_frame(std::size_t bytes, std::size_t handshake_bytes) {
    return set(witrpc_server_options_max_frame, bytes, handshake_bytes);
  }
  /// Calls that run at the same time: of one connection, and of all. Default 256 and 65,536.
  ServerOptions &max_in_flight(std::size_t per_connection, std::size_t in_all) {
    return set(witrpc_server_options_max_in_flight, per_connection, in_all);
  }
  /// Runs the calls of one connection one after another, as WitRPC does.
  ServerOptions &ordered_per_connection() {
    return set(witrpc_server_options_ordered_per_connection);
  }
  /// Time from accepting a connection until it must be authorised. Default 30 s.
  ServerOptions &handshake_timeout(Limit limit) {
    return set(witrpc_server_options_handshake_timeout_ms, limit.milliseconds());
  }
  /// Bytes that may wait for a client that does not read. Default 64 MiB.
  ServerOptions &max_unsent_bytes(std::size_t bytes) {
    return set(witrpc_server_options_max_unsent_bytes, bytes);
  }
  /// Bounds of the memory of calls: records, bytes of answers, how long, and the biggest answer.
  /// Default 65,536, 64 MiB, 10 min and 1 MiB.
  ServerOptions &dedup(std::size_t max_records, std::size_t max_bytes, Limit hold,
                       std::size_t max_answer) {
    return set(witrpc_server_options_dedup, max_records, max_bytes, hold.milliseconds(),
               max_answer);
  }
  /// Permissions of the socket file of pipe://. Default 0600.
  ServerOptions &pipe_mode(std::uint32_t mode) {
    return set(witrpc_server_options_pipe_mode, mode);
  }
  /// WitRPC's own encryption; clients must be set alike. Default off.
  ServerOptions &encryption(bool on = true) { return set(witrpc_server_options_encryption, on); }
  /// Accepts only this token.
  ServerOptions &token(const std::string &token) {
    return set(witrpc_server_options_token, token.c_str());
  }
  /// Accepts only the token in a file, which is looked at for every check.
  ServerOptions &token_file(const std::string &path) {
    return set(witrpc_server_options_token_file, path.c_str());
  }
  /// Asks whether a token is good, at the handshake and for every call: `void validator(Check)`. It
  /// may block, and may answer later; an exception refuses the token.
  template <class F> ServerOptions &validator(F &&validator) {
    using Box = std::decay_t<F>;
    detail::check(witrpc_server_options_validator_async(
        handle_.get(),
        [](void *self, witrpc_check *raw) noexcept {
#if WITRPC_HAS_EXCEPTIONS
          try {
#endif
            (*static_cast<Box *>(self))(Check(raw));
#if WITRPC_HAS_EXCEPTIONS
          } catch (...) {
            witrpc_check_free(raw);
          }
#endif
        },
        detail::box(std::forward<F>(validator)), detail::destroy<Box>));
    return *this;
  }
  /// Tells of each execution, before the handler begins: `void f(std::string_view method, const
  /// Guid &id)`. Must not block; an exception ends the program.
  template <class F> ServerOptions &on_execute(F &&f) {
    using Box = std::decay_t<F>;
    detail::check(witrpc_server_options_on_execute(
        handle_.get(),
        [](void *self, const char *method, const std::uint8_t *id) noexcept {
          Guid guid;
          std::copy(id, id + guid.bytes.size(), guid.bytes.begin());
          (*static_cast<Box *>(self))(std::string_view(method), static_cast<const Guid &>(guid));
        },
        detail::box(std::forward<F>(f)), detail::destroy<Box>));
    return *this;
  }
  /// Certificate and key of tls:// and wss://, and the authorities that clients' certificates must
  /// come from (empty = they need none), as the texts of PEM files.
  ServerOptions &tls(std::string_view certificate, std::string_view key,
                     std::string_view client_authorities = {}) {
    return set(witrpc_server_options_tls, certificate.data(), certificate.size(), key.data(),
               key.size(), client_authorities.data(), client_authorities.size());
  }
  /// The same from files, which are read when a server is started.
  ServerOptions &tls_files(const std::string &certificate, const std::string &key,
                           const std::string &client_authorities = {}) {
    return set(witrpc_server_options_tls_files, certificate.c_str(), key.c_str(),
               client_authorities.empty() ? nullptr : client_authorities.c_str());
  }
  /// The handle of the C interface; stays this object's.
  witrpc_server_options *get() const noexcept { return handle_.get(); }

private:
  template <class... P, class... A>
  ServerOptions &set(std::int32_t (*f)(witrpc_server_options *, P...), A... a) {
    detail::check(f(handle_.get(), a...));
    return *this;
  }
  detail::Handle<witrpc_server_options, witrpc_server_options_free> handle_;
};

/// A running server. Move-only; any thread.
///
/// The destructor stops at once, without waiting for answers, but waits until handlers that are
/// running have returned, so that what they refer to may go; from a handler it does not wait.
class Server {
public:
  /// Binds the endpoints and accepts clients. Not from a handler.
  explicit Server(const ServerOptions &options) : Server(start(options).value()) {}
  /// The same with the failure as a result.
  static Result<Server> start(const ServerOptions &options) {
    Server server;
    witrpc_error *error = nullptr;
    auto started =
        detail::ended(witrpc_server_start(options.get(), server.handle_.out(), &error), &error);
    if (!started) return started.error();
    return server;
  }
  /// Takes over what `other` owns.
  Server(Server &&other) noexcept = default;
  /// Ends what it owns, and takes over what `other` does.
  Server &operator=(Server &&other) noexcept {
    if (this != &other) {
      end();
      handle_ = std::move(other.handle_);
    }
    return *this;
  }
  ~Server() { end(); }

  /// Where it listens, with the port that it was given: its `index`-th endpoint.
  std::string endpoint(std::size_t index = 0) const {
    Buffer text;
    detail::check(witrpc_server_endpoint(handle_.get(), index, text.out()));
    return std::string(text.text());
  }
  /// Raises an event to all clients that are connected and authorised. Never blocks.
  template <class... A>
  void raise(const std::string &contract, const std::string &event, const A &...values) const {
    witrpc_error *error = nullptr;
    const std::string json = detail::arguments(values...);
    detail::ended(
        witrpc_server_raise(handle_.get(), contract.c_str(), event.c_str(), json.c_str(), &error),
        &error)
        .value();
  }
  /// What it has done and does.
  witrpc_server_stats stats() const {
    witrpc_server_stats stats = WITRPC_SERVER_STATS_INIT;
    detail::check(witrpc_server_stats_get(handle_.get(), &stats));
    return stats;
  }
  /// Stops in order: lets running calls finish and their answers leave. False if something had to
  /// be abandoned after `limit`. Throws Status::WouldDeadlock from a handler.
  bool stop(Limit limit) const {
    const std::int32_t status = witrpc_server_stop(handle_.get(), limit.milliseconds());
    if (status == WITRPC_TIMEOUT) return false;
    detail::check(status);
    return true;
  }
  /// The handle of the C interface; stays this object's.
  witrpc_server *get() const noexcept { return handle_.get(); }

private:
  Server() = default;
  void end() noexcept {
    if (handle_) (void)witrpc_server_close_and_wait(handle_.get(), WITRPC_NO_TIMEOUT);
    handle_.reset();
  }
  detail::Handle<witrpc_server, witrpc_server_free> handle_;
};

} // namespace witrpc

#endif
