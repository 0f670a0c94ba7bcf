#include "grammar/json_schema/pattern.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text/utf8.h"

namespace cairn::grammar {

namespace {

using Ranges = std::vector<CharacterRange>;

/// Counts above this one are refused: the automaton of a pattern would have as many states.
constexpr uint32_t kRepeatsMax = 1'000'000;
/// How often a group with an assertion inside is written out.
constexpr uint32_t kAssertionCopiesMax = 8;
constexpr size_t kNodesMax = 100'000;

struct Node {
  enum class Kind { kEmpty, kCharacters, kSequence, kAlternatives, kRepeat, kBegin, kEnd, kAhead, kNotAhead };
  Kind kind = Kind::kEmpty;
  Ranges ranges{};
  std::vector<size_t> children{};
  uint32_t min = 0;
  std::optional<uint32_t> max{};
  bool asserts = false;  ///< contains an assertion
};

const Ranges kDigits{{'0', '9'}};
const Ranges kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpaces{{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                     {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Ranges kLineEnds{{0x0A, 0x0A}, {0x0D, 0x0D}, {0x2028, 0x2029}};

/// Reads the text of a pattern into nodes.
class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  Result<size_t> read() {
    CAIRN_TRY(const size_t root, alternatives(0));
    if (at_ < text_.size()) return bad("a ) without its (");
    return root;
  }
  std::vector<Node>& nodes() { return nodes_; }

 private:
  std::unexpected<Error> bad(std::string_view what) const {
    return fail_at(std::to_string(at_), Code::kInvalidArgument, "not a regular expression: {} at offset {}", what, at_);
  }
  std::unexpected<Error> unsupported(std::string_view what) const {
    return fail_at(std::to_string(at_), Code::kUnsupported, "{} at offset {} of the pattern", what, at_);
  }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  size_t add(Node node) {
    for (const size_t child : node.children) node.asserts |= nodes_[child].asserts;
    node.asserts |= node.kind >= Node::Kind::kBegin;
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
  }

  Result<size_t> alternatives(int depth) {
    if (depth > kPatternDepthMax) {
      return fail_at(std::to_string(at_), Code::kTooLarge, "groups nested deeper than {} levels", kPatternDepthMax);
    }
    std::vector<size_t> choices;
    do {
      CAIRN_TRY(const size_t one, sequence(depth));
      choices.push_back(one);
    } while (take("|"));
    if (choices.size() == 1) return choices[0];
    return add({.kind = Node::Kind::kAlternatives, .children = std::move(choices)});
  }

  Result<size_t> sequence(int depth) {
    std::vector<size_t> parts;
    while (at_ < text_.size() && peek() != '|' && peek() != ')') {
      if (nodes_.size() > kNodesMax) return fail_at("", Code::kTooLarge, "a pattern of more than {} parts", kNodesMax);
      CAIRN_TRY(const size_t atom, term(depth));
      CAIRN_TRY(const size_t part, quantified(atom));
      parts.push_back(part);
    }
    if (parts.size() == 1) return parts[0];
    return add({.kind = Node::Kind::kSequence, .children = std::move(parts)});
  }

  Result<size_t> term(int depth) {
    if (take("^")) return add({.kind = Node::Kind::kBegin});
    if (take("$")) return add({.kind = Node::Kind::kEnd});
    if (take("(")) return group(depth);
    if (take("[")) return character_class();
    if (take(".")) return add({.kind = Node::Kind::kCharacters, .ranges = inverted_ranges(kLineEnds)});
    if (take("\\")) {
      if (peek() == 'b' || peek() == 'B') return unsupported("a word boundary");
      if (peek() >= '1' && peek() <= '9') return unsupported("a back-reference");
      if (peek() == 'k') return unsupported("a back-reference");
      CAIRN_TRY(Ranges ranges, escape(false));
      return add({.kind = Node::Kind::kCharacters, .ranges = std::move(ranges)});
    }
    if (peek() == '*' || peek() == '+' || peek() == '?') return bad("nothing to repeat");
    const Utf8Char character = utf8_decode(text_, at_);
    at_ += static_cast<size_t>(character.length);
    return add({.kind = Node::Kind::kCharacters, .ranges = {{character.value, character.value}}});
  }

  Result<size_t> group(int depth) {
    Node::Kind kind = Node::Kind::kEmpty;
    if (take("?")) {
      if (take("=")) {
        kind = Node::Kind::kAhead;
      } else if (take("!")) {
        kind = Node::Kind::kNotAhead;
      } else if (take("<=") || take("<!")) {
        return unsupported("lookbehind");
      } else if (take("<") || take("P<")) {
        const size_t end = text_.find('>', at_);
        if (end == std::string_view::npos) return bad("a group's name without an end");
        at_ = end + 1;
      } else if (!take(":")) {
        return bad("an unknown kind of group");
      }
    }
    CAIRN_TRY(const size_t inner, alternatives(depth + 1));
    if (!take(")")) return bad("a ( without its )");
    if (kind == Node::Kind::kEmpty) return inner;
    return add({.kind = kind, .children = {inner}});
  }

  std::optional<uint32_t> number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    uint64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(text_[at_++] - '0'), UINT32_MAX);
    }
    return static_cast<uint32_t>(value);
  }

