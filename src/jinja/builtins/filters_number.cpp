// Filters whose results are numbers.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>

#include "jinja/builtins/escape.h"
#include "jinja/builtins/filters.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/operators.h"

namespace cairn::jinja {
namespace {

// Below 2^127, so that the conversion is defined.
constexpr double kIntMax = 1.7e38;

Result<Value> truncated(double value) {
  if (!(std::fabs(value) < kIntMax))
    return fail(Code::kInvalidArgument, "cannot convert float {} to an integer", value);
  return Value(static_cast<Int>(value));
}

Result<double> require_number(const Value& value, std::string_view filter) {
  if (value.is(Kind::kUndefined)) return undefined_error(value);
  if (!value.is_number())
    return fail(Code::kInvalidArgument, "the filter '{}' wants a number, not {}", filter, type_name(value));
  return value.floating();
}

// Python's round(): to the nearest, ties to even, decided on the exact value.
Result<Value> round_common(const Value& value, int64_t precision) {
  if (value.is_integral()) {
    if (precision >= 0) return Value(value.integral());
    Int unit = 1;
    for (int64_t i = precision; i < 0; ++i) {
      if (unit > kIntMax / 10) return Value(Int{0});
      unit *= 10;
    }
    Int quotient = value.integral() / unit;
    const Int rest = value.integral() % unit;
    const Int twice = (rest < 0 ? -rest : rest) / (unit / 2 == 0 ? 1 : unit / 2);
    const bool exactly_half = (rest < 0 ? -rest : rest) == unit / 2;
    if (twice >= 1 && (!exactly_half || (quotient & 1) != 0)) quotient += rest < 0 ? -1 : 1;
    Int result = 0;
    if (__builtin_mul_overflow(quotient, unit, &result)) return fail(Code::kInvalidArgument, "integer overflow");
    return Value(result);
  }
  const double number = value.floating();
  if (!std::isfinite(number) || precision > 323) return Value(number);
  if (precision < -308) return Value(std::copysign(0.0, number));
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return Value(std::nearbyint(number / unit) * unit);
  }
  char bytes[700];
  std::snprintf(bytes, sizeof(bytes), "%.*f", static_cast<int>(precision), number);
  return Value(std::strtod(bytes, nullptr));
}

// The smallest or largest item, by the sort order that the filter's arguments give.
Result<Value> extreme(Interpreter& interpreter, const Value& input, const Args& args, std::string_view name,
                      bool largest) {
  CAIRN_TRY(const Bound bound, bind(name, args, {"case_sensitive", "attribute"}));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value list, to_list(budget, input));
  if (list.items().empty()) return Value::undefined("No aggregated item, sequence was empty.");
  CAIRN_TRY(const AttributePath path, AttributePath::parse(budget, bound.has(1) ? bound[1] : Value()));
  Value best, best_key;
  bool first = true;
  for (const Value& item : list.items()) {
    CAIRN_TRY(Value key, path.follow(budget, item));
    if (!bound.boolean(0, false)) {
      CAIRN_TRY(key, ignore_case(budget, key));
    }
    bool better = first;
    if (!first) {
      CAIRN_TRY(better, largest ? less(budget, best_key, key) : less(budget, key, best_key));
    }
    first = false;
    if (!better) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

}  // namespace

namespace filters {

Result<Value> abs(Interpreter&, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("abs", args, {}));
  CAIRN_TRY(const double number, require_number(input, "abs"));
  if (!input.is_integral()) return Value(std::fabs(number));
  return input.integral() < 0 ? negate(input) : Result<Value>(Value(input.integral()));
}

Result<Value> to_int(Interpreter&, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("int", args, {"default", "base"}));
  CAIRN_TRY(const int64_t base, bound.integer(1, 10));
  if (base != 0 && (base < 2 || base > 36))
    return fail(Code::kInvalidArgument, "int() base must be >= 2 and <= 36, or 0");
  const Value missing = bound.has(0) ? bound[0] : Value(Int{0});
  if (input.is(Kind::kUndefined)) return undefined_error(input);
  if (input.is_integral()) return Value(input.integral());
  if (input.is(Kind::kFloat)) return std::isnan(input.floating()) ? missing : truncated(input.floating());
  if (!input.is(Kind::kText)) return missing;
  if (const std::optional<Int> value = parse_integer(input.text(), static_cast<int>(base))) return Value(*value);
  const std::optional<double> value = parse_float(input.text());
  if (!value.has_value() || std::isnan(*value)) return missing;
  return truncated(*value);
}

Result<Value> to_float(Interpreter&, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("float", args, {"default"}));
  const Value missing = bound.has(0) ? bound[0] : Value(0.0);
  if (input.is(Kind::kUndefined)) return undefined_error(input);
  if (input.is_number()) return Value(input.floating());
  if (!input.is(Kind::kText)) return missing;
  const std::optional<double> value = parse_float(input.text());
  return value.has_value() ? Value(*value) : missing;
}

Result<Value> round(Interpreter&, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("round", args, {"precision", "method"}));
  CAIRN_TRY(const int64_t precision, bound.integer(0, 0));
  CAIRN_TRY(const std::string_view method, bound.text(1, "common"));
  CAIRN_TRY(const double number, require_number(input, "round"));
  if (method == "common") return round_common(input, precision);
  if (method != "ceil" && method != "floor")
    return fail(Code::kInvalidArgument, "method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  return Value((method == "ceil" ? std::ceil(number * unit) : std::floor(number * unit)) / unit);
}

Result<Value> filesizeformat(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("filesizeformat", args, {"binary"}));
  CAIRN_TRY(const Value number, to_float(interpreter, input, Args()));
  const bool binary = bound.boolean(0, false);
  const double base = binary ? 1024 : 1000;
  const double bytes = number.floating();
  if (bytes == 1) return make_text(interpreter.budget(), "1 Byte");
  if (bytes < base) {
    CAIRN_TRY(const Value whole, truncated(bytes));
    return make_text(interpreter.budget(), fmt::format("{} Bytes", whole.integral()), Origin());
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && bytes >= unit * base; ++i) unit *= base;
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return make_text(interpreter.budget(), fmt::format("{:.1f} {}{}", bytes / unit, prefix, binary ? "iB" : "B"),
                   Origin());
}

Result<Value> sum(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("sum", args, {"attribute", "start"}));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value list, to_list(budget, input));
  CAIRN_TRY(const AttributePath path, AttributePath::parse(budget, bound.has(0) ? bound[0] : Value()));
  Value total = bound.has(1) ? bound[1] : Value(Int{0});
  if (total.is(Kind::kText)) return fail(Code::kInvalidArgument, "sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : list.items()) {
    CAIRN_TRY_VOID(budget.step());
    CAIRN_TRY(const Value part, path.follow(budget, item));
    CAIRN_TRY(total, arithmetic(budget, ArithmeticOp::kAdd, total, part));
  }
  return total;
}

Result<Value> min(Interpreter& interpreter, const Value& input, const Args& args) {
  return extreme(interpreter, input, args, "min", false);
}
Result<Value> max(Interpreter& interpreter, const Value& input, const Args& args) {
  return extreme(interpreter, input, args, "max", true);
}

}  // namespace filters
}  // namespace cairn::jinja
