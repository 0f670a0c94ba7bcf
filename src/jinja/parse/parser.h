/// Parses tokens into statements and expressions, by recursive descent to a depth of at most kJinjaParseDepthMax.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "jinja/parse/ast_statement.h"
#include "jinja/parse/token.h"

namespace cairn::jinja {

/// Errors: kInvalidArgument with the line in `at`, kTooLarge.
Result<ParsedTemplate> parse_template(std::string_view source);

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Result<ParsedTemplate> run();

 private:
  /// Counts a level of recursion for its lifetime.
  struct Level {
    explicit Level(int32_t& depth_of) : depth(depth_of) { ++depth; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --depth; }
    int32_t& depth;
  };
  /// A name whose use in a body makes the body special: caller, kwargs, varargs in macros, loop in loops.
  struct Special {
    bool caller = false, kwargs = false, varargs = false, loop = false;
  };

  // Tokens.
  const Token& token() const { return tokens_[next_]; }
  const Token& look() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  int32_t line() const { return token().line; }
  bool at_operator(std::string_view op) const { return token().kind == TokenKind::kOperator && token().text == op; }
  bool at_name(std::string_view name) const { return token().kind == TokenKind::kName && token().text == name; }
  void skip() { next_ += next_ + 1 < tokens_.size(); }
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  Result<void> expect_operator(std::string_view op);
  Result<void> expect(TokenKind kind, std::string_view what);
  Result<std::string> expect_name();
  std::unexpected<Error> error_at(int32_t line, std::string message) const;
  std::unexpected<Error> error(std::string message) const { return error_at(line(), std::move(message)); }
  /// A description of the current token: "'end of block'", "'foo'".
  std::string current_in_words() const;
  Result<void> check_depth() const;
  Result<void> check_height(const Expr& expr) const;

  NameId name_id(std::string_view name);
  void note_read(std::string_view name);
  void note_unknown(int32_t line, std::string message);
  Result<void> check_unknown();

  // Statements: parser_statements.cpp.
  Result<Body> body_until(std::initializer_list<std::string_view> ends, int32_t opened_at, std::string_view opened);
  Result<Body> block(std::initializer_list<std::string_view> ends, int32_t opened_at, std::string_view opened);
  Result<void> end_tag(std::string_view name, int32_t opened_at, std::string_view opened);
  Result<StatementPtr> statement();
  Result<StatementPtr> for_statement();
  Result<StatementPtr> if_statement();
  Result<StatementPtr> set_statement();
  Result<StatementPtr> macro_statement();
  Result<StatementPtr> call_block();
  Result<StatementPtr> filter_block();
  Result<StatementPtr> with_statement();
  Result<StatementPtr> generation_statement();
  Result<void> signature(MacroBody& macro);
  Result<void> macro_body(MacroBody& macro, std::string_view tag, int32_t opened_at);
  Result<Target> target(bool allow_namespace);
  Result<Target> target_part();

  // Expressions: parser_expressions.cpp.
  enum class Until : uint8_t { kTag, kParenthesis, kFor };
  Result<ExprPtr> tuple(bool with_conditional, Until until);
  Result<ExprPtr> expression();
  Result<ExprPtr> logic(bool all);
  Result<ExprPtr> negation();
  Result<ExprPtr> comparison();
  Result<ExprPtr> sum();
  Result<ExprPtr> concatenation();
  Result<ExprPtr> product();
  Result<ExprPtr> power();
  Result<ExprPtr> unary(bool with_filters);
  Result<ExprPtr> primary();
  Result<ExprPtr> string_literal();
  Result<ExprPtr> list_literal();
  Result<ExprPtr> dict_literal();
  Result<ExprPtr> postfix(ExprPtr node);
  Result<ExprPtr> filters_and_tests(ExprPtr node);
  Result<ExprPtr> subscript(ExprPtr node);
  Result<ExprPtr> call(ExprPtr node);
  Result<ExprPtr> test(ExprPtr node);
  Result<CallArgs> call_args();
  Result<FilterUse> filter_use();
  Result<std::string> dotted_name();
  bool at_tuple_end(Until until) const;

  std::vector<Token> tokens_;
  size_t next_ = 0;
  int32_t depth_ = 0;
  int32_t loops_ = 0;              // number of loops around the statement, within its macro
  bool lenient_ = false;           // inside `if`: an unknown filter is an error only if it is reached
  std::optional<Error> unknown_;   // the first unknown filter or test of the current expression
  std::vector<Special> specials_;  // one for each enclosing macro and loop body
  std::unordered_map<std::string, NameId> name_ids_;
  ParsedTemplate result_;
};

}  // namespace cairn::jinja
