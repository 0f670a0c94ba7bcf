// Filters that look at each item of a list.
#include "jinja/builtins/escape.h"
#include "jinja/builtins/filters.h"
#include "jinja/interpret/functions.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/characters.h"
#include "jinja/value/operators.h"

namespace cairn::jinja {

Result<AttributePath> AttributePath::parse(Budget& budget, const Value& path) {
  AttributePath parsed;
  if (path.is(Kind::kNone)) return parsed;
  if (path.is_integral()) {
    parsed.steps_.push_back(path);
    return parsed;
  }
  if (!path.is(Kind::kText))
    return fail(Code::kInvalidArgument, "an attribute must be a string or an integer, not {}", type_name(path));
  constexpr size_t kStepsMax = 100;
  std::string_view rest = path.text();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const std::optional<Int> number = parse_digits(part, 10);
    if (number.has_value()) {
      parsed.steps_.emplace_back(*number);
    } else {
      CAIRN_TRY(Value step, make_text(budget, path.piece().part(part)));
      parsed.steps_.push_back(std::move(step));
    }
    if (dot == std::string_view::npos) return parsed;
    if (parsed.steps_.size() == kStepsMax)
      return fail(Code::kTooLarge, "an attribute path has more than {} parts", kStepsMax);
    rest.remove_prefix(dot + 1);
  }
}

Result<Value> AttributePath::follow(Budget& budget, Value from, const Value* missing) const {
  for (const Value& step : steps_) {
    CAIRN_TRY_VOID(budget.step());
    CAIRN_TRY(from, get_item(budget, from, step));
    if (missing != nullptr && from.is(Kind::kUndefined)) from = *missing;
  }
  return from;
}

namespace {

// The arguments after the first `skipped`.
Args rest_of(const Args& args, size_t skipped) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(skipped), args.positional.end());
  rest.named = args.named;
  return rest;
}

Result<std::string> function_name(const Args& args, size_t at, std::string_view filter) {
  const Value& name = args.positional[at];
  if (!name.is(Kind::kText))
    return fail(Code::kInvalidArgument, "the filter '{}' wants a name, not {}", filter, type_name(name));
  return name.text();
}

// The items that pass a test, or fail it, tested themselves or by one attribute.
Result<Value> choose(Interpreter& interpreter, const Value& input, const Args& args, bool by_attribute, bool wanted) {
  Budget& budget = interpreter.budget();
  if (!truthy(input)) return make_iterator(budget, {});  // also for None, and then the arguments are not checked
  AttributePath path;
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute) {
    if (args.positional.empty()) return fail(Code::kInvalidArgument, "Missing parameter for attribute name");
    CAIRN_TRY(path, AttributePath::parse(budget, args.positional[0]));
  }
  TestFunction test = nullptr;
  Args test_args;
  if (args.positional.size() > test_at) {
    CAIRN_TRY(const std::string name, function_name(args, test_at, "select"));
    test = find_test(name);
    if (test == nullptr) return fail(Code::kInvalidArgument, "No test named '{}'.", name);
    test_args = rest_of(args, test_at + 1);
  }
  CAIRN_TRY(const Value list, to_list(budget, input));
  std::vector<Value> kept;
  for (const Value& item : list.items()) {
    CAIRN_TRY_VOID(budget.step());
    CAIRN_TRY(const Value subject, path.follow(budget, item));
    bool passes = truthy(subject);
    if (test != nullptr) {
      CAIRN_TRY(passes, test(interpreter, subject, test_args));
    }
    if (passes == wanted) kept.push_back(item);
  }
  return make_iterator(budget, std::move(kept));
}

}  // namespace

namespace filters {

// Only real attributes, never keys: methods, and attributes of objects.
Result<Value> attribute(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("attr", args, {"name"}, 1));
  CAIRN_TRY(const std::string_view name, bound.text(0, ""));
  if (input.is(Kind::kDict) && find_dict_method(name) == nullptr)
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  return get_attribute(interpreter.budget(), input, name);
}

Result<Value> default_value(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("default", args, {"default_value", "boolean"}));
  const bool use_default = input.is(Kind::kUndefined) || (bound.boolean(1, false) && !truthy(input));
  if (!use_default) return input;
  return bound.has(0) ? Result<Value>(bound[0]) : make_text(interpreter.budget(), "");
}

// map(attribute='a') or map('filter', args...)
Result<Value> map(Interpreter& interpreter, const Value& input, const Args& args) {
  Budget& budget = interpreter.budget();
  const DepthGuard deeper(budget);  // map('map', 'map', ...)
  CAIRN_TRY_VOID(deeper.check());
  if (!truthy(input)) return make_iterator(budget, {});  // also for None, and then the arguments are not checked
  AttributePath path;
  FilterFunction filter = nullptr;
  Args filter_args;
  const Value* missing = nullptr;
  if (args.positional.empty()) {
    CAIRN_TRY(const Bound bound, bind("map", args, {"attribute", "default"}));
    if (!bound.has(0)) return fail(Code::kInvalidArgument, "map requires a filter argument");
    CAIRN_TRY(path, AttributePath::parse(budget, bound[0]));
    if (bound.given(1)) missing = &bound[1];
  } else {
    CAIRN_TRY(const std::string name, function_name(args, 0, "map"));
    filter = find_filter(name);
    if (filter == nullptr) return fail(Code::kInvalidArgument, "No filter named '{}'.", name);
    filter_args = rest_of(args, 1);
  }
  CAIRN_TRY(const Value list, to_list(budget, input));
  std::vector<Value> mapped;
  mapped.reserve(list.items().size());
  for (const Value& item : list.items()) {
    CAIRN_TRY_VOID(budget.step());
    CAIRN_TRY(Value value,
              filter != nullptr ? filter(interpreter, item, filter_args) : path.follow(budget, item, missing));
    mapped.push_back(std::move(value));
  }
  return make_iterator(budget, std::move(mapped));
}

Result<Value> select(Interpreter& interpreter, const Value& input, const Args& args) {
  return choose(interpreter, input, args, false, true);
}
Result<Value> reject(Interpreter& interpreter, const Value& input, const Args& args) {
  return choose(interpreter, input, args, false, false);
}
Result<Value> selectattr(Interpreter& interpreter, const Value& input, const Args& args) {
  return choose(interpreter, input, args, true, true);
}
Result<Value> rejectattr(Interpreter& interpreter, const Value& input, const Args& args) {
  return choose(interpreter, input, args, true, false);
}

}  // namespace filters
}  // namespace cairn::jinja
