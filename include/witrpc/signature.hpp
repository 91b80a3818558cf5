/// @file
/// What a lambda's parameters say. Nothing here is for users.
#ifndef WITRPC_SIGNATURE_HPP
#define WITRPC_SIGNATURE_HPP

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <witrpc/value.hpp>

namespace witrpc {

class Request;

namespace detail {

/// Parameters and result of a function.
template <class R, bool WantsRequest, class... A> struct Plain {
  using Return = R;
  /// Its first parameter is the request, which is no value.
  static constexpr bool wants_request = WantsRequest;
  static Result<std::tuple<std::decay_t<A>...>> decode(std::string_view json) {
    return decode_all<std::decay_t<A>...>(json);
  }
};

template <class R, class... A> struct Parameters : Plain<R, false, A...> {};
template <class R, class... A>
struct Parameters<R, const Request &, A...> : Plain<R, true, A...> {};

/// The one operator() of a lambda or function object.
template <class F> struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A> struct Signature<R (*)(A...)> : Parameters<R, A...> {};
template <class R, class... A> struct Signature<R (*)(A...) noexcept> : Parameters<R, A...> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...)> : Parameters<R, A...> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Parameters<R, A...> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) noexcept> : Parameters<R, A...> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const noexcept> : Parameters<R, A...> {};

} // namespace detail
} // namespace witrpc

#endif
