/// Interprets a parsed template and writes its rendering. One per rendering; single-threaded.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "jinja/parse/ast_statement.h"
#include "jinja/value/budget.h"
#include "jinja/value/object.h"

namespace cairn::jinja {

class Interpreter {
 public:
  /// `parsed` and `budget` outlive the interpreter.
  Interpreter(const ParsedTemplate& parsed, Budget& budget, std::time_t now);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter();

  /// Sets a variable of the template, before run().
  void set_variable(NameId id, Value value) { scope_->set(id, std::move(value)); }
  Result<Rendering> run();

  // The budget, for filters, tests, methods and functions.
  Budget& budget() { return budget_; }
  std::time_t now() const { return now_; }
  Result<Value> call(const Value& callee, const Args& args);
  /// Keeps an object that could become part of a cycle until the end, when its references are dropped.
  Result<void> keep(std::shared_ptr<Object> object);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Statements: interpreter_statements.cpp.
  Result<Flow> run_body(const Body& body);
  Result<Flow> run_statement(const Statement& statement);
  Result<Flow> run_output(const OutputStatement& statement);
  Result<Flow> run_for(const ForStatement& statement);
  Result<Flow> run_if(const IfStatement& statement);
  Result<Flow> run_set(const SetStatement& statement);
  Result<Flow> run_set_block(const SetBlockStatement& statement);
  Result<Flow> run_macro(const MacroStatement& statement);
  Result<Flow> run_call_block(const CallBlockStatement& statement);
  Result<Flow> run_filter_block(const FilterBlockStatement& statement);
  Result<Flow> run_with(const WithStatement& statement);
  Result<Flow> loop_over(const ForStatement& statement, Value items, int64_t depth0);
  Result<bool> passes(const ForStatement& statement, const Value& item);
  Result<Value> filtered(const ForStatement& statement, const Value& items);
  Result<void> assign(const Target& target, Value value, Scope& scope);
  Result<Flow> run_scoped(const Body& body);

  // Expressions: interpreter_expressions.cpp.
  Result<Value> eval(const Expr& expr);
  Result<Value> eval_kind(const Expr& expr);
  Result<Value> eval_name(const NameExpr& expr);
  Result<Value> eval_list(const ListExpr& expr);
  Result<Value> eval_dict(const DictExpr& expr);
  Result<Value> eval_unary(const UnaryExpr& expr);
  Result<Value> eval_arithmetic(const ArithmeticExpr& expr);
  Result<Value> eval_logic(const LogicExpr& expr);
  Result<Value> eval_compare(const CompareExpr& expr);
  Result<Value> eval_concat(const ConcatExpr& expr);
  Result<Value> eval_conditional(const ConditionalExpr& expr);
  Result<Value> eval_slice(const SliceExpr& expr);
  Result<Value> eval_call(const CallExpr& expr, const Value* caller);
  Result<Value> eval_filter(const FilterExpr& expr);
  Result<Value> eval_test(const TestExpr& expr);
  Result<Args> eval_args(const CallArgs& args);
  Result<Value> apply_filters(Value value, const std::vector<FilterUse>& filters);

  // Calls: interpreter_calls.cpp.
  Result<Value> call_macro(const Macro& macro, const Args& args);
  Result<void> bind_macro(const MacroBody& macro, const Args& args, Scope& scope);
  Result<Value> call_loop(const Loop& loop, const Args& args);
  /// Runs `list.append(item)` for a list that the template wrote itself and that has a name; false: it is another call.
  Result<bool> append_to_own(const CallExpr& expr);
  /// Keeps a scope that an object holds, which is emptied at the end.
  Result<void> keep(const ScopeRef& scope);
  ScopeRef inner_scope() const;

  const ParsedTemplate& parsed_;
  Budget& budget_;
  std::time_t now_;
  ScopeRef scope_;
  Buffer* out_ = nullptr;
  std::vector<std::shared_ptr<Object>> kept_objects_;
  std::vector<ScopeRef> kept_scopes_;
};

/// Sets a value for the lifetime of a C++ scope.
template <class T>
class Swap {
 public:
  Swap(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  Swap(const Swap&) = delete;
  Swap& operator=(const Swap&) = delete;
  ~Swap() { place_ = std::move(before_); }

 private:
  T& place_;
  T before_;
};

}  // namespace cairn::jinja
