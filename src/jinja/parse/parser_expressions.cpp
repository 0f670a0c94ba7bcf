// Expressions, from the loosest binding (conditional) to the tightest (literals).
#include <algorithm>
#include <optional>
#include <utility>

#include "jinja/interpret/functions.h"
#include "jinja/parse/parser.h"

namespace cairn::jinja {
namespace {

constexpr size_t kArgumentsMax = 255;

void adopt(Expr& parent, const ExprPtr& child) {
  if (child != nullptr) parent.height = std::max(parent.height, child->height + 1);
}

void adopt(Expr& parent, const CallArgs& args) {
  for (const ExprPtr& arg : args.positional) adopt(parent, arg);
  for (const auto& [name, arg] : args.named) adopt(parent, arg);
  adopt(parent, args.more_positional);
  adopt(parent, args.more_named);
}

std::optional<CompareOp> compare_op(std::string_view op) {
  if (op == "==") return CompareOp::kEqual;
  if (op == "!=") return CompareOp::kNotEqual;
  if (op == "<") return CompareOp::kLess;
  if (op == "<=") return CompareOp::kLessEqual;
  if (op == ">") return CompareOp::kGreater;
  if (op == ">=") return CompareOp::kGreaterEqual;
  return std::nullopt;
}

std::optional<ArithmeticOp> product_op(std::string_view op) {
  if (op == "*") return ArithmeticOp::kMultiply;
  if (op == "/") return ArithmeticOp::kDivide;
  if (op == "//") return ArithmeticOp::kFloorDivide;
  if (op == "%") return ArithmeticOp::kModulo;
  return std::nullopt;
}

std::optional<ArithmeticOp> sum_op(std::string_view op) {
  if (op == "+") return ArithmeticOp::kAdd;
  if (op == "-") return ArithmeticOp::kSubtract;
  return std::nullopt;
}

// Adds an operand to a chain of operators; starts a chain if `left` is not one of this kind.
void extend(ExprPtr& left, bool& is_chain, ArithmeticOp op, ExprPtr right) {
  if (!is_chain) {
    auto chain = std::make_unique<ArithmeticExpr>(left->line);
    adopt(*chain, left);
    chain->first = std::move(left);
    left = std::move(chain);
    is_chain = true;
  }
  auto& chain = static_cast<ArithmeticExpr&>(*left);
  adopt(chain, right);
  chain.rest.emplace_back(op, std::move(right));
}

}  // namespace

bool Parser::at_tuple_end(Until until) const {
  if (token().kind == TokenKind::kVariableEnd || token().kind == TokenKind::kBlockEnd) return true;
  if (until == Until::kParenthesis) return at_operator(")");
  return until == Until::kFor && at_name("recursive");
}

// Parses one expression, or several with commas between them.
Result<ExprPtr> Parser::tuple(bool with_conditional, Until until) {
  const int32_t begin = line();
  ExprList items;
  bool is_tuple = false;
  while (!at_tuple_end(until)) {
    CAIRN_TRY(ExprPtr item, with_conditional ? expression() : logic(false));
    items.push_back(std::move(item));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && until != Until::kParenthesis)
    return error(fmt::format("expected an expression, got {}", current_in_words()));
  auto node = std::make_unique<ListExpr>(begin, true);
  for (const ExprPtr& item : items) adopt(*node, item);
  node->items = std::move(items);
  return node;
}

// a if b else c
Result<ExprPtr> Parser::expression() {
  const Level level(depth_);
  CAIRN_TRY_VOID(check_depth());
  std::optional<Error> unknown_outside = std::exchange(unknown_, std::nullopt);
  CAIRN_TRY(ExprPtr yes, logic(false));
  const bool is_conditional = at_name("if");
  while (at_name("if")) {
    auto node = std::make_unique<ConditionalExpr>(line());
    skip();
    CAIRN_TRY(node->test, logic(false));
    if (skip_name("else")) {
      CAIRN_TRY(node->no, expression());
    }
    node->yes = std::move(yes);
    adopt(*node, node->test);
    adopt(*node, node->yes);
    adopt(*node, node->no);
    yes = std::move(node);
    CAIRN_TRY_VOID(check_height(*yes));
  }
  CAIRN_TRY_VOID(check_height(*yes));
  // A guarded expression may name an unknown filter, as long as it is not reached.
  if (is_conditional || unknown_outside.has_value()) unknown_ = std::move(unknown_outside);
  return yes;
}

// a or b or ..., where the operands are a and b and ...
Result<ExprPtr> Parser::logic(bool all) {
  const std::string_view word = all ? "and" : "or";
  const auto operand = [&] { return all ? negation() : logic(true); };
  CAIRN_TRY(ExprPtr first, operand());
  if (!at_name(word)) return first;
  auto node = std::make_unique<LogicExpr>(first->line, all);
  adopt(*node, first);
  node->operands.push_back(std::move(first));
  while (skip_name(word)) {
    CAIRN_TRY(ExprPtr next, operand());
    adopt(*node, next);
    node->operands.push_back(std::move(next));
  }
  return node;
}

Result<ExprPtr> Parser::negation() {
  if (!at_name("not")) return comparison();
  const Level level(depth_);
  CAIRN_TRY_VOID(check_depth());
  auto node = std::make_unique<UnaryExpr>(line(), UnaryOp::kNot);
  skip();
  CAIRN_TRY(node->operand, negation());
  adopt(*node, node->operand);
  return node;
}

Result<ExprPtr> Parser::comparison() {
  CAIRN_TRY(ExprPtr first, sum());
  std::unique_ptr<CompareExpr> node;
  while (true) {
    std::optional<CompareOp> op;
    if (token().kind == TokenKind::kOperator) op = compare_op(token().text);
    if (at_name("in")) op = CompareOp::kIn;
    if (at_name("not") && look().kind == TokenKind::kName && look().text == "in") {
      op = CompareOp::kNotIn;
      skip();
    }
    if (!op.has_value()) break;
    skip();
    if (node == nullptr) {
      node = std::make_unique<CompareExpr>(first->line);
      adopt(*node, first);
      node->first = std::move(first);
    }
    CAIRN_TRY(ExprPtr right, sum());
    adopt(*node, right);
    node->rest.emplace_back(*op, std::move(right));
  }
  if (node != nullptr) return node;
  return first;
}

Result<ExprPtr> Parser::sum() {
  CAIRN_TRY(ExprPtr left, concatenation());
  bool is_chain = false;
  while (token().kind == TokenKind::kOperator) {
    const std::optional<ArithmeticOp> op = sum_op(token().text);
    if (!op.has_value()) break;
    skip();
    CAIRN_TRY(ExprPtr right, concatenation());
    extend(left, is_chain, *op, std::move(right));
  }
  return left;
}

Result<ExprPtr> Parser::concatenation() {
  CAIRN_TRY(ExprPtr first, product());
  if (!at_operator("~")) return first;
  auto node = std::make_unique<ConcatExpr>(first->line);
  adopt(*node, first);
  node->operands.push_back(std::move(first));
  while (skip_operator("~")) {
    CAIRN_TRY(ExprPtr next, product());
    adopt(*node, next);
    node->operands.push_back(std::move(next));
  }
  return node;
}

Result<ExprPtr> Parser::product() {
  CAIRN_TRY(ExprPtr left, power());
  bool is_chain = false;
  while (token().kind == TokenKind::kOperator) {
    const std::optional<ArithmeticOp> op = product_op(token().text);
    if (!op.has_value()) break;
    skip();
    CAIRN_TRY(ExprPtr right, power());
    extend(left, is_chain, *op, std::move(right));
  }
  return left;
}

// Unlike Python's, Jinja's ** goes from left to right.
Result<ExprPtr> Parser::power() {
  CAIRN_TRY(ExprPtr left, unary(true));
  bool is_chain = false;
  while (skip_operator("**")) {
    CAIRN_TRY(ExprPtr right, unary(true));
    extend(left, is_chain, ArithmeticOp::kPower, std::move(right));
  }
  return left;
}

Result<ExprPtr> Parser::unary(bool with_filters) {
  ExprPtr node;
  if (at_operator("-") || at_operator("+")) {
    const Level level(depth_);
    CAIRN_TRY_VOID(check_depth());
    auto sign = std::make_unique<UnaryExpr>(line(), at_operator("-") ? UnaryOp::kNegate : UnaryOp::kPlus);
    skip();
    CAIRN_TRY(sign->operand, unary(false));
    adopt(*sign, sign->operand);
    node = std::move(sign);
  } else {
    CAIRN_TRY(node, primary());
  }
  CAIRN_TRY(node, postfix(std::move(node)));
  if (!with_filters) return node;
  return filters_and_tests(std::move(node));
}

Result<ExprPtr> Parser::primary() {
  const Token& first = token();
  switch (first.kind) {
    case TokenKind::kName: {
      const std::string& name = first.text;
      ExprPtr node;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        node = std::make_unique<ConstExpr>(first.line, Value(name == "true" || name == "True"));
      } else if (name == "none" || name == "None") {
        node = std::make_unique<ConstExpr>(first.line, Value());
      } else {
        note_read(name);
        node = std::make_unique<NameExpr>(first.line, name_id(name));
      }
      skip();
      return node;
    }
    case TokenKind::kString:
      return string_literal();
    case TokenKind::kInteger:
    case TokenKind::kFloat: {
      auto node = std::make_unique<ConstExpr>(
          first.line, first.kind == TokenKind::kInteger ? Value(first.integer) : Value(first.number));
      skip();
      return node;
    }
    default:
      break;
  }
  if (skip_operator("(")) {
    CAIRN_TRY(ExprPtr node, tuple(true, Until::kParenthesis));
    CAIRN_TRY_VOID(expect_operator(")"));
    return node;
  }
  if (at_operator("[")) return list_literal();
  if (at_operator("{")) return dict_literal();
  return error(fmt::format("expected an expression, got {}", current_in_words()));
}