  Result<size_t> quantified(size_t atom) {
    Node repeat{.kind = Node::Kind::kRepeat, .children = {atom}};
    const size_t begin = at_;
    if (take("*")) {
    } else if (take("+")) {
      repeat.min = 1;
    } else if (take("?")) {
      repeat.max = 1;
    } else if (take("{")) {
      const std::optional<uint32_t> min = number();
      bool good = min.has_value();
      if (good) {
        repeat.min = *min;
        if (take(",")) {
          repeat.max = number();
        } else {
          repeat.max = min;
        }
        good = take("}");
      }
      if (!good) {  // a brace that is no count stands for itself
        at_ = begin;
        return atom;
      }
      if (repeat.max.has_value() && *repeat.max < repeat.min) return bad("a count whose end is before its beginning");
      if (repeat.min > kRepeatsMax || repeat.max.value_or(0) > kRepeatsMax) {
        return fail_at(std::to_string(at_), Code::kTooLarge, "a count of more than {} in a pattern", kRepeatsMax);
      }
    } else {
      return atom;
    }
    take("?");  // lazy or not, the same texts match
    if (peek() == '*' || peek() == '+' || peek() == '?') return bad("nothing to repeat");
    const Node::Kind inner = nodes_[atom].kind;
    if (inner == Node::Kind::kBegin || inner == Node::Kind::kEnd) return bad("an anchor cannot be repeated");
    return add(std::move(repeat));
  }

  std::optional<char32_t> hexadecimal(size_t digits) {
    char32_t value = 0;
    if (at_ + digits > text_.size()) return std::nullopt;
    for (size_t i = 0; i < digits; ++i) {
      const char c = text_[at_ + i];
      const bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
      if (!digit && !lower && !upper) return std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : lower ? c - 'a' + 10 : c - 'A' + 10);
    }
    at_ += digits;
    return value;
  }

