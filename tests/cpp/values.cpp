// C++ values as JSON text and back, without a connection.
#include <deque>
#include <limits>
#include <list>
#include <set>
#include <unordered_set>

#include "test.hpp"

namespace demo {
enum class Color : std::uint8_t { Red = 1, Blue = 4 };
struct Address {
  std::string Street;
  std::optional<int> Zip;
};
WITRPC_FIELDS(Address, Street, Zip)
struct Person {
  std::string Name;
  Color Favourite = Color::Red;
  Address Home;
  std::vector<Address> Others;
  std::unique_ptr<Address> Work;
};
WITRPC_FIELDS(Person, Name, Favourite, Home, Others, Work)
struct Renamed {
  int value = 0;
};
inline auto witrpc_fields(const Renamed *) {
  return std::make_tuple(witrpc::field("Value", &Renamed::value));
}
struct Celsius {
  double degrees = 0;
};
} // namespace demo

template <> struct witrpc::Convert<demo::Celsius> {
  static void write(Writer &out, const demo::Celsius &value) { out.number(value.degrees); }
  static bool read(Reader &in, demo::Celsius &value) {
    return in.floating(value.degrees) && (value.degrees > -273.15 || in.fail("colder than cold"));
  }
};

template <class T> static std::string text(const T &value) {
  std::string json;
  witrpc::Writer out(json);
  witrpc::detail::write<std::decay_t<const T>>(out, value);
  return json;
}
template <class T> static T back(std::string_view json) {
  return witrpc::detail::decode<T>(json).value();
}
template <class T> static std::string mistake(std::string_view json) {
  auto value = witrpc::detail::decode<T>(json);
  return value ? "none" : value.error().details();
}
template <class T> static bool same(const T &value, const std::string &json) {
  if (text(value) == json && back<T>(json) == value) return true;
  std::printf("%s is not %s\n", text(value).c_str(), json.c_str());
  return false;
}

static void numbers() {
  CHECK(same(true, "true") && same(false, "false"));
  CHECK(same(std::numeric_limits<std::int64_t>::min(), "-9223372036854775808"));
  CHECK(same(std::numeric_limits<std::uint64_t>::max(), "18446744073709551615"));
  CHECK(same(std::int8_t(-128), "-128") && same(std::uint8_t(255), "255"));
  CHECK(same(1.5, "1.5") && same(0.1, "0.1") && same(0.1f, "0.1") && same(-1e300, "-1e+300"));
  CHECK(text(std::numeric_limits<double>::quiet_NaN()) == "\"NaN\"");
  CHECK(same(-std::numeric_limits<double>::infinity(), "\"-Infinity\""));
  CHECK(std::isnan(back<double>("\"NaN\"")));
  CHECK(same(demo::Color::Blue, "4"));
  CHECK(mistake<std::int8_t>("128") == "128 does not fit (byte 0)");
  CHECK(mistake<int>("1.5") == "1.5 is no integer (byte 0)");
  CHECK(mistake<unsigned>("-1") == "-1 is no integer (byte 0)");
  CHECK(mistake<int>("\"1\"") == "a string where an integer is expected (byte 0)");
  CHECK(mistake<bool>("1") == "a number where a bool is expected (byte 0)");
  CHECK(mistake<int>("1 2") == "more text than one value (byte 2)");
  CHECK(mistake<int>("") == "the end where an integer is expected (byte 0)");
  CHECK(same(witrpc::Decimal{ "79228162514264337593543950335.10" },
             "79228162514264337593543950335.10"));
}

static void texts() {
  CHECK(same(std::string("a\"b\\c\n\t\x01 \xC3\xA4 \xF0\x9F\x98\x80"),
             "\"a\\\"b\\\\c\\n\\t\\u0001 \xC3\xA4 \xF0\x9F\x98\x80\""));
  CHECK(back<std::string>("\"\\u00e4\\ud83d\\ude00\\/\\b\\f\\r\"") ==
        "\xC3\xA4\xF0\x9F\x98\x80/\b\f\r");
  CHECK(text("literal") == "\"literal\"" && text(std::string_view("view")) == "\"view\"");
  CHECK(text(static_cast<const char *>(nullptr)) == "null" && text(nullptr) == "null");
  CHECK(mistake<std::string>("\"\\ud83d\"") == "half a character (byte 6)");
  CHECK(mistake<std::string>("\"abc") == "a string without an end (byte 4)");
  CHECK(mistake<std::string>("\"\\x\"") == "an escape that is none (byte 2)");
  CHECK(mistake<std::string>("null") == "null where a string is expected (byte 0)");
  CHECK(same(u'\u00e4', "\"\\u00e4\"") && back<char16_t>("\"\xC3\xA4\"") == u'\u00e4');
  const auto guid = witrpc::Guid::parse("00112233-4455-6677-8899-aabbccddeeff");
  CHECK(guid && same(*guid, "\"00112233-4455-6677-8899-aabbccddeeff\""));
  CHECK(!witrpc::Guid::parse("00112233-4455-6677-8899-aabbccddeefg"));
  CHECK(!witrpc::Guid::parse("00112233445566778899aabbccddeeff0000"));
  CHECK(witrpc::Guid::random() != witrpc::Guid::random());
}

