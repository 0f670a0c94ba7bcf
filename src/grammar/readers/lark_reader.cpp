#include "grammar/readers/lark_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text/json.h"
#include "grammar/readers/characters.h"
#include "grammar/readers/ebnf_rules.h"
#include "grammar/readers/regex_reader.h"
#include "grammar/readers/substring.h"
#include "grammar/readers/text_cursor.h"

namespace cairn::grammar {

namespace {

/// The terminals of Lark's library `common`.
constexpr std::pair<std::string_view, std::string_view> kLarkCommon[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"NUMBER", "(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER", "[+-]?(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"ESCAPED_STRING", R"("(?:[^"\\\n]|\\.)*")"},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

/// The rule of what may stand between terminals; no name of a grammar begins so.
constexpr std::string_view kLarkIgnored = "%ignore";

bool is_lark_name_character(char c) { return is_ascii_letter(c) || is_ascii_digit(c) || c == '_'; }

bool is_lark_terminal(std::string_view name) {
  const auto letter = std::ranges::find_if(name, [](char c) { return c != '_'; });
  return letter != name.end() && is_ascii_upper(*letter);
}

class LarkReader {
 public:
  LarkReader(GrammarBuilder& builder, std::string_view text, Spelling spelling, std::optional<AddSchema> add_schema)
      : cursor_(text),
        rules_(builder),
        spelling_(spelling),
        add_schema_(add_schema),
        ignored_(rules_.rule(kLarkIgnored, 0)) {}

  /// Where `start` is defined.
  std::string place() const { return cursor_.place(start_); }

  Result<SymbolId> read() {
    CAIRN_TRY_VOID(cursor_.check());
    for (skip_space(true); !cursor_.at_end(); skip_space(true)) {
      CAIRN_TRY_VOID(statement());
      skip_space(false);
      if (!cursor_.at_end() && !at_line_end()) return cursor_.error(cursor_.offset(), "expected the end of the line");
      if (rules_.size() > kGrammarRulesMax)
        return cursor_.error(cursor_.offset(), fmt::format("there are more than {} rules", kGrammarRulesMax),
                             Code::kTooLarge);
    }
    return finish();
  }

 private:
  // ---- Space and names ----

  bool at_line_end() const { return cursor_.peek() == '\n' || cursor_.peek() == '\r'; }

