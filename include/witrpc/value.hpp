/// @file
/// C++ values as JSON text and back: which C++ type stands for which .NET type, and how your own
/// types join in.
///
/// | .NET | C++ |
/// |---|---|
/// | bool, integers, float, double | the same; `char` and its kin are refused, as they say no
/// number | | char | char16_t | | string | std::string, as an argument also std::string_view and
/// `const char *` | | decimal | witrpc::Decimal | | Guid | witrpc::Guid | | DateTime,
/// DateTimeOffset | witrpc::DateTime, any time point of std::chrono::system_clock | | TimeSpan |
/// any std::chrono::duration | | byte[] | std::vector<std::uint8_t>, std::vector<std::byte> | |
/// arrays, lists, sets | std::vector, std::array, std::deque, std::list, std::set,
/// std::unordered_set | | dictionaries | std::map, std::unordered_map with keys of text, numbers,
/// Guid | | tuples, KeyValuePair | std::tuple, std::pair | | enums (as numbers) | any enum | | X? |
/// std::optional, std::unique_ptr, std::shared_ptr | | classes, structs | your struct, with
/// #WITRPC_FIELDS or a `witrpc_fields` function | | anything | witrpc::Json, the text as it is |
///
/// A type of which none of this is true can be given a `witrpc::Convert<T>` of its own.
#ifndef WITRPC_VALUE_HPP
#define WITRPC_VALUE_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <witrpc/error.hpp>
#include <witrpc/forms.hpp>
#include <witrpc/handle.hpp>
#include <witrpc/json.hpp>
#include <witrpc/types.hpp>

