// Base of the parser: tokens, names, limits. Statements and expressions have files of their own.
#include "jinja/parse/parser.h"

#include <algorithm>

namespace cairn::jinja {

Result<ParsedTemplate> parse_template(std::string_view source) {
  if (source.size() > kJinjaSourceBytesMax)
    return fail(Code::kTooLarge, "the chat template has {} bytes; the limit is {}", source.size(),
                kJinjaSourceBytesMax);
  CAIRN_TRY(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

Result<ParsedTemplate> Parser::run() {
  result_.loop_id = name_id("loop");
  CAIRN_TRY(result_.body, body_until({}, 1, "template"));
  return std::move(result_);
}

bool Parser::skip_operator(std::string_view op) {
  if (!at_operator(op)) return false;
  skip();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  skip();
  return true;
}

Result<void> Parser::expect_operator(std::string_view op) {
  if (skip_operator(op)) return {};
  return error(fmt::format("expected '{}', got {}", op, current_in_words()));
}

Result<void> Parser::expect(TokenKind kind, std::string_view what) {
  if (token().kind != kind) return error(fmt::format("expected {}, got {}", what, current_in_words()));
  skip();
  return {};
}

Result<std::string> Parser::expect_name() {
  if (token().kind != TokenKind::kName) return error(fmt::format("expected a name, got {}", current_in_words()));
  std::string name = token().text;
  skip();
  return name;
}

std::unexpected<Error> Parser::error_at(int32_t line, std::string message) const {
  return std::unexpected(Error{Code::kInvalidArgument, std::move(message), at_line(line)});
}

std::string Parser::current_in_words() const {
  switch (token().kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kBlockBegin:
      return "the begin of a block '{%'";
    case TokenKind::kBlockEnd:
      return "the end of the block '%}'";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "the end of the expression '}}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return fmt::format("'{}'", token().text);
  }
}

Result<void> Parser::check_depth() const {
  if (depth_ <= kJinjaParseDepthMax) return {};
  return std::unexpected(Error{Code::kTooLarge,
                               fmt::format("the chat template nests deeper than {} levels", kJinjaParseDepthMax),
                               at_line(line())});
}

Result<void> Parser::check_height(const Expr& expr) const {
  if (expr.height <= kJinjaParseDepthMax) return {};
  return std::unexpected(Error{Code::kTooLarge,
                               fmt::format("an expression nests deeper than {} levels", kJinjaParseDepthMax),
                               at_line(expr.line)});
}

NameId Parser::name_id(std::string_view name) {
  const auto [found, added] = name_ids_.try_emplace(std::string(name), static_cast<NameId>(result_.names.size()));
  if (added) result_.names.emplace_back(name);
  return found->second;
}

void Parser::note_unknown(int32_t line, std::string message) {
  if (!lenient_ && !unknown_.has_value()) unknown_ = Error{Code::kInvalidArgument, std::move(message), at_line(line)};
}

Result<void> Parser::check_unknown() {
  if (!unknown_.has_value()) return {};
  return std::unexpected(std::move(*unknown_));
}

void Parser::note_read(std::string_view name) {
  for (Special& special : specials_) {
    special.caller |= name == "caller";
    special.kwargs |= name == "kwargs";
    special.varargs |= name == "varargs";
    special.loop |= name == "loop";
  }
}

}  // namespace cairn::jinja
