// + - * / // % ** on numbers, strings and lists.
#include <cmath>
#include <limits>
#include <optional>

#include "jinja/builtins/escape.h"
#include "jinja/builtins/format.h"
#include "jinja/value/operators.h"

namespace cairn::jinja {
namespace {

std::string_view symbol(ArithmeticOp op) {
  switch (op) {
    case ArithmeticOp::kAdd:
      return "+";
    case ArithmeticOp::kSubtract:
      return "-";
    case ArithmeticOp::kMultiply:
      return "*";
    case ArithmeticOp::kDivide:
      return "/";
    case ArithmeticOp::kFloorDivide:
      return "//";
    case ArithmeticOp::kModulo:
      return "%";
    case ArithmeticOp::kPower:
      return "** or pow()";
  }
  return "?";
}

std::unexpected<Error> overflow() {
  return fail(Code::kInvalidArgument, "integer overflow: the result has more than 128 bits");
}

std::unexpected<Error> zero_division(bool is_float, ArithmeticOp op) {
  if (op == ArithmeticOp::kDivide) return fail(Code::kInvalidArgument, "division by zero");
  return fail(Code::kInvalidArgument, "{} division or modulo by zero", is_float ? "float" : "integer");
}

Result<Value> power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) return fail(Code::kInvalidArgument, "0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    // 0, 1 and -1 never overflow; with every other base this ends early.
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value(result);
}

Result<Value> on_integers(ArithmeticOp op, Int a, Int b) {
  Int result = 0;
  switch (op) {
    case ArithmeticOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return overflow();
      return Value(result);
    case ArithmeticOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return overflow();
      return Value(result);
    case ArithmeticOp::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return overflow();
      return Value(result);
    case ArithmeticOp::kDivide:
      if (b == 0) return zero_division(false, op);
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case ArithmeticOp::kFloorDivide:
    case ArithmeticOp::kModulo: {
      if (b == 0) return zero_division(false, op);
      if (b == -1) {  // the only division that can overflow
        if (op == ArithmeticOp::kModulo) return Value(Int{0});
        if (__builtin_sub_overflow(Int{0}, a, &result)) return overflow();
        return Value(result);
      }
      Int quotient = a / b;
      Int rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) {  // Python rounds down, and the remainder has the divisor's sign
        --quotient;
        rest += b;
      }
      return Value(op == ArithmeticOp::kModulo ? rest : quotient);
    }
    case ArithmeticOp::kPower:
      return power(a, b);
  }
  return overflow();
}

Result<Value> on_floats(ArithmeticOp op, double a, double b) {
  switch (op) {
    case ArithmeticOp::kAdd:
      return Value(a + b);
    case ArithmeticOp::kSubtract:
      return Value(a - b);
    case ArithmeticOp::kMultiply:
      return Value(a * b);
    case ArithmeticOp::kDivide:
      if (b == 0) return fail(Code::kInvalidArgument, "float division by zero");
      return Value(a / b);
    case ArithmeticOp::kFloorDivide:
    case ArithmeticOp::kModulo: {
      if (b == 0) return zero_division(true, op);
      double rest = std::fmod(a, b);
      double quotient = (a - rest) / b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        quotient -= 1;
      }
      if (op == ArithmeticOp::kModulo) return Value(rest == 0 ? std::copysign(0.0, b) : rest);
      const double floored = std::floor(quotient);
      return Value(quotient - floored > 0.5 ? floored + 1 : floored);
    }
    case ArithmeticOp::kPower: {
      if (a == 0 && b < 0) return fail(Code::kInvalidArgument, "0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
        return fail(Code::kInvalidArgument, "a negative number to a fractional power has no real value");
      return Value(std::pow(a, b));
    }
  }
  return overflow();
}

Result<Value> join_texts(Budget& budget, const Value& a, const Value& b) {
  Buffer out(budget);
  const bool markup = a.is_markup() || b.is_markup();
  for (const Value* part : {&a, &b}) {
    if (markup && !part->is_markup())
      CAIRN_TRY_VOID(put_escaped(out, part->piece()));
    else
      CAIRN_TRY_VOID(out.put(part->piece()));
  }
  return make_text(std::move(out), markup);
}

