/// @file
/// JSON text, written and read without a tree in between: what the conversions of value.hpp are
/// made of.
///
/// A Writer appends to a string; a Reader walks over a text. A Reader never throws: after the first
/// mistake all reading fails, and error() says what was wrong and at which byte.
#ifndef WITRPC_JSON_HPP
#define WITRPC_JSON_HPP

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace witrpc {

/// Appends JSON to a text.
class Writer {
public:
  /// Writes to the end of `out`, which must outlive the writer.
  explicit Writer(std::string &out) noexcept : out_(out) {}

  /// Text that is JSON already.
  void raw(std::string_view json) { out_ += json; }
  /// One character of JSON.
  void raw(char json) { out_ += json; }

  /// An integer.
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> void number(T value) {
    char text[24];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    out_.append(text, end);
  }

  /// A floating-point number with as many digits as it takes to read it back; NaN and the
  /// infinities by their names.
  void number(double value) { floating(value, 17); }
  /// The same with the precision of float.
  void number(float value) { floating(value, 9); }

  /// A string: UTF-8, escaped where JSON asks for it.
  void string(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    out_ += '"';
    std::size_t plain = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c >= 0x20 && c != '"' && c != '\\') continue;
      out_.append(text.substr(plain, i - plain));
      plain = i + 1;
      out_ += '\\';
      switch (c) {
      case '"':
      case '\\':
        out_ += static_cast<char>(c);
        break;
      case '\n':
        out_ += 'n';
        break;
      case '\r':
        out_ += 'r';
        break;
      case '\t':
        out_ += 't';
        break;
      default:
        out_ += "u00";
        out_ += digits[c >> 4];
        out_ += digits[c & 15];
      }
    }
    out_.append(text.substr(plain));
    out_ += '"';
  }

private:
  template <class T> void floating(T value, int digits) {
    if (std::isnan(value)) return raw("\"NaN\"");
    if (std::isinf(value)) return raw(value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
#if defined(__cpp_lib_to_chars)
    (void)digits;
    char text[32];
    out_.append(text, std::to_chars(text, text + sizeof text, value).ptr);
#else
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream.precision(digits);
    stream << value;
    out_ += stream.str();
#endif
  }

  std::string &out_;
};

/// Walks over a JSON text.
class Reader {
public:
  /// Levels of arrays and objects within each other that are read.
  static constexpr int max_depth = 64;

  /// Reads `text`, which must outlive the reader.
  explicit Reader(std::string_view text) noexcept : text_(text) {}

  /// False after the first mistake.
  bool ok() const noexcept { return error_.empty(); }
  /// What was wrong, with its place; empty if nothing was.
  const std::string &error() const noexcept { return error_; }

  /// Notes a mistake at the present place, unless there was one before. Always false.
  bool fail(std::string_view what) {
    if (error_.empty()) {
      error_.assign(what).append(" (byte ").append(std::to_string(at_)).append(")");
    }
    return false;
  }

  /// Notes that something else stands here than what is expected.
  bool expected(std::string_view what) {
    return fail(std::string(kind()) + " where " + std::string(what) + " is expected");
  }

  /// The next character that is not a blank; 0 at the end.
  char peek() noexcept {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  /// Takes a character if it stands here.
  bool take(char c) noexcept {
    if (!ok() || peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }

  /// Takes `null`, `true` or `false` if it stands here.
  bool take_word(std::string_view word) noexcept {
    if (!ok()) return false;
    peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  /// Nothing but blanks may follow.
  bool end() {
    if (!ok()) return false;
    return peek() == '\0' && at_ >= text_.size() ? true : fail("more text than one value");
  }

  /// The text of a number as it stands.
  bool number(std::string_view &digits, std::string_view what) {
    const char first = ok() ? peek() : '\0';
    if (first != '-' && (first < '0' || first > '9')) return ok() ? expected(what) : false;
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           std::string_view("+-.eE0123456789").find(text_[at_]) != std::string_view::npos)
      ++at_;
    digits = text_.substr(start, at_ - start);
    return true;
  }

  /// An integer that fits into `T`.
  template <class T> bool integer(T &value) {
    const std::size_t start = at_;
    std::string_view digits;
    if (!number(digits, "an integer")) return false;
    const char *last = digits.data() + digits.size();
    const auto [end, problem] = std::from_chars(digits.data(), last, value);
    if (problem == std::errc() && end == last) return true;
    at_ = start;
    return fail(std::string(digits) +
                (problem == std::errc::result_out_of_range ? " does not fit" : " is no integer"));
  }

  /// A floating-point number, or the name of one.
  bool floating(double &value) {
    if (peek() == '"') {
      std::string name;
      if (!string(name)) return false;
      if (name == "NaN")
        value = std::numeric_limits<double>::quiet_NaN();
      else if (name == "Infinity")
        value = std::numeric_limits<double>::infinity();
      else if (name == "-Infinity")
        value = -std::numeric_limits<double>::infinity();
      else
        return fail("\"" + name + "\" is no number");
      return true;
    }
    std::string_view digits;
    if (!number(digits, "a number")) return false;
#if defined(__cpp_lib_to_chars)
    const char *last = digits.data() + digits.size();
    const auto [end, problem] = std::from_chars(digits.data(), last, value);
    // What is too big or too small for a double is an infinity or zero, as in .NET.
    if (problem == std::errc::result_out_of_range && end == last) {
      const bool tiny = digits.find("e-") != std::string_view::npos ||
                        digits.find("E-") != std::string_view::npos;
      value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
      if (digits.front() == '-') value = -value;
      return true;
    }
    return problem == std::errc() && end == last ? true : fail("a number that is none");
#else
    std::istringstream stream{ std::string(digits) };
    stream.imbue(std::locale::classic());
    return stream >> value && stream.eof() ? true : fail("a number that is none");
#endif
  }

  /// A string.
  bool string(std::string &value, std::string_view what = "a string") {
    if (!ok()) return false;
    if (!take('"')) return expected(what);
    value.clear();
    std::size_t plain = at_;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c != '"' && c != '\\') continue;
      value.append(text_.substr(plain, at_ - plain));
      ++at_;
      if (c == '"') return true;
      if (!escape(value)) return false;
      plain = at_ + 1;
    }
    return fail("a string without an end");
  }

