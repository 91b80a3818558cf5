/// @file
/// The text forms of bytes and times: base64, TimeSpan, DateTime. Nothing here is for users; see
/// value.hpp.
#ifndef WITRPC_FORMS_HPP
#define WITRPC_FORMS_HPP

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <witrpc/json.hpp>
#include <witrpc/types.hpp>

namespace witrpc {
namespace detail {

/// Base64 with padding.
template <class Byte> void write_base64(Writer &out, const std::vector<Byte> &bytes) {
  static constexpr char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  out.raw('"');
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    std::uint32_t group = static_cast<std::uint32_t>(bytes[i]) << 16;
    if (left > 1) group |= static_cast<std::uint32_t>(bytes[i + 1]) << 8;
    if (left > 2) group |= static_cast<std::uint32_t>(bytes[i + 2]);
    out.raw(digits[group >> 18]);
    out.raw(digits[(group >> 12) & 63]);
    out.raw(left > 1 ? digits[(group >> 6) & 63] : '=');
    out.raw(left > 2 ? digits[group & 63] : '=');
  }
  out.raw('"');
}

inline int base64_digit(char c) noexcept {
  return c >= 'A' && c <= 'Z'   ? c - 'A'
         : c >= 'a' && c <= 'z' ? c - 'a' + 26
         : c >= '0' && c <= '9' ? c - '0' + 52
         : c == '+'             ? 62
         : c == '/'             ? 63
                                : -1;
}

template <class Byte> bool read_base64(Reader &in, std::vector<Byte> &bytes) {
  std::string text;
  if (!in.string(text, "base64")) return false;
  if (text.size() % 4 != 0) return in.fail("base64 of an odd length");
  bytes.clear();
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const int pads = last ? (text[i + 2] == '=' ? 2 : text[i + 3] == '=' ? 1 : 0) : 0;
    std::uint32_t group = 0;
    for (int k = 0; k < 4; ++k) {
      const int digit = k >= 4 - pads ? (text[i + static_cast<std::size_t>(k)] == '=' ? 0 : -1)
                                      : base64_digit(text[i + static_cast<std::size_t>(k)]);
      if (digit < 0) return in.fail("no base64");
      group = group << 6 | static_cast<std::uint32_t>(digit);
    }
    bytes.push_back(static_cast<Byte>(group >> 16 & 255));
    if (pads < 2) bytes.push_back(static_cast<Byte>(group >> 8 & 255));
    if (pads < 1) bytes.push_back(static_cast<Byte>(group & 255));
  }
  return true;
}

/// Whole numbers in a text such as a time, one after the other.
class Scan {
public:
  explicit Scan(std::string_view text) noexcept : rest_(text) {}
  bool at_end() const noexcept { return rest_.empty(); }
  bool take(char c) noexcept {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool number(std::int64_t &value) noexcept {
    const char *last = rest_.data() + rest_.size();
    if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') return false;
    const auto [end, problem] = std::from_chars(rest_.data(), last, value);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return problem == std::errc();
  }
  /// What may follow a point, in ticks.
  bool fraction(std::int64_t &ticks) noexcept {
    ticks = 0;
    if (!take('.')) return true;
    int digits = 0;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; ++digits) {
      if (digits < 7) ticks = ticks * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    for (int i = digits; i < 7; ++i) ticks *= 10;
    return digits > 0;
  }

private:
  std::string_view rest_;
};

inline constexpr std::int64_t ticks_per_second = 10'000'000, ticks_per_day = 864'000'000'000;

inline std::string clock_text(std::int64_t ticks_of_day) {
  char text[32];
  const std::int64_t seconds = ticks_of_day / ticks_per_second;
  const int fraction = static_cast<int>(ticks_of_day % ticks_per_second);
  const int size =
      std::snprintf(text, sizeof text, "%02d:%02d:%02d", static_cast<int>(seconds / 3600),
                    static_cast<int>(seconds / 60 % 60), static_cast<int>(seconds % 60));
  if (fraction)
    std::snprintf(text + size, sizeof text - static_cast<std::size_t>(size), ".%07d", fraction);
  return text;
}

inline bool read_clock(Scan &scan, std::int64_t &ticks) {
  std::int64_t hours = 0, minutes = 0, seconds = 0, fraction = 0;
  if (!scan.number(hours) || !scan.take(':') || !scan.number(minutes)) return false;
  if (scan.take(':') && (!scan.number(seconds) || !scan.fraction(fraction))) return false;
  if (hours > 24 || minutes > 59 || seconds > 60) return false;
  ticks = ((hours * 60 + minutes) * 60 + seconds) * ticks_per_second + fraction;
  return true;
}

inline std::string time_span_text(std::int64_t ticks) {
  // The most negative number has no positive twin.
  const auto size =
      ticks < 0 ? 0 - static_cast<std::uint64_t>(ticks) : static_cast<std::uint64_t>(ticks);
  std::string text = ticks < 0 ? "-" : "";
  const std::uint64_t days = size / static_cast<std::uint64_t>(ticks_per_day);
  if (days) text += std::to_string(days) + ".";
  return text +
         clock_text(static_cast<std::int64_t>(size % static_cast<std::uint64_t>(ticks_per_day)));
}

inline bool parse_time_span(std::string_view text, std::int64_t &ticks) {
  Scan scan(text);
  const bool negative = scan.take('-');
  std::int64_t days = 0, clock = 0;
  Scan ahead = scan;
  if (ahead.number(days) && ahead.take('.'))
    scan = ahead;
  else
    days = 0;
  if (!read_clock(scan, clock) || !scan.at_end() || days > 10'675'199) return false;
  // Counted downwards, as the most negative number has no positive twin.
  ticks = -days * ticks_per_day - clock;
  if (!negative) ticks = -ticks;
  return true;
}

inline std::string date_time_text(std::int64_t ticks) {
  std::int64_t days = ticks / ticks_per_day, of_day = ticks % ticks_per_day;
  if (of_day < 0) of_day += ticks_per_day, --days;
  const Date date = date_of(days);
  char text[48];
  std::snprintf(text, sizeof text, "%04lld-%02u-%02uT", static_cast<long long>(date.year),
                date.month, date.day);
  return text + clock_text(of_day) + "Z";
}

inline bool parse_date_time(std::string_view text, std::int64_t &ticks) {
  Scan scan(text);
  std::int64_t year = 0, month = 0, day = 0, clock = 0, hours = 0, minutes = 0;
  if (!scan.number(year) || !scan.take('-') || !scan.number(month) || !scan.take('-') ||
      !scan.number(day) || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31)
    return false;
  if (scan.take('T') && !read_clock(scan, clock)) return false;
  ticks = days_of(year, static_cast<unsigned>(month), static_cast<unsigned>(day)) * ticks_per_day +
          clock;
  const bool east = scan.take('+');
  if (east || scan.take('-')) {
    if (!scan.number(hours) || !scan.take(':') || !scan.number(minutes)) return false;
    const std::int64_t offset = (hours * 60 + minutes) * 60 * ticks_per_second;
    ticks += east ? -offset : offset;
  } else {
    scan.take('Z');
  }
  return scan.at_end();
}

} // namespace detail
} // namespace witrpc

#endif