namespace witrpc {

/// How a type is written and read. Specialise it for types that need a form of their own:
///
///     template <> struct witrpc::Convert<Temperature> {
///       static void write(witrpc::Writer &out, const Temperature &value);
///       static bool read(witrpc::Reader &in, Temperature &value);  // false after in.fail(...)
///     };
template <class T, class = void> struct Convert;

/// A member of a struct: its .NET name and where it is.
template <class C, class T> struct Field {
  const char *name; ///< The name that .NET knows it by.
  T C::*member;     ///< Where it is.
};

/// Names a member, for a `witrpc_fields` function where #WITRPC_FIELDS does not do, because names
/// differ:
///
///     inline auto witrpc_fields(const Person *) {
///       return std::make_tuple(witrpc::field("Name", &Person::name),
///                              witrpc::field("Born", &Person::born));
///     }
template <class C, class T> constexpr Field<C, T> field(const char *name, T C::*member) {
  return { name, member };
}

namespace detail {

template <class T, class = void> struct HasFields : std::false_type {};
template <class T>
struct HasFields<T, std::void_t<decltype(witrpc_fields(static_cast<const T *>(nullptr)))>>
    : std::true_type {};

template <class T>
inline constexpr bool is_character =
    std::is_same_v<T, char> || std::is_same_v<T, signed char> || std::is_same_v<T, wchar_t> ||
    std::is_same_v<T, char16_t> || std::is_same_v<T, char32_t>;

template <class T, class = void> struct IsSequence : std::false_type {};
template <class T>
struct IsSequence<
    T, std::void_t<typename T::value_type, decltype(std::declval<T &>().clear()),
                   decltype(std::declval<T &>().insert(std::declval<T &>().end(),
                                                       std::declval<typename T::value_type>()))>>
    : std::true_type {};
template <class T, class = void> struct IsMap : std::false_type {};
template <class T>
struct IsMap<T, std::void_t<typename T::key_type, typename T::mapped_type>> : std::true_type {};
template <class T> struct IsPointer : std::false_type {};
template <class T> struct IsPointer<std::unique_ptr<T>> : std::true_type {};
template <class T> struct IsPointer<std::shared_ptr<T>> : std::true_type {};
template <class T>
inline constexpr bool is_text = std::is_convertible_v<const T &, std::string_view>;

template <class T> void write(Writer &out, const T &value) { Convert<T>::write(out, value); }
template <class T> bool read(Reader &in, T &value) { return Convert<T>::read(in, value); }

/// A key of a dictionary as the text that JSON wants.
template <class K> std::string key_text(const K &key) {
  if constexpr (std::is_same_v<K, Guid>) {
    return key.to_string();
  } else if constexpr (std::is_integral_v<K>) {
    return std::to_string(key);
  } else {
    static_assert(is_text<K>, "witrpc: keys of dictionaries are texts, integers or Guids");
    return std::string(std::string_view(key));
  }
}

template <class K> bool parse_key(Reader &in, const std::string &text, K &key) {
  if constexpr (std::is_same_v<K, Guid>) {
    const auto guid = Guid::parse(text);
    if (!guid) return in.fail("a key that is no Guid");
    key = *guid;
  } else if constexpr (std::is_integral_v<K>) {
    const char *last = text.data() + text.size();
    const auto [end, problem] = std::from_chars(text.data(), last, key);
    if (problem != std::errc() || end != last)
      return in.fail("a key that is no integer, or does not fit");
  } else {
    key = K(text);
  }
  return true;
}

/// Items of a tuple or pair: an array of them, or an object with Item1, Item2 … or Key and Value.
template <class T, std::size_t... I>
bool read_items(Reader &in, T &value, std::index_sequence<I...>) {
  const auto item = [&in, &value](std::size_t index) {
    bool known = false, good = true;
    (void)((index == I ? (known = true, good = read(in, std::get<I>(value)), true) : false) || ...);
    return known ? good : in.fail("more items than the tuple has");
  };
  if (in.peek() == '[') {
    std::size_t count = 0;
    const auto counted = [&](std::size_t index) { return count = index + 1, item(index); };
    if (!in.array(counted)) return false;
    return count == sizeof...(I) ? true : in.fail("fewer items than the tuple has");
  }
  return in.object(
      [&](const std::string &name) {
        std::size_t index = 0;
        if (name == "Key") return item(0);
        if (name == "Value") return item(1);
        if (name.size() > 4 && name.compare(0, 4, "Item") == 0 &&
            std::from_chars(name.data() + 4, name.data() + name.size(), index).ec == std::errc() &&
            index > 0)
          return item(index - 1);
        return in.skip();
      },
      "a tuple");
}

template <class T, std::size_t... I>
void write_items(Writer &out, const T &value, std::index_sequence<I...>) {
  out.raw('[');
  ((I ? out.raw(',') : void(), write(out, std::get<I>(value))), ...);
  out.raw(']');
}

} // namespace detail

/// @cond conversions that are part of the table above

template <> struct Convert<bool> {
  static void write(Writer &out, bool value) { out.raw(value ? "true" : "false"); }
  static bool read(Reader &in, bool &value) {
    value = in.take_word("true");
    return value || in.take_word("false") || (in.ok() && in.expected("a bool"));
  }
};

template <class T>
struct Convert<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static_assert(!detail::is_character<T> || std::is_same_v<T, char16_t> ||
                    std::is_same_v<T, signed char>,
                "witrpc: use int8_t or uint8_t for numbers, char16_t for a character");
  static void write(Writer &out, T value) {
    if constexpr (std::is_same_v<T, char16_t>) {
      static constexpr char digits[] = "0123456789abcdef";
      out.raw("\"\\u");
      for (int shift = 12; shift >= 0; shift -= 4) out.raw(digits[(value >> shift) & 15]);
      out.raw('"');
    } else {
      out.number(value);
    }
  }
  static bool read(Reader &in, T &value) {
    if constexpr (std::is_same_v<T, char16_t>) {
      std::string text;
      if (!in.string(text, "a character")) return false;
      const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
      if (text.size() == 1)
        value = byte(0);
      else if (text.size() == 2)
        value = static_cast<char16_t>((byte(0) & 31) << 6 | (byte(1) & 63));
      else if (text.size() == 3)
        value = static_cast<char16_t>((byte(0) & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63));
      else
        return in.fail("a text that is not one character");
      return true;
    } else {
      return in.integer(value);
    }
  }
};

template <class T> struct Convert<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static_assert(sizeof(T) <= sizeof(double), "witrpc: use double instead of long double");
  static void write(Writer &out, T value) { out.number(value); }
  static bool read(Reader &in, T &value) {
    double wide = 0;
    if (!in.floating(wide)) return false;
    value = static_cast<T>(wide);
    return true;
  }
};

template <class T>
struct Convert<T, std::enable_if_t<std::is_enum_v<T> && !std::is_same_v<T, std::byte>>> {
  using Number = std::underlying_type_t<T>;
  static void write(Writer &out, T value) { out.number(static_cast<Number>(value)); }
  static bool read(Reader &in, T &value) {
    Number number{};
    if (!in.integer(number)) return false;
    value = static_cast<T>(number);
    return true;
  }
};

template <> struct Convert<std::nullptr_t> {
  static void write(Writer &out, std::nullptr_t) { out.raw("null"); }
};
template <> struct Convert<std::nullopt_t> {
  static void write(Writer &out, std::nullopt_t) { out.raw("null"); }
};