  /// The items of an array: `item(index)` reads one and says whether that went well.
  template <class Item> bool array(Item item, std::string_view what = "an array") {
    if (!open('[', what)) return false;
    if (take(']')) return close();
    for (std::size_t i = 0;; ++i) {
      if (!item(i)) return false;
      if (take(']')) return close();
      if (!take(',')) return fail("a ',' or ']' is expected");
    }
  }

  /// The members of an object: `member(name)` reads the value of one and says whether that went
  /// well.
  template <class Member> bool object(Member member, std::string_view what = "an object") {
    if (!open('{', what)) return false;
    if (take('}')) return close();
    for (std::string name;;) {
      if (!string(name, "a name")) return false;
      if (!take(':')) return fail("a ':' is expected");
      if (!member(static_cast<const std::string &>(name))) return false;
      if (take('}')) return close();
      if (!take(',')) return fail("a ',' or '}' is expected");
    }
  }

  /// Passes over one value of any kind.
  bool skip() {
    switch (ok() ? peek() : '\0') {
    case '{':
      return object([this](const std::string &) { return skip(); });
    case '[':
      return array([this](std::size_t) { return skip(); });
    case '"': {
      std::string ignored;
      return string(ignored);
    }
    default: {
      if (take_word("null") || take_word("true") || take_word("false")) return true;
      std::string_view ignored;
      return number(ignored, "a value");
    }
    }
  }

  /// Passes over one value and gives its text.
  bool raw(std::string_view &json) {
    peek();
    const std::size_t start = at_;
    if (!skip()) return false;
    json = text_.substr(start, at_ - start);
    return true;
  }

private:
  bool open(char bracket, std::string_view what) {
    if (!ok()) return false;
    if (!take(bracket)) return expected(what);
    return ++depth_ <= max_depth ? true : fail("too many levels");
  }
  bool close() noexcept {
    --depth_;
    return true;
  }

  std::string_view kind() noexcept {
    switch (peek()) {
    case '\0':
      return "the end";
    case '{':
      return "an object";
    case '[':
      return "an array";
    case '"':
      return "a string";
    case 't':
    case 'f':
      return "a bool";
    case 'n':
      return "null";
    default:
      return "a number";
    }
  }

  bool hex(unsigned &unit) {
    unit = 0;
    if (text_.size() - at_ < 5) return fail("an escape without an end");
    const char *first = text_.data() + at_ + 1;
    const auto [end, problem] = std::from_chars(first, first + 4, unit, 16);
    if (problem != std::errc() || end != first + 4) return fail("an escape that is none");
    at_ += 4;
    return true;
  }

  /// What follows a backslash. Ends on its last character.
  bool escape(std::string &value) {
    if (at_ >= text_.size()) return fail("a string without an end");
    switch (text_[at_]) {
    case 'b':
      value += '\b';
      return true;
    case 'f':
      value += '\f';
      return true;
    case 'n':
      value += '\n';
      return true;
    case 'r':
      value += '\r';
      return true;
    case 't':
      value += '\t';
      return true;
    case '"':
    case '\\':
    case '/':
      value += text_[at_];
      return true;
    case 'u':
      break;
    default:
      return fail("an escape that is none");
    }
    unsigned unit = 0, low = 0;
    if (!hex(unit)) return false;
    if (unit >= 0xD800 && unit < 0xDC00 && text_.substr(at_ + 1, 2) == "\\u") {
      at_ += 2;
      if (!hex(low)) return false;
      if (low < 0xDC00 || low > 0xDFFF) return fail("half a character");
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    } else if (unit >= 0xD800 && unit < 0xE000) {
      return fail("half a character");
    }
    utf8(value, unit);
    return true;
  }

  static void utf8(std::string &value, unsigned c) {
    const auto add = [&value](unsigned byte) { value += static_cast<char>(byte); };
    if (c < 0x80) return add(c);
    if (c < 0x800) {
      add(0xC0 | (c >> 6));
    } else {
      if (c < 0x10000) {
        add(0xE0 | (c >> 12));
      } else {
        add(0xF0 | (c >> 18));
        add(0x80 | ((c >> 12) & 0x3F));
      }
      add(0x80 | ((c >> 6) & 0x3F));
    }
    add(0x80 | (c & 0x3F));
  }

  std::string_view text_;
  std::string error_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

} // namespace witrpc

#endif
