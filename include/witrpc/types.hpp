/// @file
/// .NET's built-in types that C++ has no word for: Guid, Decimal, Json; and the ticks in which its
/// times count.
#ifndef WITRPC_TYPES_HPP
#define WITRPC_TYPES_HPP

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <ratio>
#include <string>
#include <string_view>
#include <utility>

namespace witrpc {

/// 100 ns, the unit of .NET's times.
using Ticks = std::chrono::duration<std::int64_t, std::ratio<1, 10'000'000>>;

/// A moment in UTC, as exact as .NET's DateTime; travels as one. Any other
/// std::chrono::system_clock time point may be used as an argument and as a result too.
using DateTime = std::chrono::time_point<std::chrono::system_clock, Ticks>;

/// JSON text that is passed on as it is, whatever its type.
struct Json {
  /// The text.
  std::string text;
  /// By what they hold.
  friend bool operator==(const Json &a, const Json &b) { return a.text == b.text; }
  /// By what they hold.
  friend bool operator!=(const Json &a, const Json &b) { return !(a == b); }
};

/// A decimal number by its digits, as "12.50": none is lost, and none is added.
struct Decimal {
  /// A JSON number.
  std::string digits = "0";
  /// By what they hold.
  friend bool operator==(const Decimal &a, const Decimal &b) { return a.digits == b.digits; }
  /// By what they hold.
  friend bool operator!=(const Decimal &a, const Decimal &b) { return !(a == b); }
};

/// A Guid: 16 bytes in the order in which it is printed.
struct Guid {
  /// The bytes.
  std::array<std::uint8_t, 16> bytes{};

  /// A random one (version 4), from the system's random device.
  static Guid random() {
    std::random_device source;
    Guid guid;
    for (std::size_t i = 0; i < guid.bytes.size(); i += 4) {
      const std::uint32_t part = static_cast<std::uint32_t>(source());
      for (std::size_t k = 0; k < 4; ++k)
        guid.bytes[i + k] = static_cast<std::uint8_t>(part >> (8 * k));
    }
    guid.bytes[6] = static_cast<std::uint8_t>((guid.bytes[6] & 0x0F) | 0x40);
    guid.bytes[8] = static_cast<std::uint8_t>((guid.bytes[8] & 0x3F) | 0x80);
    return guid;
  }

  /// Reads "00112233-4455-6677-8899-aabbccddeeff"; nothing if it is not of that form.
  static std::optional<Guid> parse(std::string_view text) noexcept {
    if (text.size() != 36) return std::nullopt;
    Guid guid;
    std::size_t at = 0;
    for (std::size_t i = 0; i < 36; ++i) {
      if (i == 8 || i == 13 || i == 18 || i == 23) {
        if (text[i] != '-') return std::nullopt;
        continue;
      }
      const int high = digit(text[i]), low = digit(text[i + 1]);
      if (high < 0 || low < 0) return std::nullopt;
      guid.bytes[at++] = static_cast<std::uint8_t>(high * 16 + low);
      ++i;
    }
    return guid;
  }

  /// As "00112233-4455-6677-8899-aabbccddeeff".
  std::string to_string() const {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(36);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
      text += digits[bytes[i] >> 4];
      text += digits[bytes[i] & 15];
    }
    return text;
  }

  /// By what they hold.
  friend bool operator==(const Guid &a, const Guid &b) { return a.bytes == b.bytes; }
  /// By what they hold.
  friend bool operator!=(const Guid &a, const Guid &b) { return !(a == b); }
  /// By what they hold.
  friend bool operator<(const Guid &a, const Guid &b) { return a.bytes < b.bytes; }

private:
  static constexpr int digit(char c) noexcept {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  }
};

namespace detail {

/// Days since 1970-01-01 of a date of the Gregorian calendar, and back.
constexpr std::int64_t days_of(std::int64_t year, unsigned month, unsigned day) noexcept {
  year -= month <= 2;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const auto of_era = static_cast<unsigned>(year - era * 400);
  const unsigned of_year = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;
  return era * 146097 +
         static_cast<std::int64_t>(of_era * 365 + of_era / 4 - of_era / 100 + of_year) - 719468;
}

struct Date {
  std::int64_t year;
  unsigned month, day;
};

constexpr Date date_of(std::int64_t days) noexcept {
  days += 719468;
  const std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const auto of_era = static_cast<unsigned>(days - era * 146097);
  const unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
  const unsigned shifted = (5 * of_year + 2) / 153;
  const unsigned month = shifted < 10 ? shifted + 3 : shifted - 9;
  return { static_cast<std::int64_t>(year) + era * 400 + (month <= 2), month,
           of_year - (153 * shifted + 2) / 5 + 1 };
}

} // namespace detail
} // namespace witrpc

#endif