  void skip_space(bool over_lines) {
    for (;;) {
      cursor_.take_while(
          [over_lines](char c) { return c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r')); });
      if (cursor_.peek() != '#' && !cursor_.sees("//")) return;
      cursor_.take_while([](char c) { return c != '\n' && c != '\r'; });
    }
  }

  Result<std::string_view> take_name() {
    const size_t begin = cursor_.offset();
    cursor_.take_while(is_lark_name_character);
    while (cursor_.peek() == '-' && is_lark_name_character(cursor_.peek(1))) {  // llguidance's; -> is none
      cursor_.take("-");
      cursor_.take_while(is_lark_name_character);
    }
    const std::string_view name = cursor_.text().substr(begin, cursor_.offset() - begin);
    const auto letter = std::ranges::find_if(name, [](char c) { return c != '_'; });
    if (letter == name.end() || is_ascii_digit(*letter)) return cursor_.error(begin, "expected a name");
    return name;
  }

  std::unexpected<Error> unsupported(size_t offset, std::string message) const {
    return cursor_.error(offset, std::move(message), Code::kUnsupported);
  }

  // ---- Statements ----

  Result<void> statement() {
    const size_t begin = cursor_.offset();
    if (cursor_.take("%ignore")) return ignore();
    if (cursor_.take("%import")) return import();
    if (cursor_.take("%llguidance")) return options();
    if (cursor_.take("%")) {
      const std::string_view name = cursor_.take_while(is_lark_name_character);
      return unsupported(begin, fmt::format("the directive %{} is not read", name));
    }
    return definition();
  }

  // %llguidance {}: llguidance's options, none of which is read.
  Result<void> options() {
    skip_space(false);
    const size_t begin = cursor_.offset();
    if (cursor_.take("{")) {
      skip_space(true);
      if (cursor_.take("}")) return {};
    }
    return unsupported(begin, "options of llguidance are not read; only an empty {} is");
  }

  // [capture], [capture="name", max_tokens=5] behind a rule's name. A name for what is taken changes no text; how many
  // tokens a rule may have is said to be left open.
  Result<void> attributes() {
    if (!cursor_.take("[")) return {};
    for (;;) {
      skip_space(true);
      const size_t begin = cursor_.offset();
      CAIRN_TRY(const std::string_view name, take_name());
      if (name != "capture" && name != "max_tokens")
        return unsupported(begin, fmt::format("the attribute {} of a rule is not read", name));
      skip_space(true);
      if (cursor_.take("=")) {
        skip_space(true);
        if (cursor_.peek() == '"') {
          CAIRN_TRY_VOID(quoted());
        } else if (cursor_.take_while(is_lark_name_character).empty()) {
          return cursor_.error(cursor_.offset(), fmt::format("expected a value of {}", name));
        }
      }
      if (name == "max_tokens" && !std::exchange(told_of_tokens_, true))
        log_info("Lark, {}: max_tokens of a rule is not held to; max_tokens of the request is", cursor_.place(begin));
      skip_space(true);
      if (cursor_.take("]")) return {};
      if (!cursor_.take(",")) return cursor_.error(cursor_.offset(), "expected , or ]");
    }
  }

  Result<void> ignore() {
    in_terminal_ = true;
    skip_space(false);
    CAIRN_TRY(const ExpressionId what, alternatives(0));
    ignores_.push_back(what);
    return {};
  }

  // %import common.NAME, %import common.NAME -> OTHER, %import common (NAME, ...)
  Result<void> import() {
    skip_space(false);
    const size_t begin = cursor_.offset();
    if (!cursor_.take("common")) return unsupported(begin, "only the library common can be imported from");
    if (cursor_.take(".")) {
      const size_t name_begin = cursor_.offset();
      CAIRN_TRY(const std::string_view name, take_name());
      skip_space(false);
      std::string_view as = name;
      if (cursor_.take("->")) {
        skip_space(false);
        CAIRN_TRY(as, take_name());
      }
      return import_as(name, as, name_begin);
    }
    skip_space(false);
    if (!cursor_.take("(")) return cursor_.error(cursor_.offset(), "expected a name of the library common");
    for (;;) {
      skip_space(true);
      const size_t name_begin = cursor_.offset();
      CAIRN_TRY(const std::string_view name, take_name());
      CAIRN_TRY_VOID(import_as(name, name, name_begin));
      skip_space(true);
      if (cursor_.take(")")) return {};
      if (!cursor_.take(",")) return cursor_.error(cursor_.offset(), "expected , or )");
    }
  }

  Result<void> import_as(std::string_view name, std::string_view as, size_t offset) {
    const auto* const found =
        std::ranges::find(kLarkCommon, name, &std::pair<std::string_view, std::string_view>::first);
    if (found == std::end(kLarkCommon))
      return unsupported(offset, fmt::format("the library common has no {} here", name));
    if (!is_lark_terminal(as)) return cursor_.error(offset, "a terminal's name is in capital letters");
    const RuleId id = rules_.rule(as, offset);
    if (rules_.is_defined(id)) return cursor_.error(offset, fmt::format("{} is defined twice", as));
    CAIRN_TRY(const RegexId regex, read_regex(rules_.regexes(), found->second));
    rules_.define(id, rules_.regex(regex));
    return {};
  }

  Result<void> definition() {
    cursor_.take_while([](char c) { return c == '?' || c == '!'; });
    const size_t begin = cursor_.offset();
    CAIRN_TRY(const std::string_view name, take_name());
    if (cursor_.peek() == '{') return unsupported(begin, "templates are not read");
    CAIRN_TRY_VOID(attributes());
    skip_space(false);
    if (cursor_.take(".")) {  // a priority
      cursor_.take("-");
      CAIRN_TRY_VOID(take_count(cursor_));
      skip_space(false);
    }
    if (!cursor_.take(":")) return cursor_.error(cursor_.offset(), fmt::format("expected : after {}", name));
    const RuleId id = rules_.rule(name, begin);
    if (rules_.is_defined(id)) return cursor_.error(begin, fmt::format("{} is defined twice", name));
    in_terminal_ = is_lark_terminal(name);
    if (in_terminal_) terminals_.emplace_back(id, begin);
    skip_space(false);
    CAIRN_TRY(const ExpressionId body, alternatives(0));
    rules_.define(id, body);
    if (name == "start") start_ = begin;
    return {};
  }

  Result<SymbolId> finish() {
    rules_.define(ignored_, rules_.repeat(rules_.choice(std::move(ignores_)), 0, std::nullopt));
    const std::optional<RuleId> start = rules_.find("start");
    if (!start || !rules_.is_defined(*start)) return cursor_.error(0, "there is no rule named start");
    if (const auto missing = rules_.undefined())
      return cursor_.error(missing->offset, fmt::format("{} is not defined", missing->name));
    // What is ignored may also stand before the first terminal.
    const RuleId whole = rules_.rule("%start", 0);
    rules_.define(whole, rules_.sequence({rules_.reference(ignored_), rules_.reference(*start)}));
    for (const auto& [id, offset] : terminals_)
      if (rules_.recursive(std::span(&id, 1))) return cursor_.error(offset, "a terminal refers to itself");
    auto made = rules_.write(whole);
    if (!made && made.error().at.empty()) made.error().at = place();
    return made;
  }

  // ---- Expressions ----

  Result<ExpressionId> alternatives(int depth) {
    std::vector<ExpressionId> choices;
    for (;;) {
      CAIRN_TRY(const ExpressionId next, sequence(depth));
      choices.push_back(next);
      if (cursor_.take("->")) {  // an alias
        skip_space(false);
        CAIRN_TRY_VOID(take_name());
      }
      const size_t end = cursor_.offset();
      skip_space(true);
      if (!cursor_.take("|")) {
        if (depth == 0) cursor_.move_to(end);
        return rules_.choice(std::move(choices));
      }
      skip_space(true);
    }
  }

  // Items up to a | or -> or a closing bracket or, outside of brackets, the line's end.
  Result<ExpressionId> sequence(int depth) {
    std::vector<ExpressionId> parts;
    for (;;) {
      skip_space(depth > 0);
      const char c = cursor_.peek();
      if (cursor_.at_end() || at_line_end() || c == '|' || cursor_.sees("->")) break;
      if (depth > 0 && (c == ')' || c == ']')) break;
      CAIRN_TRY(ExpressionId part, item(depth));
      CAIRN_TRY(part, repeated(part));
      parts.push_back(part);
    }
    return rules_.sequence(std::move(parts));
  }

  // In a rule, a terminal is followed by what is ignored.
  ExpressionId terminal(ExpressionId inner) {
    return in_terminal_ ? inner : rules_.sequence({inner, rules_.reference(ignored_)});
  }

  Result<ExpressionId> item(int depth) {
    const size_t begin = cursor_.offset();
    switch (cursor_.peek()) {
      case '"':
        return literal();
      case '/':
        return regex();
      case '(':
      case '[':
        return group(depth);
      case '<':
        return unsupported(begin, "references to tokens are not read");
      case '%':
        return embedded();
      case '@':
        return unsupported(begin, "references to other grammars are not read");
      case '&':
      case '~':
        return unsupported(begin, "the operators & and ~ of terminals are not read");
      case '*':
      case '+':
      case '?':
        return cursor_.error(begin, "there is nothing to repeat");
      default:
        break;
    }
    cursor_.take("!");
    CAIRN_TRY(const std::string_view name, take_name());
    if (cursor_.peek() == '{' && !is_ascii_digit(cursor_.peek(1)) && cursor_.peek(1) != ',')
      return unsupported(begin, "templates are not read");
    const ExpressionId reference = rules_.reference(rules_.rule(name, begin));
    if (is_lark_terminal(name)) return terminal(reference);
    if (in_terminal_) return cursor_.error(begin, fmt::format("a terminal cannot refer to the rule {}", name));
    return reference;
  }

  Result<ExpressionId> group(int depth) {
    const size_t begin = cursor_.offset();
    if (depth >= kGrammarDepthMax)
      return cursor_.error(begin, fmt::format("groups are nested deeper than {}", kGrammarDepthMax), Code::kTooLarge);
    const bool optional = cursor_.take("[");
    if (!optional) cursor_.take("(");
    CAIRN_TRY(const ExpressionId inner, alternatives(depth + 1));
    if (!cursor_.take(optional ? "]" : ")")) return cursor_.error(begin, "the group does not end");
    return optional ? rules_.repeat(inner, 0, 1) : inner;
  }

  // ---- What stands in JSON ----

  Result<ExpressionId> embedded() {
    const size_t begin = cursor_.offset();
    const bool schema = cursor_.take("%json");
    if (!schema && !cursor_.take("%regex")) return unsupported(begin, "only %json and %regex are read within a rule");
    CAIRN_TRY(const nlohmann::ordered_json value, json_object());
    if (!schema) {
      const Result<RegexId> made = read_substring(rules_.regexes(), value, spelling_);
      if (!made) return cursor_.error(begin, "%regex: " + made.error().message, made.error().code);
      return terminal(rules_.regex(*made));
    }
    if (in_terminal_)
      return cursor_.error(begin, "a terminal cannot have a schema; give the rule a name in small letters");
    if (!add_schema_) return unsupported(begin, "schemas (%json) are read in the grammar of an answer only");
    if (++schemas_ > kLarkSchemasMax)
      return cursor_.error(begin, fmt::format("there are more than {} schemas", kLarkSchemasMax), Code::kTooLarge);
    const Result<SymbolId> made = (*add_schema_)(rules_.builder(), value);
    if (!made) return cursor_.error(begin, "%json: " + made.error().text(), made.error().code);
    return terminal(rules_.symbol(*made));
  }

  // From a { to the } that ends it.
  Result<nlohmann::ordered_json> json_object() {
    skip_space(true);
    const size_t begin = cursor_.offset();
    if (cursor_.peek() != '{') return cursor_.error(begin, "expected {");
    size_t depth = 0;
    do {
      const char c = cursor_.peek();
      if (cursor_.at_end()) return cursor_.error(begin, "the JSON does not end");
      if (c == '"') {
        skip_json_string();
        continue;
      }
      if (c == '{') ++depth;
      if (c == '}') --depth;
      cursor_.move_to(cursor_.offset() + 1);
    } while (depth > 0);
    auto value = read_json(cursor_.text().substr(begin, cursor_.offset() - begin));
    if (!value) return cursor_.error(begin, "the JSON " + value.error().message, value.error().code);
    return *std::move(value);
  }

  void skip_json_string() {
    const std::string_view text = cursor_.text();
    size_t at = cursor_.offset() + 1;
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    cursor_.move_to(std::min(at + 1, text.size()));
  }

  // ---- Terminals ----

  Result<char32_t> character() {
    const size_t begin = cursor_.offset();
    if (!cursor_.take("\\")) return cursor_.take_character();
    if (cursor_.at_end()) return cursor_.error(begin, "nothing follows the backslash");
    const char32_t c = cursor_.take_character();
    switch (c) {
      case 'x':
        return take_hex_character(cursor_, begin, 2);
      case 'u':
        return take_hex_character(cursor_, begin, 4);
      case 'U':
        return take_hex_character(cursor_, begin, 8);
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case '\\':
      case '"':
      case '\'':
      case '/':
        return c;
      default:
        return cursor_.error(begin, "unknown escape");
    }
  }

  Result<std::u32string> quoted() {
    const size_t begin = cursor_.offset();
    if (!cursor_.take("\"")) return cursor_.error(begin, "expected a literal");
    std::u32string text;
    while (!cursor_.take("\"")) {
      if (cursor_.at_end() || at_line_end()) return cursor_.error(begin, "the literal does not end");
      CAIRN_TRY(const char32_t next, character());
      text += next;
    }
    return text;
  }

  RegexId in_any_case(char32_t character) {
    const auto [known, is_new] = in_any_case_.try_emplace(character);
    if (is_new) {
      const CharacterSet set = CharacterSet{{character, character}}.with_case_variants();
      known->second = spell(rules_.regexes(), set, spelling_);
    }
    return known->second;
  }

  Result<ExpressionId> literal() {
    const size_t begin = cursor_.offset();
    CAIRN_TRY(const std::u32string text, quoted());
    if (cursor_.take("..")) {
      CAIRN_TRY(const std::u32string last, quoted());
      if (text.size() != 1 || last.size() != 1) return cursor_.error(begin, "a range is between two characters");
      if (last < text) return cursor_.error(begin, "the range's ends are out of order");
      return terminal(rules_.regex(spell(rules_.regexes(), CharacterSet{{text.front(), last.front()}}, spelling_)));
    }
    if (cursor_.peek() == 'i' && !is_lark_name_character(cursor_.peek(1))) {
      cursor_.take("i");
      std::vector<RegexId> parts;
      for (const char32_t c : text) parts.push_back(in_any_case(c));
      return terminal(rules_.regex(rules_.regexes().sequence(parts)));
    }
    std::string bytes;
    for (const char32_t c : text) utf8_append(bytes, c);
    return terminal(rules_.regex(spell(rules_.regexes(), bytes, spelling_)));
  }

  Result<ExpressionId> regex() {
    const size_t begin = cursor_.offset();
    if (++regexes_ > kLarkRegexesMax)
      return cursor_.error(begin, fmt::format("there are more than {} regular expressions", kLarkRegexesMax),
                           Code::kTooLarge);
    cursor_.take("/");
    while (!cursor_.at_end() && !at_line_end() && cursor_.peek() != '/') {
      cursor_.take("\\");
      if (!cursor_.at_end() && !at_line_end()) cursor_.take_character();
    }
    const std::string_view pattern = cursor_.text().substr(begin + 1, cursor_.offset() - begin - 1);
    if (!cursor_.take("/")) return cursor_.error(begin, "the regular expression does not end");
    RegexOptions options{.spelling = spelling_, .dot_ends_at_newline_only = true, .assertions = false};
    for (; is_ascii_letter(cursor_.peek()); cursor_.move_to(cursor_.offset() + 1)) {
      switch (cursor_.peek()) {
        case 'i':
          options.ignore_case = true;
          break;
        case 'm':
          options.multiline = true;
          break;
        case 's':
          options.dot_all = true;
          break;
        case 'u':
        case 'l':
          break;
        default:
          return unsupported(cursor_.offset(), fmt::format("the flag {} is not read", cursor_.peek()));
      }
    }
    const Result<RegexId> made = read_regex(rules_.regexes(), pattern, options);
    if (!made) {
      size_t inner = 0;
      const std::string& at = made.error().at;
      std::from_chars(at.data(), at.data() + at.size(), inner);
      return cursor_.error(begin + 1 + std::min(inner, pattern.size()), made.error().message, made.error().code);
    }
    return terminal(rules_.regex(*made));
  }

  // ---- Repetition ----

  Result<ExpressionId> repeated(ExpressionId inner) {
    skip_space(false);
    if (cursor_.take("*")) return rules_.repeat(inner, 0, std::nullopt);
    if (cursor_.take("+")) return rules_.repeat(inner, 1, std::nullopt);
    if (cursor_.take("?")) return rules_.repeat(inner, 0, 1);
    if (cursor_.take("~")) return counted(inner, "..", "");
    if (cursor_.take("{")) return counted(inner, ",", "}");
    return inner;
  }

  Result<ExpressionId> counted(ExpressionId inner, std::string_view separator, std::string_view end) {
    skip_space(false);
    const size_t begin = cursor_.offset();
    const bool open = !end.empty();  // whether counts may be left out
    uint32_t min = 0;
    if (!open || cursor_.peek() != ',') {
      CAIRN_TRY(min, take_count(cursor_));
    }
    std::optional<uint32_t> max = min;
    skip_space(false);
    if (cursor_.take(separator)) {
      skip_space(false);
      max.reset();
      if (!open || is_ascii_digit(cursor_.peek())) {
        CAIRN_TRY(max, take_count(cursor_));
      }
      skip_space(false);
    }
    if (!cursor_.take(end)) return cursor_.error(begin, "the counts of the repetition do not end");
    if (max && *max < min) return cursor_.error(begin, "the maximum of the repetition is below its minimum");
    return rules_.repeat(inner, min, max);
  }

  TextCursor cursor_;
  EbnfRules rules_;
  Spelling spelling_;
  std::optional<AddSchema> add_schema_;
  RuleId ignored_;
  std::vector<ExpressionId> ignores_;
  std::vector<std::pair<RuleId, size_t>> terminals_;  // and where they are defined
  std::map<char32_t, RegexId> in_any_case_;
  size_t regexes_ = 0;
  size_t schemas_ = 0;
  size_t start_ = 0;
  bool told_of_tokens_ = false;
  bool in_terminal_ = false;
};

}  // namespace

Result<SymbolId> add_lark(GrammarBuilder& builder, std::string_view text, Spelling spelling,
                          std::optional<AddSchema> add_schema) {
  return LarkReader(builder, text, spelling, add_schema).read();
}

Result<std::shared_ptr<const Grammar>> read_lark(std::string_view text, std::optional<AddSchema> add_schema) {
  GrammarBuilder builder;
  LarkReader reader(builder, text, Spelling::kUtf8, add_schema);
  CAIRN_TRY(const SymbolId start, reader.read());
  auto made = builder.finish(start);
  if (!made && made.error().at.empty()) made.error().at = reader.place();
  return made;
}

}  // namespace cairn::grammar
