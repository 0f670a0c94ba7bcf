// The text of a regular expression -> its tree. A descent with kRegexGroupsMax groups within each other.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/text/utf8.h"
#include "grammar/readers/regex_syntax.h"
#include "grammar/readers/text_cursor.h"

namespace cairn::grammar {

namespace {

using Kind = RegexSyntaxNode::Kind;

constexpr std::string_view kRegexQuantifiers = "*+?{";

const CharacterSet& digit_characters() {
  static const CharacterSet set{{'0', '9'}};
  return set;
}

const CharacterSet& space_characters() {
  static const CharacterSet set{{0x9, 0xD},       {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}

bool is_high_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDBFF; }
bool is_low_surrogate(char32_t c) { return c >= 0xDC00 && c <= 0xDFFF; }

struct RegexFlags {
  bool ignore_case;
  bool multiline;
  bool dot_all;
};

// What an escape, or a character of a class, stands for: one character, or a set.
struct RegexAtom {
  std::optional<char32_t> character;
  CharacterSet set;
};

struct RegexCounts {
  uint32_t min;
  uint32_t max;
};

class RegexParser {
 public:
  RegexParser(std::string_view text, const RegexOptions& options)
      : text_(text), options_(options), flags_{options.ignore_case, options.multiline, options.dot_all} {}

  Result<RegexSyntax> parse() {
    if (text_.size() > kRegexBytesMax)
      return error(0, Code::kTooLarge, fmt::format("the expression is longer than {} bytes", kRegexBytesMax));
    if (const size_t valid = utf8_valid_prefix(text_); valid != text_.size())
      return error(valid, Code::kInvalidArgument, "not UTF-8");
    CAIRN_TRY(syntax_.root, choice(0));
    if (!at_end()) return error(at_, Code::kInvalidArgument, "a ) without its (");
    return std::move(syntax_);
  }

 private:
  // ---- The text ----

  bool at_end() const { return at_ == text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  char32_t take_character() {
    const Utf8Char next = utf8_decode(text_, at_);
    at_ += static_cast<size_t>(next.length);
    return next.value;
  }

  static std::unexpected<Error> error(size_t offset, Code code, std::string message) {
    return std::unexpected(Error{code, std::move(message), fmt::format("{}", offset)});
  }
  std::unexpected<Error> invalid(size_t offset, std::string message) const {
    return error(offset, Code::kInvalidArgument, std::move(message));
  }

  // ---- Nodes ----

  RegexNodeId add(RegexSyntaxNode node) {
    for (const RegexNodeId child : node.children) node.has_assertion |= syntax_[child].has_assertion;
    node.has_assertion |= node.kind >= Kind::kTextBegin;
    syntax_.nodes.push_back(std::move(node));
    return RegexNodeId{static_cast<uint32_t>(syntax_.nodes.size() - 1)};
  }
  RegexNodeId add(Kind kind, size_t offset, std::vector<RegexNodeId> children = {}, bool negative = false) {
    return add(
        {.kind = kind, .negative = negative, .offset = static_cast<uint32_t>(offset), .children = std::move(children)});
  }
  RegexNodeId characters(size_t offset, const CharacterSet& set, bool negated = false) {
    const auto [known, is_new] = sets_.try_emplace({set, negated, flags_.ignore_case}, 0);
    if (is_new) {
      CharacterSet chosen = flags_.ignore_case ? set.with_case_variants() : set;
      if (negated) chosen = ~chosen;
      known->second = static_cast<uint32_t>(syntax_.sets.size());
      syntax_.sets.push_back(std::move(chosen));
    }
    return add({.kind = Kind::kCharacters, .offset = static_cast<uint32_t>(offset), .set = known->second});
  }
  Result<RegexNodeId> assertion(Kind kind, size_t offset, bool negative = false) {
    if (!options_.assertions)
      return error(offset, Code::kUnsupported, "an assertion, which looks past the terminal, is not read here");
    return add(kind, offset, {}, negative);
  }

  // ---- Alternatives, sequences, groups ----

  Result<RegexNodeId> choice(int depth) {
    const size_t begin = at_;
    const RegexFlags outer = flags_;
    std::vector<RegexNodeId> choices;
    do {
      CAIRN_TRY(const RegexNodeId next, sequence(depth));
      choices.push_back(next);
    } while (take("|"));
    flags_ = outer;
    return choices.size() == 1 ? choices.front() : add(Kind::kChoice, begin, std::move(choices));
  }

  Result<RegexNodeId> sequence(int depth) {
    const size_t begin = at_;
    std::vector<RegexNodeId> parts;
    while (!at_end() && peek() != '|' && peek() != ')') {
      CAIRN_TRY(const std::optional<RegexNodeId> part, term(depth));
      if (part) parts.push_back(*part);
    }
    return parts.size() == 1 ? parts.front() : add(Kind::kSequence, begin, std::move(parts));
  }

  // An atom with its quantifier, or an assertion; nullopt: flags for what follows.
  Result<std::optional<RegexNodeId>> term(int depth) {
    const size_t begin = at_;
    RegexNodeId node{};
    if (peek() == '(') {
      CAIRN_TRY(const std::optional<RegexNodeId> inner, group(depth));
      if (!inner) return std::nullopt;
      node = *inner;
    } else {
      CAIRN_TRY(node, atom());
    }
    CAIRN_TRY(const std::optional<RegexCounts> counts, quantifier());
    if (!counts) return node;
    if (syntax_[node].kind >= Kind::kTextBegin && syntax_[node].offset == begin)
      return invalid(begin, "an assertion cannot be repeated");
    return add({.kind = Kind::kRepeat,
                .min = counts->min,
                .max = counts->max,
                .offset = static_cast<uint32_t>(begin),
                .children = {node}});
  }

  Result<std::optional<RegexNodeId>> group(int depth) {
    const size_t begin = at_;
    if (depth >= kRegexGroupsMax)
      return error(begin, Code::kTooLarge, fmt::format("groups are nested deeper than {}", kRegexGroupsMax));
    ++at_;
    std::optional<Kind> around;
    bool negative = false;
    const RegexFlags outer = flags_;
    if (take("?=") || take("?!")) {
      around = Kind::kLookahead;
      negative = text_[at_ - 1] == '!';
    } else if (take("?<=") || take("?<!")) {
      around = Kind::kLookbehind;
      negative = text_[at_ - 1] == '!';
    } else if (take("?<") || take("?P<")) {
      CAIRN_TRY_VOID(group_name());
    } else if (take("?P=") || take("?P>") || take("?&")) {
      return error(begin, Code::kUnsupported, "a reference to a group is not a regular language");
    } else if (take("?>")) {
      return error(begin, Code::kUnsupported, "atomic groups are not read");
    } else if (take("?") && !take(":")) {
      CAIRN_TRY(const bool whole, group_flags(begin));
      if (whole) return std::nullopt;
    }
    if (around && !options_.assertions)
      return error(begin, Code::kUnsupported, "an assertion, which looks past the terminal, is not read here");
    CAIRN_TRY(const RegexNodeId inner, choice(depth + 1));
    flags_ = outer;
    if (!take(")")) return invalid(begin, "the group does not end");
    return around ? add(*around, begin, {inner}, negative) : inner;
  }

  Result<void> group_name() {
    const size_t begin = at_;
    while (!at_end() && peek() != '>') {
      if (!is_ascii_letter(peek()) && !is_ascii_digit(peek()) && peek() != '_' && peek() != '$' &&
          static_cast<unsigned char>(peek()) < 0x80)
        return invalid(at_, "not a character of a group's name");
      ++at_;
    }
    if (at_ == begin || is_ascii_digit(text_[begin])) return invalid(begin, "the group's name is missing");
    if (!take(">")) return invalid(begin, "the group's name does not end");
    return {};
  }

  // (?i), (?i:...), (?s-i:...). True: without a group, for what follows.
  Result<bool> group_flags(size_t group_begin) {
    bool on = true;
    for (;; ++at_) {
      switch (peek()) {
        case 'i':
          flags_.ignore_case = on;
          continue;
        case 'm':
          flags_.multiline = on;
          continue;
        case 's':
          flags_.dot_all = on;
          continue;
        case 'u':
          continue;
        case '-':
          if (!on) break;
          on = false;
          continue;
        case ':':
          ++at_;
          return false;
        case ')':
          ++at_;
          return true;
        default:
          break;
      }
      return invalid(group_begin, "no group begins so");
    }
  }

  // ---- Quantifiers ----

  // The {..} at `at_`, if it is one; it is left where it is not.
  Result<std::optional<RegexCounts>> braces() {
    const size_t begin = at_;
    if (!is_ascii_digit(peek(1)) && !(peek(1) == ',' && is_ascii_digit(peek(2)))) return std::nullopt;
    ++at_;
    if (peek() == ',') return invalid(begin, "the minimum of the repetition is missing");
    CAIRN_TRY(const uint32_t min, count());
    uint32_t max = min;
    if (take(",")) {
      max = kUnbounded;
      if (is_ascii_digit(peek())) {
        CAIRN_TRY(max, count());
      }
    }
    if (!take("}")) return invalid(begin, "the counts of the repetition do not end");
    if (max < min) return invalid(begin, "the maximum of the repetition is below its minimum");
    return RegexCounts{min, max};
  }

  Result<uint32_t> count() {
    const size_t begin = at_;
    uint64_t value = 0;
    for (; is_ascii_digit(peek()); ++at_) {
      value = value * 10 + static_cast<uint64_t>(peek() - '0');
      if (value > kRegexCountMax)
        return error(begin, Code::kTooLarge, fmt::format("a count of repetitions is above {}", kRegexCountMax));
    }
    return static_cast<uint32_t>(value);
  }

  Result<std::optional<RegexCounts>> quantifier() {
    std::optional<RegexCounts> counts;
    if (take("*")) {
      counts = {0, kUnbounded};
    } else if (take("+")) {
      counts = {1, kUnbounded};
    } else if (take("?")) {
      counts = {0, 1};
    } else if (peek() == '{') {
      CAIRN_TRY(counts, braces());
    }
    if (counts) take("?");  // lazy: the same language
    return counts;
  }

  // ---- Atoms ----

  Result<RegexNodeId> atom() {
    const size_t begin = at_;
    if (peek() == '{') {
      CAIRN_TRY(const std::optional<RegexCounts> counts, braces());
      if (counts) return invalid(begin, "there is nothing to repeat");
    } else if (kRegexQuantifiers.contains(peek())) {
      return invalid(begin, "there is nothing to repeat");
    }
    if (peek() == '[') return character_class();
    if (take("^")) return assertion(flags_.multiline ? Kind::kLineBegin : Kind::kTextBegin, begin);
    if (take("$")) return assertion(flags_.multiline ? Kind::kLineEnd : Kind::kTextEnd, begin);
    if (take(".")) {
      if (flags_.dot_all) return characters(begin, CharacterSet::all());
      return characters(begin, ~(options_.dot_ends_at_newline_only ? CharacterSet{{'\n', '\n'}} : line_ends()));
    }
    if (peek() == '\\') {
      if (take("\\b")) return assertion(Kind::kWordBoundary, begin);
      if (take("\\B")) return assertion(Kind::kWordBoundary, begin, /*negative=*/true);
      if (take("\\A")) return assertion(Kind::kTextBegin, begin);
      if (take("\\z") || take("\\Z")) return assertion(Kind::kTextEnd, begin);
      CAIRN_TRY(const RegexAtom escaped, escape(/*in_class=*/false));
      return characters(begin, escaped.set);
    }
    const char32_t character = take_character();
    return characters(begin, {{character, character}});
  }

  static RegexAtom one(char32_t character) { return {character, {{character, character}}}; }

  Result<RegexAtom> escape(bool in_class) {
    const size_t begin = at_++;
    if (at_end()) return invalid(begin, "nothing follows the backslash");
    const char32_t c = take_character();
    switch (c) {
      case 'd':
        return RegexAtom{{}, digit_characters()};
      case 'D':
        return RegexAtom{{}, ~digit_characters()};
      case 'w':
        return RegexAtom{{}, word_characters()};
      case 'W':
        return RegexAtom{{}, ~word_characters()};
      case 's':
        return RegexAtom{{}, space_characters()};
      case 'S':
        return RegexAtom{{}, ~space_characters()};
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'v':
        return one('\v');
      case 'f':
        return one('\f');
      case 'r':
        return one('\r');
      case 'x':
        if (peek() == '{') return braced_hex(begin);
        return hex(begin, 2);
      case 'u':
        return unicode(begin);
      case 'U':
        return hex(begin, 8);
      case 'p':
      case 'P':
        return property(begin, c == 'P');
      case 'b':
        if (in_class) return one('\b');
        break;
      case 'c':
        if (!is_ascii_letter(peek())) return invalid(begin, "\\c is followed by a letter");
        return one(static_cast<char32_t>(text_[at_++]) % 32);
      case '0':
        if (is_ascii_digit(peek())) return invalid(begin, "octal escapes are not read; \\xHH is");
        return one(0);
      case 'k':
        if (peek() == '<') return error(begin, Code::kUnsupported, "a backreference is not a regular language");
        break;
      default:
        break;
    }
    if (c >= '1' && c <= '9') {
      if (in_class) return invalid(begin, "a backreference in a class");
      return error(begin, Code::kUnsupported, "a backreference is not a regular language");
    }
    if (c < 0x80 && is_ascii_letter(static_cast<char>(c)))
      return invalid(begin, fmt::format("\\{} is no escape", static_cast<char>(c)));
    return one(c);
  }

  Result<char32_t> hex_digits(size_t begin, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const int digit = hex_digit_value(peek());
      if (digit < 0) return invalid(begin, fmt::format("the escape has {} hexadecimal digits", count));
      value = value * 16 + static_cast<uint64_t>(digit);
    }
    if (value > 0x10FFFF) return invalid(begin, "there is no character above U+10FFFF");
    return static_cast<char32_t>(value);
  }

  Result<RegexAtom> hex(size_t begin, int count) {
    CAIRN_TRY(const char32_t value, hex_digits(begin, count));
    return one(value);
  }

  Result<RegexAtom> braced_hex(size_t begin) {
    ++at_;
    int count = 0;
    while (count < 8 && hex_digit_value(peek(static_cast<size_t>(count))) >= 0) ++count;
    if (count == 0) return invalid(begin, "the escape has no hexadecimal digits");
    CAIRN_TRY(const char32_t value, hex_digits(begin, count));
    if (!take("}")) return invalid(begin, "the escape does not end");
    return one(value);
  }

  // \uXXXX, two of them that are a surrogate pair, or \u{X...}.
  Result<RegexAtom> unicode(size_t begin) {
    if (peek() == '{') return braced_hex(begin);
    CAIRN_TRY(const char32_t first, hex_digits(begin, 4));
    if (!is_high_surrogate(first) || peek() != '\\' || peek(1) != 'u') return one(first);
    const size_t after = at_;
    at_ += 2;
    const Result<char32_t> second = peek() == '{' ? Result<char32_t>(0) : hex_digits(begin, 4);
    if (second && is_low_surrogate(*second)) return one(0x10000 + ((first - 0xD800) << 10) + (*second - 0xDC00));
    at_ = after;
    return one(first);
  }

  Result<RegexAtom> property(size_t begin, bool negated) {
    std::string_view name;
    if (take("{")) {
      const size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) return invalid(begin, "the name of the property does not end");
      name = text_.substr(at_, end - at_);
      at_ = end + 1;
    } else if (is_ascii_letter(peek())) {
      name = text_.substr(at_++, 1);
    }
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const auto [known, is_new] = properties_.try_emplace(name);
    if (is_new) known->second = characters_with_property(name);
    const std::optional<CharacterSet>& set = known->second;
    if (!set)
      return error(
          begin, Code::kUnsupported,
          fmt::format("the property {} is not known; general categories, scripts and ECMA-262's binary properties are",
                      name));
    return RegexAtom{{}, negated ? ~*set : *set};
  }

  // ---- Classes ----

  Result<RegexAtom> class_atom() {
    if (peek() == '\\') return escape(/*in_class=*/true);
    return one(take_character());
  }

  /// "[:alpha:]" if that comes, which other regular expressions have within a class, and which would be a few
  /// characters here.
  std::string_view posix_class() const {
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with("[:")) return {};
    const size_t end = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz", 2);
    if (end == 2 || end == std::string_view::npos || !rest.substr(end).starts_with(":]")) return {};
    return rest.substr(0, end + 2);
  }

