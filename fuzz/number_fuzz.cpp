// Fuzzes numbers of any size. The first line is JSON, of which every number is written as it was read. Where it is a
// number, it is the bound, the constant or the divisor of a schema, and the second line is held to it: what is taken
// stands in that relation by the digits, and what is written without an exponent and does is taken.
#include <algorithm>
#include <charconv>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/json.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/json_schema/number.h"
#include "grammar/matcher.h"

using namespace cairn;           // NOLINT: one small program
using namespace cairn::grammar;  // NOLINT

namespace {

constexpr int kExponentMax = 300;  // of what is compared
constexpr uint64_t kDivisorMaxHere = 999;

void require(bool condition) {
  if (!condition) std::abort();
}

/// A number by its digits, kExponentMax places and more behind the point: an integer of another unit.
struct Exact {
  bool negative = false;
  std::string digits;  ///< without zeros before them; empty: 0
  bool plain = false;  ///< written without an exponent, within the places that answers have
};

std::optional<Exact> read_exact(std::string_view text) {
  constexpr size_t kPlaces = 2 * kExponentMax;
  Exact out;
  out.negative = text.starts_with('-');
  if (out.negative) text.remove_prefix(1);
  int exponent = 0;
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  if (e < text.size()) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc()) return {};
  }
  const std::string_view mantissa = text.substr(0, e);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t behind = point == mantissa.size() ? 0 : mantissa.size() - point - 1;
  if (std::abs(exponent) > kExponentMax || behind > kExponentMax) return {};
  out.plain = e == text.size() && point <= kIntegerDigitsMax && behind <= kFractionDigitsMax;
  for (const char byte : mantissa)
    if (byte != '.') out.digits += byte;
  out.digits.append(kPlaces + static_cast<size_t>(exponent + kExponentMax) - kExponentMax - behind, '0');
  out.digits.erase(0, std::min(out.digits.find_first_not_of('0'), out.digits.size()));
  if (out.digits.empty()) out.negative = false;
  return out;
}

std::strong_ordering compare(const Exact& a, const Exact& b) {
  if (a.negative != b.negative) return a.negative ? std::strong_ordering::less : std::strong_ordering::greater;
  const auto size = a.digits.size() <=> b.digits.size();
  const auto order = size != 0 ? size : a.digits <=> b.digits;
  return a.negative ? 0 <=> order : order;
}

bool is_multiple(const Exact& number, const Exact& divisor) {
  // Zeros at the end of both are as many as the smaller one has.
  std::string value = number.digits, by = divisor.digits;
  while (value.ends_with('0') && by.ends_with('0')) {
    value.pop_back();
    by.pop_back();
  }
  if (value.empty()) return true;
  while (by.ends_with('0')) by.pop_back();  // `value` has fewer, and is checked below
  const size_t zeros = divisor.digits.size() - by.size() - (number.digits.size() - value.size());
  if (zeros > 0) return false;
  uint64_t m = 0, rest = 0;
  std::from_chars(by.data(), by.data() + by.size(), m);
  for (const char digit : value) rest = (rest * 10 + static_cast<uint64_t>(digit - '0')) % m;
  return rest == 0;
}

/// Whether the text is held to the schema; nothing where the schema is refused or a limit is reached.
std::optional<bool> takes(const nlohmann::ordered_json& schema, std::string_view text) {
  const auto made = compile_json_schema(schema, {});
  if (!made) {
    require(!made.error().message.empty());
    return made.error().message == "no value fits the schema" ? std::optional(false) : std::nullopt;
  }
  Matcher matcher(*made);
  const bool whole = matcher.push(text) == text.size() && matcher.may_end();
  if (matcher.failure()) return std::nullopt;
  return whole;
}

void check(const std::string& keyword, const nlohmann::ordered_json& argument, std::string_view text,
           const Exact& number, bool wanted) {
  const auto got = takes({{keyword, argument}}, text);
  if (!got) return;
  require(!*got || wanted);
  require(!wanted || *got || !number.plain);
}

void check_relations(const nlohmann::ordered_json& limit, std::string_view text) {
  const auto bound = read_exact(number_text(limit)), number = read_exact(text);
  if (!bound || !number) return;
  const auto order = compare(*number, *bound);
  check("minimum", limit, text, *number, order >= 0);
  check("maximum", limit, text, *number, order <= 0);
  check("exclusiveMinimum", limit, text, *number, order > 0);
  check("exclusiveMaximum", limit, text, *number, order < 0);
  const auto divisor = read_decimal(number_text(limit));
  Exact listed = *number;  // what is listed is written in one way
  listed.plain = divisor && divisor->text() == text;
  check("const", limit, text, listed, order == 0);
  if (!divisor || divisor->negative || divisor->zero()) return;
  const std::string digits = divisor->integer + divisor->fraction;
  uint64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec == std::errc() && value <= kDivisorMaxHere)
    check("multipleOf", limit, text, *number, is_multiple(*number, *bound));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\n'), input.size());
  const auto document = read_json(input.substr(0, end));
  if (!document) return 0;
  const std::string written = json_text(*document);
  const auto again = read_json(written);
  require(again && *again == *document && json_text(*again) == written);
  if (!is_any_number(*document)) return 0;
  std::string_view original = input.substr(0, end);
  original.remove_prefix(std::min(original.find_first_not_of(" \t\r"), original.size()));
  original = original.substr(0, original.find_last_not_of(" \t\r") + 1);
  const auto before = read_exact(original), after = read_exact(written);
  if (before && after) require(compare(*before, *after) == 0);
  const std::string_view text = end < input.size() ? input.substr(end + 1) : std::string_view();
  if (text.find_first_not_of("-+.0123456789eE") == std::string_view::npos && nlohmann::json::accept(text))
    check_relations(*document, text);
  return 0;
}