// Adjacent string literals are joined.
Result<ExprPtr> Parser::string_literal() {
  const int32_t begin = line();
  std::string value;
  for (; token().kind == TokenKind::kString; skip()) value += token().text;
  return std::make_unique<ConstExpr>(begin, literal_text(std::move(value)));
}

Result<ExprPtr> Parser::list_literal() {
  auto node = std::make_unique<ListExpr>(line(), false);
  skip();
  while (!at_operator("]")) {
    CAIRN_TRY(ExprPtr item, expression());
    adopt(*node, item);
    node->items.push_back(std::move(item));
    if (!skip_operator(",")) break;
  }
  CAIRN_TRY_VOID(expect_operator("]"));
  return node;
}

Result<ExprPtr> Parser::dict_literal() {
  auto node = std::make_unique<DictExpr>(line());
  skip();
  while (!at_operator("}")) {
    CAIRN_TRY(ExprPtr key, expression());
    CAIRN_TRY_VOID(expect_operator(":"));
    CAIRN_TRY(ExprPtr value, expression());
    adopt(*node, key);
    adopt(*node, value);
    node->items.emplace_back(std::move(key), std::move(value));
    if (!skip_operator(",")) break;
  }
  CAIRN_TRY_VOID(expect_operator("}"));
  return node;
}

