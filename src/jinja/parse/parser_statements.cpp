// Parses text, {{ }} and {% %}.
#include <algorithm>
#include <utility>

#include "jinja/interpret/functions.h"
#include "jinja/parse/parser.h"

namespace cairn::jinja {
namespace {

constexpr size_t kParametersMax = 255;

// Sets a value for the lifetime of a scope.
template <class T>
class Override {
 public:
  Override(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;
  ~Override() { place_ = before_; }

 private:
  T& place_;
  T before_;
};

std::string joined(std::initializer_list<std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) out += fmt::format("{}'{}'", out.empty() ? "" : " or ", name);
  return out;
}

}  // namespace

// Parses statements up to a tag of one of these names, which is then the current token. Without names: up to the
// template's end.
Result<Body> Parser::body_until(std::initializer_list<std::string_view> ends, int32_t opened_at,
                                std::string_view opened) {
  const Level level(depth_);
  CAIRN_TRY_VOID(check_depth());
  Body body;
  while (token().kind != TokenKind::kEnd) {
    if (token().kind == TokenKind::kData) {
      body.push_back(std::make_unique<TextStatement>(line(), token().text));
      skip();
    } else if (token().kind == TokenKind::kVariableBegin) {
      auto output = std::make_unique<OutputStatement>(line());
      skip();
      CAIRN_TRY(output->value, tuple(true, Until::kTag));
      CAIRN_TRY_VOID(expect(TokenKind::kVariableEnd, "'}}'"));
      body.push_back(std::move(output));
    } else {
      skip();
      if (token().kind == TokenKind::kName && std::find(ends.begin(), ends.end(), token().text) != ends.end())
        return body;
      CAIRN_TRY(StatementPtr next, statement());
      CAIRN_TRY_VOID(expect(TokenKind::kBlockEnd, "'%}'"));
      if (next != nullptr) body.push_back(std::move(next));
    }
    CAIRN_TRY_VOID(check_unknown());
  }
  if (ends.size() == 0) return body;
  return error_at(opened_at,
                  fmt::format("this '{}' is not closed; the template ends without {}", opened, joined(ends)));
}

// Parses the rest of an opening tag, and the statements after it.
Result<Body> Parser::block(std::initializer_list<std::string_view> ends, int32_t opened_at, std::string_view opened) {
  CAIRN_TRY_VOID(check_unknown());
  skip_operator(":");
  CAIRN_TRY_VOID(expect(TokenKind::kBlockEnd, "'%}'"));
  return body_until(ends, opened_at, opened);
}

// Parses one tag's statement up to its '%}'. Null for a tag that gives no statement.
Result<StatementPtr> Parser::statement() {
  if (token().kind != TokenKind::kName) return error(fmt::format("expected a tag's name, got {}", current_in_words()));
  const std::string& name = token().text;
  if (name == "if") return if_statement();
  if (name == "for") return for_statement();
  if (name == "set") return set_statement();
  if (name == "macro") return macro_statement();
  if (name == "call") return call_block();
  if (name == "filter") return filter_block();
  if (name == "with") return with_statement();
  if (name == "generation") return generation_statement();
  if (name == "break" || name == "continue") {
    if (loops_ == 0) return error(fmt::format("'{}' outside a loop", name));
    auto node =
        std::make_unique<PlainStatement>(name == "break" ? StatementKind::kBreak : StatementKind::kContinue, line());
    skip();
    return node;
  }
  for (const std::string_view other : {"extends", "include", "import", "from", "block", "autoescape", "do", "print"})
    if (name == other) return error(fmt::format("the tag '{}' is not supported in chat templates", name));
  return error(fmt::format("unknown tag '{}'", name));
}

Result<StatementPtr> Parser::for_statement() {
  auto node = std::make_unique<ForStatement>(line());
  skip();
  {
    const Override loops(loops_, loops_ + 1);
    CAIRN_TRY(node->target, target(false));
  }
  if (!skip_name("in")) return error(fmt::format("expected 'in', got {}", current_in_words()));
  CAIRN_TRY(node->items, tuple(false, Until::kFor));
  if (skip_name("if")) {
    CAIRN_TRY(node->test, expression());
  }
  node->recursive = skip_name("recursive");
  const Override lenient(lenient_, false);
  specials_.emplace_back();
  {
    const Override loops(loops_, loops_ + 1);
    CAIRN_TRY(node->body, block({"endfor", "else"}, node->line, "for"));
  }
  node->uses_loop = specials_.back().loop;
  specials_.pop_back();
  const bool has_else = at_name("else");
  skip();
  if (has_else) {
    CAIRN_TRY(node->otherwise, block({"endfor"}, node->line, "for"));
    skip();
  }
  return node;
}

Result<StatementPtr> Parser::if_statement() {
  auto node = std::make_unique<IfStatement>(line());
  const Override lenient(lenient_, true);
  while (true) {
    skip();  // if, elif
    CAIRN_TRY(ExprPtr condition, tuple(false, Until::kTag));
    CAIRN_TRY(Body body, block({"elif", "else", "endif"}, node->line, "if"));
    node->branches.emplace_back(std::move(condition), std::move(body));
    if (!at_name("elif")) break;
  }
  const bool has_else = at_name("else");
  skip();
  if (has_else) {
    CAIRN_TRY(node->otherwise, block({"endif"}, node->line, "if"));
    skip();
  }
  return node;
}

Result<StatementPtr> Parser::set_statement() {
  const int32_t begin = line();
  skip();
  CAIRN_TRY(Target place, target(true));
  if (skip_operator("=")) {
    auto node = std::make_unique<SetStatement>(begin);
    node->target = std::move(place);
    CAIRN_TRY(node->value, tuple(true, Until::kTag));
    return node;
  }
  auto node = std::make_unique<SetBlockStatement>(begin);
  node->target = std::move(place);
  const Override lenient(lenient_, false);
  while (skip_operator("|")) {
    CAIRN_TRY(FilterUse use, filter_use());
    node->filters.push_back(std::move(use));
  }
  CAIRN_TRY(node->body, block({"endset"}, begin, "set"));
  skip();
  return node;
}

// a | a, b | (a, b), c | namespace.attribute
Result<Target> Parser::target(bool allow_namespace) {
  if (allow_namespace && token().kind == TokenKind::kName && look().kind == TokenKind::kOperator &&
      look().text == ".") {
    Target node;
    node.kind = Target::Kind::kNamespaceAttribute;
    node.id = name_id(token().text);
    skip();
    skip();
    CAIRN_TRY(node.attribute, expect_name());
    return node;
  }
  CAIRN_TRY(Target first, target_part());
  if (!at_operator(",")) return first;
  Target node;
  node.kind = Target::Kind::kTuple;
  node.parts.push_back(std::move(first));
  while (skip_operator(",")) {
    if (at_name("in") || at_operator("=") || at_operator(")") || token().kind == TokenKind::kBlockEnd) break;
    CAIRN_TRY(Target next, target_part());
    node.parts.push_back(std::move(next));
  }
  return node;
}

Result<Target> Parser::target_part() {
  const Level level(depth_);
  CAIRN_TRY_VOID(check_depth());
  if (skip_operator("(")) {
    CAIRN_TRY(Target node, target(false));
    CAIRN_TRY_VOID(expect_operator(")"));
    return node;
  }
  CAIRN_TRY(const std::string name, expect_name());
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
    if (name == constant) return error(fmt::format("can't assign to '{}'", name));
  if (name == "loop" && loops_ > 0) return error("can't assign to the special variable 'loop' inside a loop");
  Target node;
  node.id = name_id(name);
  return node;
}

// (a, b=1)
Result<void> Parser::signature(MacroBody& macro) {
  CAIRN_TRY_VOID(expect_operator("("));
  while (!at_operator(")")) {
    CAIRN_TRY(std::string name, expect_name());
    if (skip_operator("=")) {
      CAIRN_TRY(ExprPtr missing, expression());
      macro.defaults.push_back(std::move(missing));
    } else if (!macro.defaults.empty()) {
      return error("a parameter without a default follows one with a default");
    }
    const NameId id = name_id(name);
    for (const auto& [other, unused] : macro.parameters)
      if (other == id) return error(fmt::format("the parameter '{}' is there twice", name));
    if (macro.parameters.size() == kParametersMax)
      return error(fmt::format("a macro has more than {} parameters", kParametersMax));
    macro.parameters.emplace_back(id, std::move(name));
    if (!skip_operator(",")) break;
  }
  return expect_operator(")");
}

// The body of a macro or call block, up to its closing tag.
Result<void> Parser::macro_body(MacroBody& macro, std::string_view tag, int32_t opened_at) {
  const Override lenient(lenient_, false);
  const Override loops(loops_, 0);
  const std::string end = fmt::format("end{}", tag);
  specials_.emplace_back();
  CAIRN_TRY(macro.body, block({end}, opened_at, tag));
  const Special special = specials_.back();
  specials_.pop_back();
  skip();
  const auto is_parameter = [&](std::string_view name) {
    return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                       [&](const auto& parameter) { return parameter.second == name; });
  };
  macro.uses_caller = special.caller && !is_parameter("caller");
  macro.uses_kwargs = special.kwargs && !is_parameter("kwargs");
  macro.uses_varargs = special.varargs && !is_parameter("varargs");
  macro.caller_id = name_id("caller");
  macro.kwargs_id = name_id("kwargs");
  macro.varargs_id = name_id("varargs");
  return {};
}