  /// Behind a backslash.
  Result<Ranges> escape(bool in_class) {
    if (at_ >= text_.size()) return bad("a backslash at the end");
    const auto one = [](char32_t c) { return Ranges{{c, c}}; };
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) >= 0x80) {
      const Utf8Char character = utf8_decode(text_, at_);
      at_ += static_cast<size_t>(character.length);
      return one(character.value);
    }
    ++at_;
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return inverted_ranges(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return inverted_ranges(kWord);
      case 's':
        return kSpaces;
      case 'S':
        return inverted_ranges(kSpaces);
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'v':
        return one('\v');
      case 'f':
        return one('\f');
      case '0':
        return one(0);
      case 'c': {
        const char letter = static_cast<char>(peek() | 0x20);
        if (letter < 'a' || letter > 'z') return bad("\\c without a letter");
        ++at_;
        return one(static_cast<char32_t>(letter - 'a' + 1));
      }
      case 'x':
      case 'u':
        return numbered(c == 'x' ? 2 : 4);
      case 'p':
      case 'P':
        return unsupported("a Unicode property");
      default:
        break;
    }
    if (c == 'b' && in_class) return one('\b');
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9')) return bad("an unknown escape");
    return one(static_cast<char32_t>(c));
  }

  Result<Ranges> numbered(size_t digits) {
    std::optional<char32_t> value;
    if (digits == 4 && peek() == '{') {
      const size_t end = text_.find('}', at_);
      if (end == std::string_view::npos || end - at_ < 2 || end - at_ > 7) return bad("a wrong escape");
      ++at_;
      value = hexadecimal(end - at_);
      if (value.has_value()) ++at_;
    } else {
      value = hexadecimal(digits);
      if (value.has_value() && (*value & 0xFFFFFC00) == 0xD800 && text_.substr(at_).starts_with("\\u")) {
        at_ += 2;
        const std::optional<char32_t> low = hexadecimal(4);
        if (!low.has_value() || (*low & 0xFFFFFC00) != 0xDC00) return unsupported("half of a surrogate pair");
        value = 0x10000 + ((*value & 0x3FF) << 10) + (*low & 0x3FF);
      }
    }
    if (!value.has_value() || *value > 0x10FFFF) return bad("a wrong escape");
    if (*value >= 0xD800 && *value <= 0xDFFF) return unsupported("half of a surrogate pair");
    return Ranges{{*value, *value}};
  }

  Result<size_t> character_class() {
    const bool inverted = take("^");
    Ranges all;
    while (!take("]")) {
      if (at_ >= text_.size()) return bad("a [ without its ]");
      CAIRN_TRY(const Ranges first, class_atom());
      const bool range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!range) {
        all.insert(all.end(), first.begin(), first.end());
        continue;
      }
      ++at_;
      CAIRN_TRY(const Ranges last, class_atom());
      const auto single = [](const Ranges& ranges) { return ranges.size() == 1 && ranges[0].first == ranges[0].last; };
      if (single(first) && single(last)) {
        if (first[0].first > last[0].first) return bad("a range whose end is before its beginning");
        all.push_back({first[0].first, last[0].first});
      } else {  // a class at one end makes the dash a character
        all.insert(all.end(), first.begin(), first.end());
        all.insert(all.end(), last.begin(), last.end());
        all.push_back({'-', '-'});
      }
    }
    Ranges ranges = inverted ? inverted_ranges(all) : normal_ranges(std::move(all));
    return add({.kind = Node::Kind::kCharacters, .ranges = std::move(ranges)});
  }

  Result<Ranges> class_atom() {
    if (take("\\")) return escape(true);
    const Utf8Char character = utf8_decode(text_, at_);
    at_ += static_cast<size_t>(character.length);
    return Ranges{{character.value, character.value}};
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Node> nodes_;
};

/// What follows a part of the pattern: one expression for when the part begins at the text's beginning, one for when
/// it begins later.
struct Rest {
  RegexId at_begin{};
  RegexId later{};
};

/// Compiles nodes from the end to the beginning, so that assertions become conditions on what follows.
class PatternCompiler {
 public:
  PatternCompiler(JsonText& text, const std::vector<Node>& nodes) : text_(text), nodes_(nodes) {}

  /// The depth is bounded by that of groups.
  Result<Rest> compile(size_t index, const Rest& rest) {
    const Node& node = nodes_[index];
    switch (node.kind) {
      case Node::Kind::kEmpty:
        return rest;
      case Node::Kind::kCharacters: {
        const RegexId all = text_.then(text_.characters(node.ranges), rest.later);
        return Rest{all, all};
      }
      case Node::Kind::kSequence: {
        Rest all = rest;
        for (size_t i = node.children.size(); i-- > 0;) {
          CAIRN_TRY(all, compile(node.children[i], all));
        }
        return all;
      }
      case Node::Kind::kAlternatives:
        return alternatives(node, rest);
      case Node::Kind::kRepeat:
        return repeat(node, rest);
      case Node::Kind::kBegin:
        return Rest{rest.at_begin, kNoMatch};
      case Node::Kind::kEnd:
        return Rest{end(rest.at_begin), end(rest.later)};
      case Node::Kind::kAhead:
      case Node::Kind::kNotAhead: {
        CAIRN_TRY(Rest inner, compile(node.children[0], Rest{text_.canonical_string(), text_.canonical_string()}));
        if (node.kind == Node::Kind::kNotAhead) {
          inner = {text_.pool().complement(inner.at_begin), text_.pool().complement(inner.later)};
        }
        return Rest{text_.both(inner.at_begin, rest.at_begin), text_.both(inner.later, rest.later)};
      }
    }
    return rest;
  }

