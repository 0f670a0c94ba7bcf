/// A parsed template: statements and expressions. Immutable, shared by every rendering and thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/interpret/args.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

class Interpreter;

using FilterFunction = Result<Value> (*)(Interpreter&, const Value& input, const Args&);
using TestFunction = Result<bool> (*)(Interpreter&, const Value& input, const Args&);

/// A variable's name, as its index in Program::names.
using NameId = uint32_t;

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kList,
  kDict,
  kUnary,
  kArithmetic,
  kLogic,
  kCompare,
  kConcat,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
};

struct Expr {
  Expr(ExprKind kind_of, int32_t line_of) : kind(kind_of), line(line_of) {}
  Expr(const Expr&) = delete;
  Expr& operator=(const Expr&) = delete;
  virtual ~Expr() = default;

  const ExprKind kind;
  const int32_t line;
  int32_t height = 1;  ///< levels of nested expressions, including itself; at most kJinjaParseDepthMax
};
using ExprPtr = std::unique_ptr<Expr>;
using ExprList = std::vector<ExprPtr>;

struct ConstExpr : Expr {
  ConstExpr(int32_t line_of, Value value_of) : Expr(ExprKind::kConst, line_of), value(std::move(value_of)) {}
  Value value;
};

struct NameExpr : Expr {
  NameExpr(int32_t line_of, NameId id_of) : Expr(ExprKind::kName, line_of), id(id_of) {}
  NameId id;
};

struct ListExpr : Expr {
  ListExpr(int32_t line_of, bool is_tuple) : Expr(ExprKind::kList, line_of), tuple(is_tuple) {}
  bool tuple;
  ExprList items;
};

struct DictExpr : Expr {
  explicit DictExpr(int32_t line_of) : Expr(ExprKind::kDict, line_of) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};

enum class UnaryOp : uint8_t { kNot, kNegate, kPlus };
struct UnaryExpr : Expr {
  UnaryExpr(int32_t line_of, UnaryOp op_of) : Expr(ExprKind::kUnary, line_of), op(op_of) {}
  UnaryOp op;
  ExprPtr operand;
};

enum class ArithmeticOp : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
/// first op1 e1 op2 e2 ..., from left to right. Flat, so that a long sum is not a deep tree.
struct ArithmeticExpr : Expr {
  explicit ArithmeticExpr(int32_t line_of) : Expr(ExprKind::kArithmetic, line_of) {}
  ExprPtr first;
  std::vector<std::pair<ArithmeticOp, ExprPtr>> rest;
};

struct LogicExpr : Expr {
  LogicExpr(int32_t line_of, bool is_and) : Expr(ExprKind::kLogic, line_of), all(is_and) {}
  bool all;  ///< true for `and`, false for `or`
  ExprList operands;
};

enum class CompareOp : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
struct CompareExpr : Expr {
  explicit CompareExpr(int32_t line_of) : Expr(ExprKind::kCompare, line_of) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct ConcatExpr : Expr {
  explicit ConcatExpr(int32_t line_of) : Expr(ExprKind::kConcat, line_of) {}
  ExprList operands;
};

struct ConditionalExpr : Expr {
  explicit ConditionalExpr(int32_t line_of) : Expr(ExprKind::kConditional, line_of) {}
  ExprPtr test, yes, no;  ///< without `else`, `no` is null
};

struct AttributeExpr : Expr {
  explicit AttributeExpr(int32_t line_of) : Expr(ExprKind::kAttribute, line_of) {}
  ExprPtr object;
  std::string name;
};

struct ItemExpr : Expr {
  explicit ItemExpr(int32_t line_of) : Expr(ExprKind::kItem, line_of) {}
  ExprPtr object, key;
};

struct SliceExpr : Expr {
  explicit SliceExpr(int32_t line_of) : Expr(ExprKind::kSlice, line_of) {}
  ExprPtr object, start, stop, step;  ///< null if left out
};

struct CallArgs {
  ExprList positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional, more_named;  ///< *list and **dict, or null
};

struct CallExpr : Expr {
  explicit CallExpr(int32_t line_of) : Expr(ExprKind::kCall, line_of) {}
  ExprPtr callee;
  CallArgs args;
};

struct FilterUse {
  std::string name;
  FilterFunction function = nullptr;  ///< null: unknown, which is an error when it is reached
  CallArgs args;
  int32_t line = 0;
};

struct FilterExpr : Expr {
  explicit FilterExpr(int32_t line_of) : Expr(ExprKind::kFilter, line_of) {}
  ExprPtr input;
  std::vector<FilterUse> filters;
};

struct TestExpr : Expr {
  explicit TestExpr(int32_t line_of) : Expr(ExprKind::kTest, line_of) {}
  ExprPtr input;
  std::string name;
  TestFunction function = nullptr;  ///< null: as in FilterUse
  CallArgs args;
  bool negated = false;
};

}  // namespace cairn::jinja