Result<StatementPtr> Parser::macro_statement() {
  auto node = std::make_unique<MacroStatement>(line());
  skip();
  CAIRN_TRY(node->macro.name, expect_name());
  node->id = name_id(node->macro.name);
  CAIRN_TRY_VOID(signature(node->macro));
  CAIRN_TRY_VOID(macro_body(node->macro, "macro", node->line));
  return node;
}

Result<StatementPtr> Parser::call_block() {
  auto node = std::make_unique<CallBlockStatement>(line());
  skip();
  if (at_operator("(")) CAIRN_TRY_VOID(signature(node->caller));
  CAIRN_TRY(ExprPtr called, expression());
  if (called->kind != ExprKind::kCall) return error_at(node->line, "'call' wants a call, like {% call name() %}");
  node->call.reset(static_cast<CallExpr*>(called.release()));
  CAIRN_TRY_VOID(macro_body(node->caller, "call", node->line));
  return node;
}

Result<StatementPtr> Parser::filter_block() {
  auto node = std::make_unique<FilterBlockStatement>(line());
  skip();
  const Override lenient(lenient_, false);
  do {
    CAIRN_TRY(FilterUse use, filter_use());
    node->filters.push_back(std::move(use));
  } while (skip_operator("|"));
  CAIRN_TRY(node->body, block({"endfilter"}, node->line, "filter"));
  skip();
  return node;
}

Result<StatementPtr> Parser::with_statement() {
  auto node = std::make_unique<WithStatement>(line());
  skip();
  while (token().kind != TokenKind::kBlockEnd) {
    CAIRN_TRY(Target place, target_part());
    CAIRN_TRY_VOID(expect_operator("="));
    CAIRN_TRY(ExprPtr value, expression());
    node->bindings.emplace_back(std::move(place), std::move(value));
    if (!skip_operator(",")) break;
  }
  const Override lenient(lenient_, false);
  CAIRN_TRY(node->body, block({"endwith"}, node->line, "with"));
  skip();
  return node;
}

// Marks the assistant's text, for training; rendering ignores the mark.
Result<StatementPtr> Parser::generation_statement() {
  auto node = std::make_unique<ScopeStatement>(line());
  skip();
  const Override lenient(lenient_, false);
  const Override loops(loops_, 0);
  CAIRN_TRY(node->body, block({"endgeneration"}, node->line, "generation"));
  skip();
  return node;
}

}  // namespace cairn::jinja