 private:
  RegexId end(RegexId rest) { return text_.pool().matches_empty(rest) ? kEmptyText : kNoMatch; }

  Result<Rest> alternatives(const Node& node, const Rest& rest) {
    std::vector<RegexId> at_begin, later;
    for (const size_t child : node.children) {
      CAIRN_TRY(const Rest one, compile(child, rest));
      at_begin.push_back(one.at_begin);
      later.push_back(one.later);
    }
    return Rest{text_.pool().any_of(at_begin), text_.pool().any_of(later)};
  }

  Result<Rest> repeat(const Node& node, const Rest& rest) {
    if (!node.asserts) {
      CAIRN_TRY(const Rest inner, compile(node.children[0], Rest{kEmptyText, kEmptyText}));
      const RegexId all = text_.pool().repeat(inner.later, node.min, node.max);
      Rest out{kNoMatch, text_.then(all, rest.later)};
      if (rest.at_begin == rest.later) {
        out.at_begin = out.later;
      } else {
        const RegexId some = text_.then(text_.except(all, kEmptyText), rest.later);
        out.at_begin = text_.pool().matches_empty(all) ? text_.either(some, rest.at_begin) : some;
      }
      return out;
    }
    if (!node.max.has_value() && node.min == 0) return guarded_characters(node, rest);
    if (!node.max.has_value() || *node.max > kAssertionCopiesMax) return unsupported();
    Rest all = rest;
    for (uint32_t i = 0; i < *node.max; ++i) {
      CAIRN_TRY(Rest one, compile(node.children[0], all));
      if (*node.max - i > node.min) {
        one = {text_.either(one.at_begin, rest.at_begin), text_.either(one.later, rest.later)};
      }
      all = one;
    }
    return all;
  }

  /// `((?!X).)*$`: characters among which X does not begin anywhere.
  Result<Rest> guarded_characters(const Node& node, const Rest& rest) {
    const Node& body = nodes_[node.children[0]];
    const bool known = body.kind == Node::Kind::kSequence && body.children.size() == 2 &&
                       nodes_[body.children[0]].kind == Node::Kind::kNotAhead &&
                       nodes_[body.children[1]].kind == Node::Kind::kCharacters && rest.at_begin == kEmptyText &&
                       rest.later == kEmptyText;
    if (!known) return unsupported();
    const size_t guard = nodes_[body.children[0]].children[0];
    if (nodes_[guard].asserts) return unsupported();
    CAIRN_TRY(const Rest found, compile(guard, Rest{text_.canonical_string(), text_.canonical_string()}));
    if (text_.pool().matches_empty(found.later)) return unsupported();
    const RegexId all = text_.pool().repeat(text_.characters(nodes_[body.children[1]].ranges), 0, std::nullopt);
    const RegexId out = text_.except(all, text_.then(text_.canonical_string(), found.later));
    return Rest{out, out};
  }

  static std::unexpected<Error> unsupported() {
    return fail(Code::kUnsupported, "an assertion in a repeated group of a pattern");
  }

  JsonText& text_;
  const std::vector<Node>& nodes_;
};

Result<Rest> compile_pattern(JsonText& text, std::string_view pattern, RegexId rest) {
  if (pattern.size() > kPatternBytesMax) {
    return fail(Code::kTooLarge, "a pattern of {} bytes, over {}", pattern.size(), kPatternBytesMax);
  }
  PatternReader reader(pattern);
  CAIRN_TRY(const size_t root, reader.read());
  return PatternCompiler(text, reader.nodes()).compile(root, Rest{rest, rest});
}

}  // namespace

Result<RegexId> pattern_strings(JsonText& text, std::string_view pattern) {
  CAIRN_TRY(const Rest found, compile_pattern(text, pattern, text.canonical_string()));
  if (found.at_begin == found.later) return text.then(text.canonical_string(), found.later);
  const RegexId one = text.characters({{0, 0x10FFFF}});
  return text.either(found.at_begin, text.then(one, text.then(text.canonical_string(), found.later)));
}

Result<RegexId> pattern_whole_strings(JsonText& text, std::string_view pattern) {
  CAIRN_TRY(const Rest found, compile_pattern(text, pattern, kEmptyText));
  return found.at_begin;
}

}  // namespace cairn::grammar
