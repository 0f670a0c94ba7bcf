#include "grammar/readers/gbnf_reader.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grammar/readers/characters.h"
#include "grammar/readers/ebnf_rules.h"
#include "grammar/readers/regex_reader.h"
#include "grammar/readers/text_cursor.h"

namespace cairn::grammar {

namespace {

/// Operators such as `*` after one item.
constexpr int kGbnfOperatorsMax = 8;

bool is_gbnf_name_character(char c) {
  return is_ascii_letter(c) || is_ascii_digit(c) || c == '-' || c == '_' || c == '.';
}

class GbnfReader {
 public:
  GbnfReader(GrammarBuilder& builder, std::string_view text) : cursor_(text), rules_(builder) {}

  Result<SymbolId> read() {
    CAIRN_TRY_VOID(cursor_.check());
    find_names();
    skip_space(/*over_lines=*/true);
    while (!cursor_.at_end()) {
      CAIRN_TRY_VOID(rule());
      skip_space(/*over_lines=*/true);
    }
    const std::optional<RuleId> root = rules_.find("root");
    if (!root || !rules_.is_defined(*root)) return cursor_.error(0, "there is no rule named root");
    if (const auto missing = rules_.undefined())
      return cursor_.error(missing->offset, fmt::format("the rule {} is not defined", missing->name));
    auto made = rules_.write(*root);
    if (!made && made.error().at.empty()) made.error().at = place();
    return made;
  }

  /// The place of the rule `root`.
  std::string place() const { return cursor_.place(root_); }

 private:
  // ---- Space and names ----

  void skip_space(bool over_lines) {
    for (;;) {
      cursor_.take_while(
          [over_lines](char c) { return c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r')); });
      if (cursor_.peek() != '#') return;
      cursor_.take_while([](char c) { return c != '\n' && c != '\r'; });
    }
  }

  // Names of rules may have dots, and a dot may also follow a name, as any character. So all names that stand before a
  // ::= are known before rules are read.
  void find_names() {
    const std::string_view text = cursor_.text();
    for (size_t at = text.find("::="); at != std::string_view::npos; at = text.find("::=", at + 3)) {
      size_t end = at;
      while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
      size_t begin = end;
      while (begin > 0 && is_gbnf_name_character(text[begin - 1])) --begin;
      names_.insert(text.substr(begin, end - begin));
    }
  }

  std::string_view take_name() {
    const size_t begin = cursor_.offset();
    std::string_view name = cursor_.take_while(is_gbnf_name_character);
    if (const size_t dot = name.find('.'); dot != std::string_view::npos && !names_.contains(name)) {
      name = name.substr(0, dot);
      cursor_.move_to(begin + dot);
    }
    return name;
  }

  // ---- Rules ----

  Result<void> rule() {
    const size_t begin = cursor_.offset();
    const std::string_view name = take_name();
    if (name.empty()) return cursor_.error(begin, "expected the name of a rule");
    skip_space(false);
    if (!cursor_.take("::=")) return cursor_.error(cursor_.offset(), "expected ::= after the name of a rule");
    const RuleId id = rules_.rule(name, begin);
    if (rules_.is_defined(id)) return cursor_.error(begin, fmt::format("the rule {} is defined twice", name));
    if (rules_.size() > kGrammarRulesMax)
      return cursor_.error(begin, fmt::format("there are more than {} rules", kGrammarRulesMax), Code::kTooLarge);
    if (name == "root") root_ = begin;
    skip_space(true);
    if (cursor_.at_end() || at_rule()) {
      rules_.define(id, rules_.regex(kEmptyText));
      return {};
    }
    CAIRN_TRY(const ExpressionId body, alternatives(0));
    rules_.define(id, body);
    if (!cursor_.at_end() && cursor_.peek() != '\n' && cursor_.peek() != '\r' && !at_rule())
      return cursor_.error(cursor_.offset(), "expected the end of the rule");
    return {};
  }

  // Whether a rule's name and ::= follow.
  bool at_rule() {
    const size_t begin = cursor_.offset();
    const bool named = !take_name().empty();
    skip_space(false);
    const bool found = named && cursor_.sees("::=");
    cursor_.move_to(begin);
    return found;
  }

  Result<ExpressionId> alternatives(int depth) {
    std::vector<ExpressionId> choices;
    for (;;) {
      CAIRN_TRY(const ExpressionId next, sequence(depth));
      choices.push_back(next);
      const size_t end = cursor_.offset();
      skip_space(true);
      if (!cursor_.take("|")) {
        if (depth == 0) cursor_.move_to(end);
        return rules_.choice(std::move(choices));
      }
      skip_space(true);
    }
  }

  // Items up to a | or ) or, outside of groups, the line's end.
  Result<ExpressionId> sequence(int depth) {
    std::vector<ExpressionId> parts;
    for (;;) {
      skip_space(depth > 0);
      const char c = cursor_.peek();
      if (cursor_.at_end() || c == '|' || c == '\n' || c == '\r') break;
      if (c == ')' && depth > 0) break;
      if (depth == 0 && at_rule()) break;
      CAIRN_TRY(ExpressionId part, item(depth));
      CAIRN_TRY(part, repeated(part, depth));
      parts.push_back(part);
    }
    return rules_.sequence(std::move(parts));
  }

  // ---- Items ----

  Result<ExpressionId> item(int depth) {
    const size_t begin = cursor_.offset();
    const char c = cursor_.peek();
    if (c == '"') return literal();
    if (c == '[') return character_class();
    if (c == '(') return group(depth);
    if (cursor_.take(".")) return characters(CharacterSet::all());
    if (c == '<' || c == '!') return cursor_.error(begin, "references to tokens are not read", Code::kUnsupported);
    if (c == '*' || c == '+' || c == '?' || c == '{') return cursor_.error(begin, "there is nothing to repeat");
    const std::string_view name = take_name();
    if (name.empty()) return cursor_.error(begin, "expected a literal, a class, a group or the name of a rule");
    if (cursor_.peek() == '(')
      return cursor_.error(begin, fmt::format("macros such as {}() are not read", name), Code::kUnsupported);
    return rules_.reference(rules_.rule(name, begin));
  }

  ExpressionId characters(const CharacterSet& set) {
    const auto [known, is_new] = spelled_.try_emplace(set);
    if (is_new) known->second = spell(rules_.regexes(), set, Spelling::kUtf8);
    return rules_.regex(known->second);
  }

  Result<ExpressionId> group(int depth) {
    const size_t begin = cursor_.offset();
    if (depth >= kGrammarDepthMax)
      return cursor_.error(begin, fmt::format("groups are nested deeper than {}", kGrammarDepthMax), Code::kTooLarge);
    cursor_.take("(");
    if (cursor_.peek() == '=') return cursor_.error(begin, "lookaheads are not read", Code::kUnsupported);
    CAIRN_TRY(const ExpressionId inner, alternatives(depth + 1));
    if (!cursor_.take(")")) return cursor_.error(begin, "the group does not end");
    return inner;
  }

  Result<ExpressionId> literal() {
    const size_t begin = cursor_.offset();
    cursor_.take("\"");
    std::string text;
    while (!cursor_.take("\"")) {
      if (cursor_.at_end()) return cursor_.error(begin, "the literal does not end");
      CAIRN_TRY(const char32_t next, character());
      utf8_append(text, next);
    }
    return rules_.regex(rules_.regexes().literal(text));
  }

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
      case 'a':
        return '\a';
      case 'v':
        return '\v';
      case '0':
        return '\0';
      case 'e':
        return 0x1B;
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/':
      case '\'':
      case '?':
        return c;
      default:
        return cursor_.error(begin, "unknown escape");
    }
  }