  Result<RegexNodeId> character_class() {
    const size_t begin = at_++;
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    const auto add_all = [&ranges](const CharacterSet& set) {
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    };
    while (!take("]")) {
      if (at_end()) return invalid(begin, "the class does not end");
      const size_t first_begin = at_;
      if (const std::string_view name = posix_class(); !name.empty())
        return error(
            first_begin, Code::kUnsupported,
            fmt::format("the class {} is not read; write its characters, or a property such as \\p{{L}}", name));
      CAIRN_TRY(const RegexAtom first, class_atom());
      if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) {
        add_all(first.set);
        continue;
      }
      ++at_;
      CAIRN_TRY(const RegexAtom last, class_atom());
      if (first.character && last.character) {
        if (*first.character > *last.character) return invalid(first_begin, "the range's ends are out of order");
        ranges.push_back({*first.character, *last.character});
      } else {  // as in [\w-.]: the dash is a character
        add_all(first.set);
        ranges.push_back({'-', '-'});
        add_all(last.set);
      }
    }
    return characters(begin, CharacterSet(ranges), negated);
  }

  std::string_view text_;
  const RegexOptions& options_;
  RegexFlags flags_;
  size_t at_ = 0;
  RegexSyntax syntax_;
  // What was asked for before, because an expression asks for the same thing again and again.
  std::map<std::tuple<CharacterSet, bool, bool>, uint32_t> sets_;
  std::map<std::string_view, std::optional<CharacterSet>> properties_;
};

}  // namespace

const CharacterSet& word_characters() {
  static const CharacterSet set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}

const CharacterSet& line_ends() {
  static const CharacterSet set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

Result<RegexSyntax> parse_regex(std::string_view pattern, const RegexOptions& options) {
  return RegexParser(pattern, options).parse();
}

}  // namespace cairn::grammar