static void bytes_are_base64() {
  using Bytes = std::vector<std::uint8_t>;
  CHECK(same(Bytes{}, "\"\"") && same(Bytes{ 0 }, "\"AA==\"") && same(Bytes{ 0, 255 }, "\"AP8=\""));
  CHECK(same(Bytes{ 1, 2, 3, 4 }, "\"AQIDBA==\""));
  CHECK(same(std::vector<std::byte>{ std::byte(255) }, "\"/w==\""));
  CHECK(mistake<Bytes>("\"AA=\"") != "none" && mistake<Bytes>("\"A?==\"") != "none");
  CHECK(mistake<Bytes>("\"=AAA\"") != "none" && mistake<Bytes>("\"AA==AAAA\"") != "none");
}

static void collections() {
  CHECK(same(std::vector<int>{ 1, 2 }, "[1,2]") &&
        same(std::vector<bool>{ true, false }, "[true,false]"));
  CHECK(same(std::deque<int>{ 1 }, "[1]") && same(std::list<std::string>{ "a" }, "[\"a\"]"));
  CHECK(same(std::set<int>{ 2, 1 }, "[1,2]") && same(std::unordered_set<int>{ 7 }, "[7]"));
  CHECK(same(std::array<double, 2>{ 1, 2 }, "[1,2]"));
  CHECK(same(std::vector<std::vector<int>>{ { 1 }, {} }, "[[1],[]]"));
  CHECK(same(std::map<std::string, int>{ { "b", 2 }, { "a", 1 } }, "{\"a\":1,\"b\":2}"));
  CHECK(same(std::unordered_map<int, std::string>{ { -3, "x" } }, "{\"-3\":\"x\"}"));
  CHECK(same(std::pair<int, std::string>{ 1, "x" }, "[1,\"x\"]"));
  CHECK(back<std::pair<int, int>>("{\"Key\":1,\"Value\":2}") == std::pair(1, 2));
  CHECK(back<std::tuple<int, bool>>("{\"Item2\":true,\"Item1\":5,\"Other\":[]}") ==
        std::tuple(5, true));
  CHECK(mistake<std::tuple<int>>("{\"Item2\":1}") == "more items than the tuple has (byte 9)");
  CHECK(back<std::tuple<int, bool>>("[5,true]") == std::tuple(5, true));
  CHECK(mistake<std::tuple<int, bool>>("[5]") == "fewer items than the tuple has (byte 3)");
  CHECK(mistake<std::tuple<int>>("[5,6]") == "more items than the tuple has (byte 3)");
  CHECK(mistake<std::array<int, 2>>("[5]") == "fewer items than the array has (byte 3)");
  CHECK(mistake<std::vector<int>>("[1,]") != "none" && mistake<std::vector<int>>("[1") != "none");
  CHECK(same(std::optional<int>(), "null") && same(std::optional<int>(5), "5"));
  CHECK(*back<std::unique_ptr<int>>("5") == 5 && !back<std::shared_ptr<int>>("null"));
  CHECK(text(std::make_shared<int>(5)) == "5" && text(std::nullopt) == "null");
  CHECK(same(witrpc::Json{ "{\"a\": [1, null, true, \"x\"]}" }, "{\"a\": [1, null, true, \"x\"]}"));
  CHECK(mistake<witrpc::Json>(std::string(65, '[') + std::string(65, ']')) ==
        "too many levels (byte 65)");
}

