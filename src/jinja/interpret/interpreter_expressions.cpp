// Evaluation of expressions.
#include "jinja/interpret/interpreter.h"
#include "jinja/parse/token.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {

// Evaluates an expression, and adds its line to an error.
Result<Value> Interpreter::eval(const Expr& expr) {
  if (expr.kind == ExprKind::kConst) return static_cast<const ConstExpr&>(expr).value;
  const DepthGuard deeper(budget_);
  CAIRN_TRY_VOID(deeper.check());
  CAIRN_TRY_VOID(budget_.step());
  Result<Value> value = eval_kind(expr);
  if (!value.has_value() && value.error().at.empty()) value.error().at = at_line(expr.line);
  return value;
}

Result<Value> Interpreter::eval_kind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConst:
      break;
    case ExprKind::kName:
      return eval_name(static_cast<const NameExpr&>(expr));
    case ExprKind::kList:
      return eval_list(static_cast<const ListExpr&>(expr));
    case ExprKind::kDict:
      return eval_dict(static_cast<const DictExpr&>(expr));
    case ExprKind::kUnary:
      return eval_unary(static_cast<const UnaryExpr&>(expr));
    case ExprKind::kArithmetic:
      return eval_arithmetic(static_cast<const ArithmeticExpr&>(expr));
    case ExprKind::kLogic:
      return eval_logic(static_cast<const LogicExpr&>(expr));
    case ExprKind::kCompare:
      return eval_compare(static_cast<const CompareExpr&>(expr));
    case ExprKind::kConcat:
      return eval_concat(static_cast<const ConcatExpr&>(expr));
    case ExprKind::kConditional:
      return eval_conditional(static_cast<const ConditionalExpr&>(expr));
    case ExprKind::kAttribute: {
      const auto& attribute = static_cast<const AttributeExpr&>(expr);
      CAIRN_TRY(const Value object, eval(*attribute.object));
      return get_attribute(budget_, object, attribute.name);
    }
    case ExprKind::kItem: {
      const auto& item = static_cast<const ItemExpr&>(expr);
      CAIRN_TRY(const Value object, eval(*item.object));
      CAIRN_TRY(const Value key, eval(*item.key));
      return get_item(budget_, object, key);
    }
    case ExprKind::kSlice:
      return eval_slice(static_cast<const SliceExpr&>(expr));
    case ExprKind::kCall:
      return eval_call(static_cast<const CallExpr&>(expr), nullptr);
    case ExprKind::kFilter:
      return eval_filter(static_cast<const FilterExpr&>(expr));
    case ExprKind::kTest:
      return eval_test(static_cast<const TestExpr&>(expr));
  }
  return Value();
}

Result<Value> Interpreter::eval_name(const NameExpr& expr) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    CAIRN_TRY_VOID(budget_.step(static_cast<int64_t>(scope->variables.size()) / 16));
    if (const Value* found = scope->find(expr.id)) return *found;
  }
  const std::string& name = parsed_.names[expr.id];
  if (const GlobalFunction function = find_global(name)) {
    CAIRN_TRY(auto object, make_object<Function>(budget_, 0, name, function));
    return Value(std::shared_ptr<Object>(std::move(object)));
  }
  if (name == "self") {
    CAIRN_TRY(auto object, make_object<Self>(budget_, 0));
    return Value(std::shared_ptr<Object>(std::move(object)));
  }
  return Value::undefined(fmt::format("'{}' is undefined", name));
}

Result<Value> Interpreter::eval_list(const ListExpr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) {
    CAIRN_TRY(Value value, eval(*item));
    items.push_back(std::move(value));
  }
  return make_list(budget_, std::move(items), expr.tuple ? ListKind::kTuple : ListKind::kLiteral);
}

Result<Value> Interpreter::eval_dict(const DictExpr& expr) {
  DictBuilder dict(budget_);
  for (const auto& [key_expr, value_expr] : expr.items) {
    CAIRN_TRY(Value key, eval(*key_expr));
    CAIRN_TRY(Value value, eval(*value_expr));
    CAIRN_TRY_VOID(dict.add(std::move(key), std::move(value)));
  }
  return dict.finish();
}

Result<Value> Interpreter::eval_unary(const UnaryExpr& expr) {
  CAIRN_TRY(const Value operand, eval(*expr.operand));
  switch (expr.op) {
    case UnaryOp::kNot:
      return Value(!truthy(operand));
    case UnaryOp::kNegate:
      return negate(operand);
    case UnaryOp::kPlus:
      return plus(operand);
  }
  return Value();
}

Result<Value> Interpreter::eval_arithmetic(const ArithmeticExpr& expr) {
  CAIRN_TRY(Value result, eval(*expr.first));
  for (const auto& [op, operand] : expr.rest) {
    CAIRN_TRY(const Value right, eval(*operand));
    CAIRN_TRY(result, arithmetic(budget_, op, result, right));
  }
  return result;
}

Result<Value> Interpreter::eval_logic(const LogicExpr& expr) {
  Value value;
  for (const ExprPtr& operand : expr.operands) {
    CAIRN_TRY(value, eval(*operand));
    if (truthy(value) != expr.all) break;
  }
  return value;
}

