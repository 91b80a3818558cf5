/// @file
/// libwitrpc for C++17 and later: a header-only layer over witrpc.h.
///
///     #include <witrpc.hpp>
///
///     witrpc::ClientOptions options("tcp://127.0.0.1:5100");
///     options.reconnect().mark_deduplicated("Add");
///     witrpc::Client client(options);
///     client.connect();
///     int sum = client.service("Demo.IEcho").call<int>("int Add(int a, int b)", 2, 3);
///
/// Objects own what they stand for and can only be moved. Operations throw witrpc::Error; those
/// named try_… return a witrpc::Result instead. Lambdas are callbacks and handlers; durations are
/// std::chrono's. Link with libwitrpc (`witrpc::witrpc` in CMake, `witrpc` in pkg-config).
///
/// docs/cpp.md is the guide; witrpc.h has the last word on what each function does.
#ifndef WITRPC_HPP
#define WITRPC_HPP

#include <witrpc/client.hpp>
#include <witrpc/coroutine.hpp>
#include <witrpc/error.hpp>
#include <witrpc/handle.hpp>
#include <witrpc/json.hpp>
#include <witrpc/loop.hpp>
#include <witrpc/options.hpp>
#include <witrpc/server.hpp>
#include <witrpc/types.hpp>
#include <witrpc/value.hpp>

namespace witrpc {

/// The version of the library that is loaded, as "0.1.0".
inline std::string_view version() noexcept { return witrpc_version(); }

/// True if the library that is loaded can be used with this header.
inline bool abi_fits() noexcept { return WITRPC_CHECK_ABI(); }

/// Ends everything that the library runs, and waits for it; false if that took longer than `limit`.
/// A program need not call it; a leak checker is glad of it. Throws Status::WouldDeadlock from a
/// callback or handler.
inline bool shutdown(Limit limit) {
  const std::int32_t status = witrpc_shutdown(limit.milliseconds());
  if (status == WITRPC_TIMEOUT) return false;
  detail::check(status);
  return true;
}

} // namespace witrpc

#endif
