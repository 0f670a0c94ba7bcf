// Calls of macros, functions, methods and loops.
#include <algorithm>

#include "jinja/interpret/interpreter.h"
#include "jinja/value/operators.h"

namespace cairn::jinja {

Result<void> Interpreter::keep(std::shared_ptr<Object> object) {
  CAIRN_TRY_VOID(budget_.take(static_cast<int64_t>(sizeof(object))));
  kept_objects_.push_back(std::move(object));
  return {};
}

Result<void> Interpreter::keep(const ScopeRef& scope) {
  if (!kept_scopes_.empty() && kept_scopes_.back() == scope) return {};
  CAIRN_TRY_VOID(budget_.take(static_cast<int64_t>(sizeof(Scope) + sizeof(scope))));
  kept_scopes_.push_back(scope);
  return {};
}

Result<Value> Interpreter::call(const Value& callee, const Args& args) {
  if (callee.is(Kind::kUndefined)) return undefined_error(callee);
  // Held during the call, since the callee may be in a variable that the call changes.
  const Value held = callee;
  if (const auto* method = held.object<Method>()) return method->function(*this, method->self, args);
  if (const auto* function = held.object<Function>()) return function->function(*this, args);
  if (const auto* macro = held.object<Macro>()) return call_macro(*macro, args);
  if (const auto* loop = held.object<Loop>()) return call_loop(*loop, args);
  if (auto* joiner = held.object<Joiner>()) {
    CAIRN_TRY_VOID(bind("joiner", args, {}));
    if (!std::exchange(joiner->used, true)) return make_text(budget_, "");
    return joiner->separator;
  }
  return fail(Code::kInvalidArgument, "'{}' object is not callable", type_name(held));
}

Result<Value> Interpreter::call_macro(const Macro& macro, const Args& args) {
  const Swap scope(scope_, ScopeRef(macro.scope));
  scope_ = inner_scope();
  CAIRN_TRY_VOID(bind_macro(macro.body, args, *scope_));
  Buffer text(budget_);
  const Swap out(out_, &text);
  CAIRN_TRY([[maybe_unused]] const Flow flow, run_body(macro.body.body));
  return make_text(std::move(text));
}

// Binds arguments to parameters in `scope`, which is the current one, so that a default can use an earlier parameter.
Result<void> Interpreter::bind_macro(const MacroBody& macro, const Args& args, Scope& scope) {
  const std::string_view name = macro.name.empty() ? std::string_view("caller") : std::string_view(macro.name);
  const size_t count = macro.parameters.size();
  const size_t given = std::min(args.positional.size(), count);
  std::vector<bool> used(args.named.size(), false);
  for (size_t i = 0; i < count; ++i) {
    const auto& [id, parameter] = macro.parameters[i];
    if (i < given) {
      scope.set(id, args.positional[i]);
      continue;
    }
    const Value* value = nullptr;
    for (size_t j = 0; j < args.named.size(); ++j) {
      if (args.named[j].first != parameter) continue;
      value = &args.named[j].second;
      used[j] = true;
    }
    const size_t first_default = count - macro.defaults.size();
    if (value != nullptr) {
      scope.set(id, *value);
    } else if (i >= first_default) {
      CAIRN_TRY(Value missing, eval(*macro.defaults[i - first_default]));
      scope.set(id, std::move(missing));
    } else {
      scope.set(id, Value::undefined(fmt::format("parameter '{}' was not provided", parameter)));
    }
  }
  if (macro.uses_caller) scope.set(macro.caller_id, Value::undefined("No caller defined"));
  DictBuilder more(budget_);
  for (size_t j = 0; j < args.named.size(); ++j) {
    if (used[j]) continue;
    const auto& [key, value] = args.named[j];
    if (key == "caller" && macro.uses_caller)
      scope.set(macro.caller_id, value);
    else if (macro.uses_kwargs)
      CAIRN_TRY_VOID(more.add(name_piece(key), value));
    else
      return fail(Code::kInvalidArgument, "macro '{}' takes no keyword argument '{}'", name, key);
  }
  if (macro.uses_kwargs) scope.set(macro.kwargs_id, more.finish());
  if (macro.uses_varargs) {
    std::vector<Value> rest(args.positional.begin() + static_cast<std::ptrdiff_t>(given), args.positional.end());
    CAIRN_TRY(Value tuple, make_list(budget_, std::move(rest), ListKind::kTuple));
    scope.set(macro.varargs_id, std::move(tuple));
  } else if (args.positional.size() > count) {
    return fail(Code::kInvalidArgument, "macro '{}' takes not more than {} argument(s)", name, count);
  }
  return {};
}

// loop(items): the body of a recursive loop over other items, one level deeper.
Result<Value> Interpreter::call_loop(const Loop& loop, const Args& args) {
  if (!loop.statement.recursive)
    return fail(Code::kInvalidArgument, "The loop must have the 'recursive' marker to be called recursively.");
  CAIRN_TRY(const Bound bound, bind("loop", args, {"iterable"}, 1));
  CAIRN_TRY(Value items, to_list(budget_, bound[0]));
  const Swap scope(scope_, ScopeRef(loop.scope));
  Buffer text(budget_);
  const Swap out(out_, &text);
  CAIRN_TRY([[maybe_unused]] const Flow flow, loop_over(loop.statement, std::move(items), loop.depth0 + 1));
  return make_text(std::move(text));
}

// Jinja's sandbox for models forbids it, but templates that are only run by llama.cpp use it. Values do not change
// here: the name gets a new list.
Result<bool> Interpreter::append_to_own(const CallExpr& expr) {
  if (expr.callee->kind != ExprKind::kAttribute || expr.args.positional.size() != 1) return false;
  const auto& method = static_cast<const AttributeExpr&>(*expr.callee);
  const Expr& object = *method.object;
  if (method.name != "append" || (object.kind != ExprKind::kName && object.kind != ExprKind::kAttribute)) return false;
  CAIRN_TRY(const Value list, eval(object));
  if (!list.is(Kind::kList) || list.list_ref()->kind != ListKind::kLiteral) return false;
  CAIRN_TRY(Value item, eval(*expr.args.positional[0]));
  std::vector<Value> items = list.items();
  items.push_back(std::move(item));
  CAIRN_TRY(Value longer, make_list(budget_, std::move(items), ListKind::kLiteral));
  if (object.kind == ExprKind::kAttribute) {
    const auto& attribute = static_cast<const AttributeExpr&>(object);
    CAIRN_TRY(const Value held, eval(*attribute.object));
    auto* space = held.object<Namespace>();
    if (space == nullptr) return false;
    CAIRN_TRY_VOID(set_namespace_attribute(budget_, *space, attribute.name, std::move(longer)));
    return true;
  }
  const NameId id = static_cast<const NameExpr&>(object).id;
  Scope* scope = scope_.get();
  while (scope != nullptr && scope->find(id) == nullptr) scope = scope->parent.get();
  if (scope == nullptr) return false;
  scope->set(id, std::move(longer));
  return true;
}

Result<Value> loop_changed(Interpreter& interpreter, const Value& self, const Args& args) {
  auto* loop = self.object<Loop>();
  bool same = loop->changed_asked && loop->changed.size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i) {
    CAIRN_TRY(same, equals(interpreter.budget(), loop->changed[i], args.positional[i]));
  }
  if (!std::exchange(loop->changed_asked, true)) CAIRN_TRY_VOID(interpreter.keep(self.object_ref()));
  loop->changed = args.positional;
  return Value(!same);
}

}  // namespace cairn::jinja