template <class T> struct Convert<T, std::enable_if_t<detail::is_text<T>>> {
  static void write(Writer &out, const T &value) {
    if constexpr (std::is_pointer_v<T>) {
      if (!value) return out.raw("null");
    }
    out.string(std::string_view(value));
  }
  static bool read(Reader &in, T &value) {
    static_assert(std::is_same_v<T, std::string>,
                  "witrpc: read text into a std::string, which owns it");
    return in.string(value);
  }
};

template <> struct Convert<Json> {
  static void write(Writer &out, const Json &value) { out.raw(value.text); }
  static bool read(Reader &in, Json &value) {
    std::string_view text;
    if (!in.raw(text)) return false;
    value.text = text;
    return true;
  }
};

template <> struct Convert<Decimal> {
  static void write(Writer &out, const Decimal &value) { out.raw(value.digits); }
  static bool read(Reader &in, Decimal &value) {
    std::string_view digits;
    if (!in.number(digits, "a decimal")) return false;
    value.digits = digits;
    return true;
  }
};

template <> struct Convert<Guid> {
  static void write(Writer &out, const Guid &value) { out.string(value.to_string()); }
  static bool read(Reader &in, Guid &value) {
    std::string text;
    if (!in.string(text, "a Guid")) return false;
    const auto guid = Guid::parse(text);
    if (!guid) return in.fail("no Guid");
    value = *guid;
    return true;
  }
};

template <class Rep, class Period> struct Convert<std::chrono::duration<Rep, Period>> {
  using T = std::chrono::duration<Rep, Period>;
  static void write(Writer &out, T value) {
    out.string(detail::time_span_text(std::chrono::duration_cast<Ticks>(value).count()));
  }
  static bool read(Reader &in, T &value) {
    std::string text;
    std::int64_t ticks = 0;
    if (!in.string(text, "a TimeSpan")) return false;
    if (!detail::parse_time_span(text, ticks)) return in.fail("no TimeSpan");
    value = std::chrono::duration_cast<T>(Ticks(ticks));
    return true;
  }
};

template <class D> struct Convert<std::chrono::time_point<std::chrono::system_clock, D>> {
  using T = std::chrono::time_point<std::chrono::system_clock, D>;
  static void write(Writer &out, T value) {
    const auto since = std::chrono::floor<Ticks>(value).time_since_epoch();
    out.string(detail::date_time_text(since.count()));
  }
  static bool read(Reader &in, T &value) {
    std::string text;
    std::int64_t ticks = 0;
    if (!in.string(text, "a DateTime")) return false;
    if (!detail::parse_date_time(text, ticks)) return in.fail("no DateTime");
    value = T(std::chrono::duration_cast<D>(Ticks(ticks)));
    return true;
  }
};

template <class T> struct Convert<std::optional<T>> {
  static void write(Writer &out, const std::optional<T> &value) {
    if (value)
      detail::write(out, *value);
    else
      out.raw("null");
  }
  static bool read(Reader &in, std::optional<T> &value) {
    if (in.take_word("null")) return value.reset(), true;
    return detail::read(in, value.emplace());
  }
};

template <class T> struct Convert<T, std::enable_if_t<detail::IsPointer<T>::value>> {
  static void write(Writer &out, const T &value) {
    if (value)
      detail::write(out, *value);
    else
      out.raw("null");
  }
  static bool read(Reader &in, T &value) {
    value.reset();
    if (in.take_word("null")) return true;
    auto made = std::make_unique<typename T::element_type>();
    if (!detail::read(in, *made)) return false;
    value = std::move(made);
    return true;
  }
};

template <class T>
struct Convert<T, std::enable_if_t<detail::IsSequence<T>::value && !detail::IsMap<T>::value &&
                                   !detail::is_text<T>>> {
  using Item = typename T::value_type;
  static constexpr bool is_bytes =
      std::is_same_v<T, std::vector<std::uint8_t>> || std::is_same_v<T, std::vector<std::byte>>;
  static void write(Writer &out, const T &value) {
    if constexpr (is_bytes) {
      detail::write_base64(out, value);
    } else {
      bool first = true;
      out.raw('[');
      for (const Item &item : value) {
        if (!std::exchange(first, false)) out.raw(',');
        detail::write(out, item);
      }
      out.raw(']');
    }
  }
  static bool read(Reader &in, T &value) {
    if constexpr (is_bytes) {
      return detail::read_base64(in, value);
    } else {
      value.clear();
      return in.array([&](std::size_t) {
        Item item{};
        if (!detail::read(in, item)) return false;
        value.insert(value.end(), std::move(item));
        return true;
      });
    }
  }
};

