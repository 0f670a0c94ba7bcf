/// The statements of a parsed template, and the whole template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/parse/ast.h"

namespace cairn::jinja {

enum class StatementKind : uint8_t {
  kText,
  kOutput,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,
  kBreak,
  kContinue,
};

struct Statement {
  Statement(StatementKind kind_of, int32_t line_of) : kind(kind_of), line(line_of) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  virtual ~Statement() = default;

  const StatementKind kind;
  const int32_t line;
};
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

/// `break` and `continue`, which have no further parts.
struct PlainStatement : Statement {
  using Statement::Statement;
};

struct TextStatement : Statement {
  TextStatement(int32_t line_of, std::string text_of)
      : Statement(StatementKind::kText, line_of), text(std::move(text_of)) {}
  std::string text;
};

struct OutputStatement : Statement {
  explicit OutputStatement(int32_t line_of) : Statement(StatementKind::kOutput, line_of) {}
  ExprPtr value;
};

/// A target of the assignment by `set` or `for`.
struct Target {
  enum class Kind : uint8_t { kName, kNamespaceAttribute, kTuple };
  Kind kind = Kind::kName;
  NameId id = 0;
  std::string attribute;
  std::vector<Target> parts;
};

struct ForStatement : Statement {
  explicit ForStatement(int32_t line_of) : Statement(StatementKind::kFor, line_of) {}
  Target target;
  ExprPtr items, test;  ///< test: the `if` part, or null
  bool recursive = false;
  bool uses_loop = false;  ///< whether the body uses the name `loop`
  Body body, otherwise;
};

struct IfStatement : Statement {
  explicit IfStatement(int32_t line_of) : Statement(StatementKind::kIf, line_of) {}
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};

struct SetStatement : Statement {
  explicit SetStatement(int32_t line_of) : Statement(StatementKind::kSet, line_of) {}
  Target target;
  ExprPtr value;
};

struct SetBlockStatement : Statement {
  explicit SetBlockStatement(int32_t line_of) : Statement(StatementKind::kSetBlock, line_of) {}
  Target target;
  std::vector<FilterUse> filters;
  Body body;
};

/// A callable body: a macro's parameters and body, or those of a call block.
struct MacroBody {
  std::string name;  ///< empty for a call block
  std::vector<std::pair<NameId, std::string>> parameters;
  ExprList defaults;  ///< those of the last parameters
  Body body;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
  NameId caller_id = 0, kwargs_id = 0, varargs_id = 0;
};

struct MacroStatement : Statement {
  explicit MacroStatement(int32_t line_of) : Statement(StatementKind::kMacro, line_of) {}
  NameId id = 0;
  MacroBody macro;
};

struct CallBlockStatement : Statement {
  explicit CallBlockStatement(int32_t line_of) : Statement(StatementKind::kCallBlock, line_of) {}
  std::unique_ptr<CallExpr> call;
  MacroBody caller;
};

struct FilterBlockStatement : Statement {
  explicit FilterBlockStatement(int32_t line_of) : Statement(StatementKind::kFilterBlock, line_of) {}
  std::vector<FilterUse> filters;
  Body body;
};

struct WithStatement : Statement {
  explicit WithStatement(int32_t line_of) : Statement(StatementKind::kWith, line_of) {}
  std::vector<std::pair<Target, ExprPtr>> bindings;
  Body body;
};

/// A body with its own scope: `generation`.
struct ScopeStatement : Statement {
  explicit ScopeStatement(int32_t line_of) : Statement(StatementKind::kScope, line_of) {}
  Body body;
};

struct ParsedTemplate {
  Body body;
  std::vector<std::string> names;  ///< by NameId
  NameId loop_id = 0;
};

}  // namespace cairn::jinja