Result<Value> join_lists(Budget& budget, const Value& a, const Value& b) {
  CAIRN_TRY_VOID(budget.step(static_cast<int64_t>(a.items().size() + b.items().size()) / 4));
  std::vector<Value> items;
  items.reserve(a.items().size() + b.items().size());
  items.insert(items.end(), a.items().begin(), a.items().end());
  items.insert(items.end(), b.items().begin(), b.items().end());
  return make_list(budget, std::move(items), a.is_tuple() ? ListKind::kTuple : ListKind::kList);
}

Result<Value> repeat(Budget& budget, const Value& sequence, Int count) {
  if (count < 0) count = 0;
  if (sequence.is(Kind::kText)) {
    Buffer out(budget);
    constexpr Int kMost = std::numeric_limits<int64_t>::max();
    CAIRN_TRY_VOID(out.put_repeated(sequence.piece(), static_cast<int64_t>(count > kMost ? kMost : count)));
    return make_text(std::move(out), sequence.is_markup());
  }
  const auto& items = sequence.items();
  const Int bytes = Int{static_cast<int64_t>(items.size() * sizeof(Value))};
  if (bytes > 0 && count > Int{budget.limits().memory_bytes_max} / bytes)
    return fail(Code::kTooLarge, "a list is repeated too many times");
  std::vector<Value> repeated;
  if (!items.empty()) {
    CAIRN_TRY_VOID(budget.step(static_cast<int64_t>(count * Int{static_cast<int64_t>(items.size())} / 4)));
    Charge building;  // the copies exist before make_list charges for them
    CAIRN_TRY_VOID(building.take(budget, static_cast<int64_t>(bytes * count)));
    repeated.reserve(items.size() * static_cast<size_t>(count));
    for (Int i = 0; i < count; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return make_list(budget, std::move(repeated), sequence.is_tuple() ? ListKind::kTuple : ListKind::kList);
}

std::unexpected<Error> unsupported(ArithmeticOp op, const Value& a, const Value& b) {
  if (op == ArithmeticOp::kAdd && (a.is(Kind::kText) || a.is(Kind::kList))) {
    const std::string_view type = type_name(a);
    return fail(Code::kInvalidArgument, "can only concatenate {} (not \"{}\") to {}", type, type_name(b), type);
  }
  if (op == ArithmeticOp::kMultiply) {
    for (const auto& [sequence, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (sequence->is(Kind::kText) || sequence->is(Kind::kList))
        return fail(Code::kInvalidArgument, "can't multiply sequence by non-int of type '{}'", type_name(*other));
  }
  return fail(Code::kInvalidArgument, "unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a),
              type_name(b));
}

}  // namespace

Result<Value> arithmetic(Budget& budget, ArithmeticOp op, const Value& a, const Value& b) {
  if (a.is(Kind::kText) && op == ArithmeticOp::kModulo) return format_percent(budget, a, b);
  if (a.is(Kind::kUndefined)) return undefined_error(a);
  if (b.is(Kind::kUndefined)) return undefined_error(b);
  if (a.is_integral() && b.is_integral()) return on_integers(op, a.integral(), b.integral());
  if (a.is_number() && b.is_number()) return on_floats(op, a.floating(), b.floating());
  if (op == ArithmeticOp::kAdd) {
    if (a.is(Kind::kText) && b.is(Kind::kText)) return join_texts(budget, a, b);
    if (a.is(Kind::kList) && b.is(Kind::kList) && a.is_tuple() == b.is_tuple()) return join_lists(budget, a, b);
  }
  if (op == ArithmeticOp::kMultiply) {
    if ((a.is(Kind::kText) || a.is(Kind::kList)) && b.is_integral()) return repeat(budget, a, b.integral());
    if ((b.is(Kind::kText) || b.is(Kind::kList)) && a.is_integral()) return repeat(budget, b, a.integral());
  }
  return unsupported(op, a, b);
}

Result<Value> negate(const Value& value) {
  if (value.is(Kind::kUndefined)) return undefined_error(value);
  if (value.is_integral()) return on_integers(ArithmeticOp::kSubtract, 0, value.integral());
  if (value.is(Kind::kFloat)) return Value(-value.floating());
  return fail(Code::kInvalidArgument, "bad operand type for unary -: '{}'", type_name(value));
}

Result<Value> plus(const Value& value) {
  if (value.is(Kind::kUndefined)) return undefined_error(value);
  if (value.is_integral()) return Value(value.integral());
  if (value.is(Kind::kFloat)) return value;
  return fail(Code::kInvalidArgument, "bad operand type for unary +: '{}'", type_name(value));
}

}  // namespace cairn::jinja