template <class T, std::size_t N> struct Convert<std::array<T, N>> {
  static void write(Writer &out, const std::array<T, N> &value) {
    out.raw('[');
    for (std::size_t i = 0; i < N; ++i) {
      if (i) out.raw(',');
      detail::write(out, value[i]);
    }
    out.raw(']');
  }
  static bool read(Reader &in, std::array<T, N> &value) {
    std::size_t count = 0;
    const bool good = in.array([&](std::size_t i) {
      count = i + 1;
      return i < N ? detail::read(in, value[i]) : in.fail("more items than the array has");
    });
    return good && (count == N || in.fail("fewer items than the array has"));
  }
};

template <class T> struct Convert<T, std::enable_if_t<detail::IsMap<T>::value>> {
  static void write(Writer &out, const T &value) {
    bool first = true;
    out.raw('{');
    for (const auto &[key, item] : value) {
      if (!std::exchange(first, false)) out.raw(',');
      out.string(detail::key_text(key));
      out.raw(':');
      detail::write(out, item);
    }
    out.raw('}');
  }
  static bool read(Reader &in, T &value) {
    value.clear();
    return in.object([&](const std::string &name) {
      typename T::key_type key{};
      typename T::mapped_type item{};
      if (!detail::parse_key(in, name, key) || !detail::read(in, item)) return false;
      value.insert_or_assign(std::move(key), std::move(item));
      return true;
    });
  }
};

template <class A, class B> struct Convert<std::pair<A, B>> {
  using T = std::pair<A, B>;
  static void write(Writer &out, const T &value) {
    detail::write_items(out, value, std::index_sequence_for<A, B>());
  }
  static bool read(Reader &in, T &value) {
    return detail::read_items(in, value, std::index_sequence_for<A, B>());
  }
};

template <class... A> struct Convert<std::tuple<A...>> {
  static_assert(sizeof...(A) > 0 && sizeof...(A) < 8, "witrpc: tuples have one to seven items");
  using T = std::tuple<A...>;
  static void write(Writer &out, const T &value) {
    detail::write_items(out, value, std::index_sequence_for<A...>());
  }
  static bool read(Reader &in, T &value) {
    return detail::read_items(in, value, std::index_sequence_for<A...>());
  }
};

template <class T> struct Convert<T, std::enable_if_t<detail::HasFields<T>::value>> {
  static void write(Writer &out, const T &value) {
    bool first = true;
    out.raw('{');
    std::apply(
        [&](const auto &...fields) {
          ((std::exchange(first, false) ? void() : out.raw(','), out.string(fields.name),
            out.raw(':'), detail::write(out, value.*fields.member)),
           ...);
        },
        witrpc_fields(&value));
    out.raw('}');
  }
  static bool read(Reader &in, T &value) {
    const auto fields = witrpc_fields(static_cast<const T *>(nullptr));
    return in.object([&](const std::string &name) {
      bool known = false, good = true;
      std::apply(
          [&](const auto &...field) {
            (void)((name == field.name
                        ? (known = true, good = detail::read(in, value.*field.member), true)
                        : false) ||
                   ...);
          },
          fields);
      return known ? good : in.skip();
    });
  }
};

/// @endcond

namespace detail {

/// The JSON array of a call's arguments.
template <class... A> std::string arguments(const A &...values) {
  std::string text;
  Writer out(text);
  [[maybe_unused]] bool first = true;
  out.raw('[');
  ((std::exchange(first, false) ? void() : out.raw(','), write<std::decay_t<const A>>(out, values)),
   ...);
  out.raw(']');
  return text;
}

/// A result of a call from its text.
template <class T> Result<T> decode(std::string_view text, Outcome outcome = Outcome::Answered) {
  static_assert(!std::is_same_v<T, std::string_view>,
                "witrpc: use std::string, which owns its text");
  Reader in(text);
  Result<T> value{ T{} };
  if (read(in, *value) && in.end()) return value;
  return Error(Status::InvalidArgument, "the value does not fit the C++ type", in.error(), outcome);
}

/// The values of a JSON array, one for each item of a tuple.
template <class... A> Result<std::tuple<A...>> decode_all(std::string_view text) {
  Reader in(text);
  Result<std::tuple<A...>> values{ std::tuple<A...>{} };
  if constexpr (sizeof...(A) == 0) {
    if (in.array([&in](std::size_t) { return in.fail("more values than parameters"); }) && in.end())
      return values;
  } else {
    if (in.peek() == '[' && read_items(in, *values, std::index_sequence_for<A...>()) && in.end())
      return values;
  }
  return Error(Status::InvalidArgument, "the values do not fit the C++ parameters", in.error());
}

} // namespace detail
} // namespace witrpc