Result<ExprPtr> Parser::postfix(ExprPtr node) {
  while (true) {
    if (at_operator(".") || at_operator("[")) {
      CAIRN_TRY(node, subscript(std::move(node)));
    } else if (at_operator("(")) {
      CAIRN_TRY(node, call(std::move(node)));
    } else {
      return node;
    }
    CAIRN_TRY_VOID(check_height(*node));
  }
}

Result<ExprPtr> Parser::filters_and_tests(ExprPtr node) {
  while (true) {
    if (at_operator("|")) {
      auto filtered = std::make_unique<FilterExpr>(line());
      adopt(*filtered, node);
      filtered->input = std::move(node);
      while (skip_operator("|")) {
        CAIRN_TRY(FilterUse use, filter_use());
        adopt(*filtered, use.args);
        filtered->filters.push_back(std::move(use));
      }
      node = std::move(filtered);
    } else if (at_name("is")) {
      CAIRN_TRY(node, test(std::move(node)));
    } else if (at_operator("(")) {
      CAIRN_TRY(node, call(std::move(node)));
    } else {
      return node;
    }
    CAIRN_TRY_VOID(check_height(*node));
  }
}

// .name, .0, [key], [start:stop:step]
Result<ExprPtr> Parser::subscript(ExprPtr object) {
  const int32_t begin = line();
  if (skip_operator(".")) {
    if (token().kind == TokenKind::kName) {
      auto node = std::make_unique<AttributeExpr>(begin);
      node->name = token().text;
      skip();
      adopt(*node, object);
      node->object = std::move(object);
      return node;
    }
    if (token().kind != TokenKind::kInteger)
      return error(fmt::format("expected a name or a number behind '.', got {}", current_in_words()));
    auto node = std::make_unique<ItemExpr>(begin);
    node->key = std::make_unique<ConstExpr>(begin, Value(token().integer));
    skip();
    adopt(*node, object);
    node->object = std::move(object);
    return node;
  }
  skip();
  ExprPtr parts[3];
  int colons = 0;
  while (!at_operator("]")) {
    if (skip_operator(":")) {
      if (++colons > 2) return error("a slice has at most two ':'");
      continue;
    }
    if (parts[colons] != nullptr) return error(fmt::format("expected ']', got {}", current_in_words()));
    CAIRN_TRY(parts[colons], colons == 0 ? tuple(true, Until::kTag) : expression());
  }
  skip();
  if (colons == 0) {
    if (parts[0] == nullptr) return error_at(begin, "expected an expression between '[' and ']'");
    auto node = std::make_unique<ItemExpr>(begin);
    adopt(*node, object);
    adopt(*node, parts[0]);
    node->object = std::move(object);
    node->key = std::move(parts[0]);
    return node;
  }
  auto node = std::make_unique<SliceExpr>(begin);
  adopt(*node, object);
  for (const ExprPtr& part : parts) adopt(*node, part);
  node->object = std::move(object);
  node->start = std::move(parts[0]);
  node->stop = std::move(parts[1]);
  node->step = std::move(parts[2]);
  return node;
}