Result<Value> Interpreter::eval_compare(const CompareExpr& expr) {
  CAIRN_TRY(Value left, eval(*expr.first));
  for (const auto& [op, operand] : expr.rest) {
    CAIRN_TRY(Value right, eval(*operand));
    CAIRN_TRY(const bool holds, compare(budget_, op, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::eval_concat(const ConcatExpr& expr) {
  Buffer out(budget_);
  for (const ExprPtr& operand : expr.operands) {
    CAIRN_TRY(const Value value, eval(*operand));
    CAIRN_TRY_VOID(put_str(out, value));
  }
  return make_text(std::move(out));
}

Result<Value> Interpreter::eval_conditional(const ConditionalExpr& expr) {
  CAIRN_TRY(const Value test, eval(*expr.test));
  if (truthy(test)) return eval(*expr.yes);
  if (expr.no != nullptr) return eval(*expr.no);
  return Value::undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", expr.line));
}

Result<Value> Interpreter::eval_slice(const SliceExpr& expr) {
  CAIRN_TRY(const Value object, eval(*expr.object));
  Value bounds[3];
  const ExprPtr* parts[3] = {&expr.start, &expr.stop, &expr.step};
  for (int i = 0; i < 3; ++i) {
    if (*parts[i] == nullptr) continue;
    CAIRN_TRY(bounds[i], eval(**parts[i]));
  }
  return get_slice(budget_, object, bounds[0], bounds[1], bounds[2]);
}

Result<Args> Interpreter::eval_args(const CallArgs& args) {
  Args values;
  values.positional.reserve(args.positional.size());
  for (const ExprPtr& arg : args.positional) {
    CAIRN_TRY(Value value, eval(*arg));
    values.positional.push_back(std::move(value));
  }
  for (const auto& [name, arg] : args.named) {
    CAIRN_TRY(Value value, eval(*arg));
    values.named.emplace_back(name, std::move(value));
  }
  constexpr size_t kSpreadMax = 1000;  // arguments from one list or dict
  if (args.more_positional != nullptr) {
    CAIRN_TRY(const Value more, eval(*args.more_positional));
    CAIRN_TRY(const Value list, to_list(budget_, more));
    if (list.items().size() > kSpreadMax)
      return fail(Code::kTooLarge, "a call with more than {} arguments", kSpreadMax);
    values.positional.insert(values.positional.end(), list.items().begin(), list.items().end());
  }
  if (args.more_named != nullptr) {
    CAIRN_TRY(const Value more, eval(*args.more_named));
    if (!more.is(Kind::kDict))
      return fail(Code::kInvalidArgument, "argument after ** must be a mapping, not {}", type_name(more));
    if (more.dict().items().size() > kSpreadMax)
      return fail(Code::kTooLarge, "a call with more than {} arguments", kSpreadMax);
    for (const auto& [key, value] : more.dict().items()) {
      if (!key.is(Kind::kText)) return fail(Code::kInvalidArgument, "keywords must be strings");
      for (const auto& [name, unused] : values.named)
        if (name == key.text()) return fail(Code::kInvalidArgument, "two values for keyword argument '{}'", name);
      values.named.emplace_back(key.text(), value);
    }
  }
  return values;
}

Result<Value> Interpreter::eval_call(const CallExpr& expr, const Value* caller) {
  CAIRN_TRY(const bool appended, append_to_own(expr));
  if (appended) return Value();
  CAIRN_TRY(const Value callee, eval(*expr.callee));
  CAIRN_TRY(Args args, eval_args(expr.args));
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  return call(callee, args);
}

Result<Value> Interpreter::apply_filters(Value value, const std::vector<FilterUse>& filters) {
  for (const FilterUse& use : filters) {
    CAIRN_TRY_VOID(budget_.step());
    Result<Value> filtered_value = [&]() -> Result<Value> {
      if (use.function == nullptr) return fail(Code::kInvalidArgument, "No filter named '{}' found.", use.name);
      CAIRN_TRY(const Args args, eval_args(use.args));
      return use.function(*this, value, args);
    }();
    if (!filtered_value.has_value() && filtered_value.error().at.empty()) filtered_value.error().at = at_line(use.line);
    CAIRN_TRY(value, std::move(filtered_value));
  }
  return value;
}

Result<Value> Interpreter::eval_filter(const FilterExpr& expr) {
  CAIRN_TRY(Value input, eval(*expr.input));
  return apply_filters(std::move(input), expr.filters);
}

Result<Value> Interpreter::eval_test(const TestExpr& expr) {
  CAIRN_TRY(const Value input, eval(*expr.input));
  if (expr.function == nullptr) return fail(Code::kInvalidArgument, "No test named '{}' found.", expr.name);
  CAIRN_TRY(const Args args, eval_args(expr.args));
  CAIRN_TRY(const bool holds, expr.function(*this, input, args));
  return Value(holds != expr.negated);
}

}  // namespace cairn::jinja