/// Makes a struct a value: WITRPC_FIELDS(Person, Name, Born). Stands after the struct, in its
/// namespace; the members' names are those of .NET. Up to 24 members; a `witrpc_fields` function
/// (see witrpc::field) knows no limit.
#define WITRPC_FIELDS(Type, ...)                                                                   \
  [[maybe_unused]] inline auto witrpc_fields(const Type *) {                                       \
    return ::std::make_tuple(WITRPC_DETAIL_EACH(Type, __VA_ARGS__));                               \
  }

/// @cond
#define WITRPC_DETAIL_FIELD(T, f) ::witrpc::field(#f, &T::f)
#define WITRPC_DETAIL_EXPAND(x) x
#define WITRPC_DETAIL_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16,  \
                           _17, _18, _19, _20, _21, _22, _23, _24, NAME, ...)                      \
  NAME
#define WITRPC_DETAIL_EACH(T, ...)                                                                 \
  WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_PICK(                                                         \
      __VA_ARGS__, WITRPC_DETAIL_24, WITRPC_DETAIL_23, WITRPC_DETAIL_22, WITRPC_DETAIL_21,         \
      WITRPC_DETAIL_20, WITRPC_DETAIL_19, WITRPC_DETAIL_18, WITRPC_DETAIL_17, WITRPC_DETAIL_16,    \
      WITRPC_DETAIL_15, WITRPC_DETAIL_14, WITRPC_DETAIL_13, WITRPC_DETAIL_12, WITRPC_DETAIL_11,    \
      WITRPC_DETAIL_10, WITRPC_DETAIL_9, WITRPC_DETAIL_8, WITRPC_DETAIL_7, WITRPC_DETAIL_6,        \
      WITRPC_DETAIL_5, WITRPC_DETAIL_4, WITRPC_DETAIL_3, WITRPC_DETAIL_2, WITRPC_DETAIL_1,         \
      WITRPC_DETAIL_0)(T, __VA_ARGS__))
#define WITRPC_DETAIL_1(T, f) WITRPC_DETAIL_FIELD(T, f)
#define WITRPC_DETAIL_2(T, f, ...)                                                                 \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_1(T, __VA_ARGS__))
#define WITRPC_DETAIL_3(T, f, ...)                                                                 \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_2(T, __VA_ARGS__))
#define WITRPC_DETAIL_4(T, f, ...)                                                                 \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_3(T, __VA_ARGS__))
#define WITRPC_DETAIL_5(T, f, ...)                                                                 \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_4(T, __VA_ARGS__))
#define WITRPC_DETAIL_6(T, f, ...)                                                                 \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_5(T, __VA_ARGS__))
#define WITRPC_DETAIL_7(T, f, ...)                                                                 \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_6(T, __VA_ARGS__))
#define WITRPC_DETAIL_8(T, f, ...)                                                                 \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_7(T, __VA_ARGS__))
#define WITRPC_DETAIL_9(T, f, ...)                                                                 \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_8(T, __VA_ARGS__))
#define WITRPC_DETAIL_10(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_9(T, __VA_ARGS__))
#define WITRPC_DETAIL_11(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_10(T, __VA_ARGS__))
#define WITRPC_DETAIL_12(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_11(T, __VA_ARGS__))
#define WITRPC_DETAIL_13(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_12(T, __VA_ARGS__))
#define WITRPC_DETAIL_14(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_13(T, __VA_ARGS__))
#define WITRPC_DETAIL_15(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_14(T, __VA_ARGS__))
#define WITRPC_DETAIL_16(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_15(T, __VA_ARGS__))
#define WITRPC_DETAIL_17(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_16(T, __VA_ARGS__))
#define WITRPC_DETAIL_18(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_17(T, __VA_ARGS__))
#define WITRPC_DETAIL_19(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_18(T, __VA_ARGS__))
#define WITRPC_DETAIL_20(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_19(T, __VA_ARGS__))
#define WITRPC_DETAIL_21(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_20(T, __VA_ARGS__))
#define WITRPC_DETAIL_22(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_21(T, __VA_ARGS__))
#define WITRPC_DETAIL_23(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_22(T, __VA_ARGS__))
#define WITRPC_DETAIL_24(T, f, ...)                                                                \
  WITRPC_DETAIL_FIELD(T, f), WITRPC_DETAIL_EXPAND(WITRPC_DETAIL_23(T, __VA_ARGS__))
/// @endcond

#endif