Result<ExprPtr> Parser::call(ExprPtr callee) {
  auto node = std::make_unique<CallExpr>(line());
  CAIRN_TRY(node->args, call_args());
  adopt(*node, callee);
  adopt(*node, node->args);
  node->callee = std::move(callee);
  return node;
}

// (a, b, *list, c=d, **dict)
Result<CallArgs> Parser::call_args() {
  const int32_t begin = line();
  skip();
  CallArgs args;
  while (!at_operator(")")) {
    bool in_order = args.more_named == nullptr;
    if (skip_operator("*")) {
      in_order = in_order && args.more_positional == nullptr;
      CAIRN_TRY(args.more_positional, expression());
    } else if (skip_operator("**")) {
      CAIRN_TRY(args.more_named, expression());
    } else if (token().kind == TokenKind::kName && look().kind == TokenKind::kOperator && look().text == "=") {
      std::string name = token().text;
      skip();
      skip();
      CAIRN_TRY(ExprPtr value, expression());
      for (const auto& [other, unused] : args.named)
        if (other == name) return error_at(begin, fmt::format("the argument '{}' is given twice", name));
      args.named.emplace_back(std::move(name), std::move(value));
    } else {
      in_order = in_order && args.more_positional == nullptr && args.named.empty();
      CAIRN_TRY(ExprPtr value, expression());
      args.positional.push_back(std::move(value));
    }
    if (!in_order) return error_at(begin, "invalid order of arguments in a call");
    if (args.positional.size() + args.named.size() > kArgumentsMax)
      return error_at(begin, fmt::format("a call has more than {} arguments", kArgumentsMax));
    if (!skip_operator(",")) break;
  }
  CAIRN_TRY_VOID(expect_operator(")"));
  return args;
}

Result<std::string> Parser::dotted_name() {
  CAIRN_TRY(std::string name, expect_name());
  while (skip_operator(".")) {
    CAIRN_TRY(const std::string part, expect_name());
    name += '.';
    name += part;
  }
  return name;
}

Result<FilterUse> Parser::filter_use() {
  FilterUse use;
  use.line = line();
  CAIRN_TRY(use.name, dotted_name());
  use.function = find_filter(use.name);
  if (use.function == nullptr) note_unknown(use.line, fmt::format("No filter named '{}'.", use.name));
  if (at_operator("(")) {
    CAIRN_TRY(use.args, call_args());
  }
  return use;
}

// is [not] name, is name(args), is name arg
Result<ExprPtr> Parser::test(ExprPtr input) {
  auto node = std::make_unique<TestExpr>(line());
  skip();
  node->negated = skip_name("not");
  CAIRN_TRY(node->name, dotted_name());
  node->function = find_test(node->name);
  if (node->function == nullptr) note_unknown(node->line, fmt::format("No test named '{}'.", node->name));
  const TokenKind kind = token().kind;
  const bool is_word = kind == TokenKind::kName && !at_name("else") && !at_name("or") && !at_name("and");
  const bool is_literal = kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat;
  if (at_operator("(")) {
    CAIRN_TRY(node->args, call_args());
  } else if (at_name("is")) {
    return error("tests cannot be chained with 'is'");
  } else if (is_word || is_literal || at_operator("[") || at_operator("{")) {
    CAIRN_TRY(ExprPtr arg, primary());
    CAIRN_TRY(arg, postfix(std::move(arg)));
    node->args.positional.push_back(std::move(arg));
  }
  adopt(*node, input);
  adopt(*node, node->args);
  node->input = std::move(input);
  return node;
}

}  // namespace cairn::jinja
