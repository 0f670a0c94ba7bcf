// Execution of statements.
#include "jinja/interpret/interpreter.h"
#include "jinja/parse/token.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {

Interpreter::Interpreter(const ParsedTemplate& parsed, Budget& budget, std::time_t now)
    : parsed_(parsed), budget_(budget), now_(now), scope_(std::make_shared<Scope>()) {}

Interpreter::~Interpreter() {
  // Scopes and namespaces may refer to each other in a cycle.
  for (const auto& object : kept_objects_) object->forget();
  for (const ScopeRef& scope : kept_scopes_) scope->variables.clear();
}

Result<Rendering> Interpreter::run() {
  Buffer out(budget_);
  out_ = &out;
  CAIRN_TRY([[maybe_unused]] const Flow flow, run_body(parsed_.body));
  Buffer::Built built = out.release();
  return Rendering{std::move(built.text), built.origin.release()};
}

ScopeRef Interpreter::inner_scope() const {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  return scope;
}

Result<Interpreter::Flow> Interpreter::run_body(const Body& body) {
  for (const StatementPtr& statement : body) {
    if (statement->kind == StatementKind::kText) {
      CAIRN_TRY_VOID(budget_.step());
      CAIRN_TRY_VOID(out_->put(Piece::own(static_cast<const TextStatement&>(*statement).text)));
      continue;
    }
    const DepthGuard deeper(budget_);
    CAIRN_TRY_VOID(deeper.check());
    CAIRN_TRY_VOID(budget_.step());
    Result<Flow> flow = run_statement(*statement);
    if (!flow.has_value() && flow.error().at.empty()) flow.error().at = at_line(statement->line);
    if (!flow.has_value() || *flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_statement(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kText:
      break;
    case StatementKind::kOutput:
      return run_output(static_cast<const OutputStatement&>(statement));
    case StatementKind::kFor:
      return run_for(static_cast<const ForStatement&>(statement));
    case StatementKind::kIf:
      return run_if(static_cast<const IfStatement&>(statement));
    case StatementKind::kSet:
      return run_set(static_cast<const SetStatement&>(statement));
    case StatementKind::kSetBlock:
      return run_set_block(static_cast<const SetBlockStatement&>(statement));
    case StatementKind::kMacro:
      return run_macro(static_cast<const MacroStatement&>(statement));
    case StatementKind::kCallBlock:
      return run_call_block(static_cast<const CallBlockStatement&>(statement));
    case StatementKind::kFilterBlock:
      return run_filter_block(static_cast<const FilterBlockStatement&>(statement));
    case StatementKind::kWith:
      return run_with(static_cast<const WithStatement&>(statement));
    case StatementKind::kScope:
      return run_scoped(static_cast<const ScopeStatement&>(statement).body);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_output(const OutputStatement& statement) {
  CAIRN_TRY(const Value value, eval(*statement.value));
  CAIRN_TRY_VOID(put_str(*out_, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_if(const IfStatement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    CAIRN_TRY(const Value holds, eval(*condition));
    if (truthy(holds)) return run_body(body);
  }
  return run_body(statement.otherwise);
}

Result<Interpreter::Flow> Interpreter::run_for(const ForStatement& statement) {
  CAIRN_TRY(const Value items, eval(*statement.items));
  CAIRN_TRY(Value list, to_list(budget_, items));
  return loop_over(statement, std::move(list), 0);
}

// Whether an item passes the loop's `if`, which sees the loop's variables but not `loop`.
Result<bool> Interpreter::passes(const ForStatement& statement, const Value& item) {
  const Swap scope(scope_, inner_scope());
  CAIRN_TRY_VOID(assign(statement.target, item, *scope_));
  CAIRN_TRY(const Value holds, eval(*statement.test));
  return truthy(holds);
}

Result<Value> Interpreter::filtered(const ForStatement& statement, const Value& items) {
  std::vector<Value> kept;
  for (const Value& item : items.items()) {
    CAIRN_TRY(const bool keep_it, passes(statement, item));
    if (keep_it) kept.push_back(item);
  }
  return make_list(budget_, std::move(kept));
}

Result<Interpreter::Flow> Interpreter::loop_over(const ForStatement& statement, Value items, int64_t depth0) {
  // Items must be filtered before the body runs only if the body uses the loop's length; otherwise, as in Jinja, the
  // condition sees changes by earlier iterations.
  const bool filter_first = statement.test != nullptr && (statement.uses_loop || statement.recursive);
  if (filter_first) {
    CAIRN_TRY(items, filtered(statement, items));
  }
  CAIRN_TRY(auto loop, make_object<Loop>(budget_, items.depth(), statement, statement.recursive ? scope_ : nullptr,
                                         items, depth0));
  if (statement.recursive) CAIRN_TRY_VOID(keep(scope_));
  bool ran = false;
  for (const Value& item : items.items()) {
    CAIRN_TRY_VOID(budget_.step());
    ++loop->index0;
    if (statement.test != nullptr && !filter_first) {
      CAIRN_TRY(const bool keep_it, passes(statement, item));
      if (!keep_it) continue;
    }
    ran = true;
    const Swap scope(scope_, inner_scope());
    if (statement.uses_loop || statement.recursive) scope_->set(parsed_.loop_id, Value(std::shared_ptr<Object>(loop)));
    CAIRN_TRY_VOID(assign(statement.target, item, *scope_));
    CAIRN_TRY(const Flow flow, run_body(statement.body));
    if (flow == Flow::kBreak) break;
  }
  if (ran) return Flow::kNext;
  return run_scoped(statement.otherwise);
}

Result<Interpreter::Flow> Interpreter::run_scoped(const Body& body) {
  if (body.empty()) return Flow::kNext;
  const Swap scope(scope_, inner_scope());
  return run_body(body);
}

Result<void> Interpreter::assign(const Target& target, Value value, Scope& scope) {
  switch (target.kind) {
    case Target::Kind::kName:
      scope.set(target.id, std::move(value));
      return {};
    case Target::Kind::kNamespaceAttribute: {
      const Value* found = nullptr;
      for (const Scope* in = scope_.get(); in != nullptr && found == nullptr; in = in->parent.get())
        found = in->find(target.id);
      if (found == nullptr) return fail(Code::kInvalidArgument, "'{}' is undefined", parsed_.names[target.id]);
      auto* space = found->object<Namespace>();
      if (space == nullptr) return fail(Code::kInvalidArgument, "cannot assign attribute on non-namespace object");
      return set_namespace_attribute(budget_, *space, target.attribute, std::move(value));
    }
    case Target::Kind::kTuple:
      break;
  }
  if (!is_iterable(value))
    return fail(Code::kInvalidArgument, "cannot unpack non-iterable {} object", type_name(value));
  CAIRN_TRY(const Value list, to_list(budget_, value));
  const auto& items = list.items();
  if (items.size() < target.parts.size())
    return fail(Code::kInvalidArgument, "not enough values to unpack (expected {}, got {})", target.parts.size(),
                items.size());
  if (items.size() > target.parts.size())
    return fail(Code::kInvalidArgument, "too many values to unpack (expected {})", target.parts.size());
  for (size_t i = 0; i < items.size(); ++i) CAIRN_TRY_VOID(assign(target.parts[i], items[i], scope));
  return {};
}

Result<Interpreter::Flow> Interpreter::run_set(const SetStatement& statement) {
  CAIRN_TRY(Value value, eval(*statement.value));
  CAIRN_TRY_VOID(assign(statement.target, std::move(value), *scope_));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_set_block(const SetBlockStatement& statement) {
  Buffer text(budget_);
  Value value;
  {
    const Swap scope(scope_, inner_scope());
    {
      const Swap out(out_, &text);
      CAIRN_TRY(const Flow flow, run_body(statement.body));
      if (flow != Flow::kNext) return flow;
    }
    CAIRN_TRY(value, make_text(std::move(text)));
    CAIRN_TRY(value, apply_filters(std::move(value), statement.filters));
  }
  CAIRN_TRY_VOID(assign(statement.target, std::move(value), *scope_));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_macro(const MacroStatement& statement) {
  CAIRN_TRY(auto macro, make_object<Macro>(budget_, 0, statement.macro, scope_));
  CAIRN_TRY_VOID(keep(scope_));
  scope_->set(statement.id, Value(std::shared_ptr<Object>(std::move(macro))));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_call_block(const CallBlockStatement& statement) {
  CAIRN_TRY(auto macro, make_object<Macro>(budget_, 0, statement.caller, scope_));
  CAIRN_TRY_VOID(keep(scope_));
  const Value caller(std::shared_ptr<Object>(std::move(macro)));
  CAIRN_TRY(const Value result, eval_call(*statement.call, &caller));
  CAIRN_TRY_VOID(put_str(*out_, result));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_filter_block(const FilterBlockStatement& statement) {
  Buffer text(budget_);
  const Swap scope(scope_, inner_scope());
  {
    const Swap out(out_, &text);
    CAIRN_TRY(const Flow flow, run_body(statement.body));
    if (flow != Flow::kNext) return flow;
  }
  CAIRN_TRY(Value value, make_text(std::move(text)));
  CAIRN_TRY(value, apply_filters(std::move(value), statement.filters));
  CAIRN_TRY_VOID(put_str(*out_, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_with(const WithStatement& statement) {
  const ScopeRef scope_with = inner_scope();
  for (const auto& [target, expr] : statement.bindings) {
    CAIRN_TRY(Value value, eval(*expr));
    CAIRN_TRY_VOID(assign(target, std::move(value), *scope_with));
  }
  const Swap scope(scope_, scope_with);
  return run_body(statement.body);
}

}  // namespace cairn::jinja