static void times() {
  using namespace std::chrono;
  CHECK(same(witrpc::Ticks(hours(26) + minutes(3) + seconds(4)) + milliseconds(500),
             "\"1.02:03:04.5000000\""));
  CHECK(same(witrpc::Ticks(-1), "\"-00:00:00.0000001\"") && same(seconds(59), "\"00:00:59\""));
  CHECK(same(witrpc::Ticks::min(), "\"-10675199.02:48:05.4775808\""));
  CHECK(back<hours>("\"01:59:59\"") == hours(1) && back<seconds>("\"10:20\"") == seconds(37200));
  CHECK(mistake<seconds>("\"1:2:x\"") == "no TimeSpan (byte 7)");
  const witrpc::DateTime epoch{};
  CHECK(same(epoch, "\"1970-01-01T00:00:00Z\""));
  CHECK(same(epoch - witrpc::Ticks(1), "\"1969-12-31T23:59:59.9999999Z\""));
  CHECK(same(epoch + hours(24 * 20787) + seconds(3), "\"2026-11-30T00:00:03Z\""));
  CHECK(back<witrpc::DateTime>("\"1970-01-01T02:00:00.5+02:00\"") == epoch + milliseconds(500));
  CHECK(back<witrpc::DateTime>("\"0001-01-01T00:00:00\"") == epoch - hours(24) * 719162);
  CHECK(same(witrpc::DateTime(epoch + hours(24) * 2932896), "\"9999-12-31T00:00:00Z\""));
  CHECK(back<system_clock::time_point>("\"1970-01-02\"") == system_clock::time_point(hours(24)));
  CHECK(mistake<witrpc::DateTime>("\"30.11.2026\"") == "no DateTime (byte 12)");
  CHECK(mistake<witrpc::DateTime>("\"2026-13-01T00:00:00\"") != "none");
}

static void structs() {
  demo::Person person;
  person.Name = "Ada";
  person.Favourite = demo::Color::Blue;
  person.Home = { "Main", 12345 };
  person.Others.push_back({ "Side", std::nullopt });
  const std::string json =
      "{\"Name\":\"Ada\",\"Favourite\":4,\"Home\":{\"Street\":\"Main\",\"Zip\":12345},"
      "\"Others\":[{\"Street\":\"Side\",\"Zip\":null}],\"Work\":null}";
  CHECK(text(person) == json);
  const auto read = back<demo::Person>(
      " {\"Unknown\": {\"x\": [1]}, \"Name\" : \"Bob\", \"Work\": {\"Zip\": 7}} ");
  CHECK(read.Name == "Bob" && read.Work && read.Work->Zip == 7 && read.Home.Street.empty());
  CHECK(text(demo::Renamed{ 3 }) == "{\"Value\":3}" &&
        back<demo::Renamed>("{\"Value\":4}").value == 4);
  CHECK(mistake<demo::Person>("{\"Home\":{\"Zip\":\"x\"}}") ==
        "a string where an integer is expected (byte 15)");
  CHECK(mistake<demo::Person>("[]") == "an array where an object is expected (byte 0)");
  CHECK(text(demo::Celsius{ 20.5 }) == "20.5" &&
        mistake<demo::Celsius>("-300") == "colder than cold (byte 4)");
}

static void arguments_and_results() {
  CHECK(witrpc::detail::arguments() == "[]");
  CHECK(witrpc::detail::arguments(1, "a", std::string("b"), 2.5, nullptr) ==
        "[1,\"a\",\"b\",2.5,null]");
  const auto values = witrpc::detail::decode_all<int, std::string>("[1,\"a\"]");
  CHECK(values && std::get<1>(*values) == "a");
  CHECK(!witrpc::detail::decode_all<int>("[1,2]") && !witrpc::detail::decode_all<>("[1]"));
  CHECK(!witrpc::detail::decode_all<int>("{\"Item1\":1}") && witrpc::detail::decode_all<>("[]"));
  witrpc::Result<int> good(5), bad(witrpc::Error(witrpc::Status::Timeout, "late", "very"));
  CHECK(good && *good == 5 && good.value() == 5 && good.value_or(1) == 5);
  CHECK(!bad && bad.value_or(1) == 1 && std::string(bad.error().what()) == "late: very");
  CHECK(thrown([&] { (void)bad.value(); }) == witrpc::Status::Timeout);
  CHECK(witrpc::name(witrpc::Status::OutcomeUnknown) == std::string("outcome_unknown"));
}

static void limits_round_up() {
  using namespace std::chrono_literals;
  CHECK(witrpc::Limit(1500us).milliseconds() == 2 && witrpc::Limit(2ms).milliseconds() == 2);
  CHECK(witrpc::Limit(-1s).milliseconds() == 0 && witrpc::Limit(1h).milliseconds() == 3'600'000);
  CHECK(witrpc::Limit(witrpc::no_timeout).milliseconds() == WITRPC_NO_TIMEOUT);
  CHECK(witrpc::Limit(std::chrono::hours::max()).milliseconds() == WITRPC_NO_TIMEOUT - 1);
}

int main() {
  watchdog(120);
  RUN(numbers);
  RUN(texts);
  RUN(bytes_are_base64);
  RUN(collections);
  RUN(times);
  RUN(structs);
  RUN(arguments_and_results);
  RUN(limits_round_up);
  return summary();
}
