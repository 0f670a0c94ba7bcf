// The tests that follow `is`.
#include <algorithm>

#include "jinja/interpret/functions.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/characters.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {
namespace {

template <bool (*kHolds)(const Value&)>
Result<bool> plain(Interpreter&, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("test", args, {}));
  return kHolds(input);
}

bool is_defined(const Value& value) { return !value.is(Kind::kUndefined); }
bool is_undefined(const Value& value) { return value.is(Kind::kUndefined); }
bool is_none(const Value& value) { return value.is(Kind::kNone); }
bool is_boolean(const Value& value) { return value.is(Kind::kBool); }
bool is_true(const Value& value) { return value.is(Kind::kBool) && value.boolean(); }
bool is_false(const Value& value) { return value.is(Kind::kBool) && !value.boolean(); }
bool is_integer(const Value& value) { return value.is(Kind::kInt); }
bool is_float(const Value& value) { return value.is(Kind::kFloat); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is(Kind::kText); }
bool is_mapping(const Value& value) { return value.is(Kind::kDict); }
bool is_escaped(const Value& value) { return value.is(Kind::kText) && value.is_markup(); }

// Whether it has a length and can be indexed; also true for a dict and an undefined value.
bool is_sequence(const Value& value) {
  switch (value.kind()) {
    case Kind::kText:
    case Kind::kList:
    case Kind::kDict:
    case Kind::kUndefined:
      return true;
    default:
      return value.object<Range>() != nullptr;
  }
}

bool is_callable(const Value& value) {
  return value.is(Kind::kUndefined) || value.object<Function>() != nullptr || value.object<Method>() != nullptr ||
         value.object<Macro>() != nullptr || value.object<Loop>() != nullptr || value.object<Joiner>() != nullptr;
}

bool is_iterable_value(const Value& value) { return is_iterable(value); }

template <bool (*kOther)(char32_t)>
Result<bool> in_case(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("test", args, {}));
  CAIRN_TRY(const Value text, to_text(interpreter.budget(), input));
  CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(text.text().size())));
  const auto not_other = [](char32_t c) { return !kOther(c); };
  const auto not_cased = [](char32_t c) { return !is_cased(c); };
  return all_chars(text.text(), not_other) && !all_chars(text.text(), not_cased);
}

template <CompareOp kOp>
Result<bool> compared(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("test", args, {"other"}, 1));
  return compare(interpreter.budget(), kOp, input, bound[0]);
}

Result<bool> divides(Interpreter& interpreter, const Value& input, const Value& by, Int rest) {
  CAIRN_TRY(const Value left, arithmetic(interpreter.budget(), ArithmeticOp::kModulo, input, by));
  return equals(interpreter.budget(), left, Value(rest));
}

Result<bool> odd(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("odd", args, {}));
  return divides(interpreter, input, Value(Int{2}), 1);
}

Result<bool> even(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("even", args, {}));
  return divides(interpreter, input, Value(Int{2}), 0);
}

Result<bool> divisibleby(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("divisibleby", args, {"num"}, 1));
  return divides(interpreter, input, bound[0], 0);
}

// Python's `is`: strings are compared by value, since whether they share memory is an implementation detail.
Result<bool> sameas(Interpreter&, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("sameas", args, {"other"}, 1));
  if (input.is(Kind::kText) && bound[0].is(Kind::kText)) return input.text() == bound[0].text();
  return input.is_same(bound[0]);
}

Result<bool> is_filter(Interpreter&, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("filter", args, {}));
  return input.is(Kind::kText) && find_filter(input.text()) != nullptr;
}

Result<bool> is_test(Interpreter&, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("test", args, {}));
  return input.is(Kind::kText) && find_test(input.text()) != nullptr;
}

struct TestEntry {
  std::string_view name;
  TestFunction function;
};

constexpr TestEntry kTests[] = {
    {"!=", compared<CompareOp::kNotEqual>},
    {"<", compared<CompareOp::kLess>},
    {"<=", compared<CompareOp::kLessEqual>},
    {"==", compared<CompareOp::kEqual>},
    {">", compared<CompareOp::kGreater>},
    {">=", compared<CompareOp::kGreaterEqual>},
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", divisibleby},
    {"eq", compared<CompareOp::kEqual>},
    {"equalto", compared<CompareOp::kEqual>},
    {"escaped", plain<is_escaped>},
    {"even", even},
    {"false", plain<is_false>},
    {"filter", is_filter},
    {"float", plain<is_float>},
    {"ge", compared<CompareOp::kGreaterEqual>},
    {"greaterthan", compared<CompareOp::kGreater>},
    {"gt", compared<CompareOp::kGreater>},
    {"in", compared<CompareOp::kIn>},
    {"integer", plain<is_integer>},
    {"iterable", plain<is_iterable_value>},
    {"le", compared<CompareOp::kLessEqual>},
    {"lessthan", compared<CompareOp::kLess>},
    {"lower", in_case<is_upper>},
    {"lt", compared<CompareOp::kLess>},
    {"mapping", plain<is_mapping>},
    {"ne", compared<CompareOp::kNotEqual>},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", odd},
    {"sameas", sameas},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", is_test},
    {"true", plain<is_true>},
    {"undefined", plain<is_undefined>},
    {"upper", in_case<is_lower>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const TestEntry& entry) { return entry.name == name; });
  return found == std::end(kTests) ? nullptr : found->function;
}

}  // namespace cairn::jinja