  Result<ExpressionId> character_class() {
    const size_t begin = cursor_.offset();
    cursor_.take("[");
    const bool negated = cursor_.take("^");
    std::vector<CodePointRange> ranges;
    while (!cursor_.take("]")) {
      if (cursor_.at_end()) return cursor_.error(begin, "the class does not end");
      const size_t first_begin = cursor_.offset();
      CAIRN_TRY(const char32_t first, character());
      char32_t last = first;
      if (cursor_.peek() == '-' && cursor_.peek(1) != ']') {
        cursor_.take("-");
        if (cursor_.at_end()) return cursor_.error(begin, "the class does not end");
        CAIRN_TRY(last, character());
      }
      if (last < first) return cursor_.error(first_begin, "the range's ends are out of order");
      ranges.push_back({first, last});
    }
    if (ranges.empty() && !negated) return cursor_.error(begin, "the class is empty");
    const CharacterSet set(ranges);
    return characters(negated ? ~set : set);
  }

  // ---- Repetition ----

  Result<ExpressionId> repeated(ExpressionId inner, int depth) {
    for (int operators = 0;; ++operators) {
      const size_t item_end = cursor_.offset();
      skip_space(depth > 0);
      const size_t begin = cursor_.offset();
      const char c = cursor_.peek();
      if (c != '*' && c != '+' && c != '?' && c != '{') {
        cursor_.move_to(item_end);
        return inner;
      }
      if (operators == kGbnfOperatorsMax)
        return cursor_.error(begin, fmt::format("more than {} operators follow an item", kGbnfOperatorsMax),
                             Code::kTooLarge);
      if (cursor_.take("*")) {
        inner = rules_.repeat(inner, 0, std::nullopt);
      } else if (cursor_.take("+")) {
        inner = rules_.repeat(inner, 1, std::nullopt);
      } else if (cursor_.take("?")) {
        inner = rules_.repeat(inner, 0, 1);
      } else {
        CAIRN_TRY(inner, counted(inner));
      }
    }
  }

  Result<ExpressionId> counted(ExpressionId inner) {
    const size_t begin = cursor_.offset();
    cursor_.take("{");
    skip_space(false);
    CAIRN_TRY(const uint32_t min, take_count(cursor_));
    skip_space(false);
    std::optional<uint32_t> max = min;
    if (cursor_.take(",")) {
      skip_space(false);
      max.reset();
      if (is_ascii_digit(cursor_.peek())) {
        CAIRN_TRY(max, take_count(cursor_));
      }
      skip_space(false);
    }
    if (!cursor_.take("}")) return cursor_.error(begin, "the counts of the repetition do not end");
    if (max && *max < min) return cursor_.error(begin, "the maximum of the repetition is below its minimum");
    return rules_.repeat(inner, min, max);
  }

  TextCursor cursor_;
  EbnfRules rules_;
  std::set<std::string_view> names_;
  std::map<CharacterSet, RegexId> spelled_;
  size_t root_ = 0;  // where it is defined
};

}  // namespace

Result<SymbolId> add_gbnf(GrammarBuilder& builder, std::string_view text) { return GbnfReader(builder, text).read(); }

Result<std::shared_ptr<const Grammar>> read_gbnf(std::string_view text) {
  GrammarBuilder builder;
  GbnfReader reader(builder, text);
  CAIRN_TRY(const SymbolId root, reader.read());
  auto made = builder.finish(root);
  if (!made && made.error().at.empty()) made.error().at = reader.place();
  return made;
}

}  // namespace cairn::grammar
