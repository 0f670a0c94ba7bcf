// The tree of a regular expression -> RegexId.
//
// What an assertion looks at is the whole rest of the text, so a tree with assertions is read from its end: given the
// texts that may follow a node ("the rest"), what is the language of the node and what follows? A lookahead intersects
// the rest with what it asks for. What stands before is known only by its last character, as one of a few contexts, and
// there is a rest for each: enough for anchors, word boundaries, and lookbehinds at one character.
#include "grammar/readers/regex_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "grammar/readers/regex_syntax.h"

namespace cairn::grammar {

namespace {

using Kind = RegexSyntaxNode::Kind;

/// Contexts beyond this are refused.
constexpr size_t kRegexContextsMax = 32;
/// How often what is repeated without bound is put before itself in search of a rest that stays as it is.
constexpr int kRegexFixpointSteps = 4;

// A language for each context: what may follow where the last character is of that context.
using Rest = std::vector<RegexId>;
// A set of contexts.
using ContextSet = std::vector<bool>;

bool uniform(std::span<const RegexId> rest) {
  return std::ranges::all_of(rest, [&](RegexId id) { return id == rest.front(); });
}

class RegexCompiler {
 public:
  RegexCompiler(RegexPool& pool, const RegexSyntax& syntax, const RegexOptions& options)
      : pool_(pool),
        syntax_(syntax),
        options_(options),
        languages_(syntax.nodes.size()),
        spelled_(syntax.sets.size()) {}

  Result<RegexId> compile() {
    CAIRN_TRY_VOID(find_contexts());
    const bool search = options_.match == RegexOptions::Match::kSearch;
    if (search && !syntax_[syntax_.root].has_assertion)
      return pool_.sequence(std::array{any_text(), language(syntax_.root), any_text()});
    CAIRN_TRY(const Rest whole, before(syntax_.root, everywhere(search ? any_text() : kEmptyText)));
    if (!search) return whole.front();
    return before_language(any_text(), whole).front();
  }

 private:
  // ---- Small languages ----

  RegexId sequence(RegexId first, RegexId second) { return pool_.sequence(std::array{first, second}); }
  RegexId either(RegexId a, RegexId b) { return a == b ? a : pool_.any_of(std::array{a, b}); }
  RegexId both(RegexId a, RegexId b) { return a == b ? a : pool_.all_of(std::array{a, b}); }
  RegexId any_text() {
    if (!any_text_) any_text_ = spell_any_text(pool_, options_.spelling);
    return *any_text_;
  }
  RegexId any_character() { return spell(pool_, CharacterSet::all(), options_.spelling); }
  RegexId some_text() { return sequence(any_character(), any_text()); }
  RegexId spelled(uint32_t set) {
    if (!spelled_[set]) spelled_[set] = spell(pool_, syntax_.sets[set], options_.spelling);
    return *spelled_[set];
  }
  // Texts that begin with a character of the set.
  RegexId begins_with(const CharacterSet& set) {
    const auto [known, is_new] = beginnings_.try_emplace(set);
    if (is_new) known->second = sequence(spell(pool_, set, options_.spelling), any_text());
    return known->second;
  }

  // The language of a node without assertions. Recursive, as deep as groups are nested.
  RegexId language(RegexNodeId id) {
    std::optional<RegexId>& known = languages_[static_cast<size_t>(id)];
    if (known) return *known;
    const RegexSyntaxNode& node = syntax_[id];
    std::vector<RegexId> children;
    for (const RegexNodeId child : node.children) children.push_back(language(child));
    switch (node.kind) {
      case Kind::kCharacters:
        known = spelled(node.set);
        break;
      case Kind::kChoice:
        known = pool_.any_of(children);
        break;
      case Kind::kRepeat:
        known = pool_.repeat(children.front(), node.min,
                             node.max == kUnbounded ? std::nullopt : std::optional<uint32_t>(node.max));
        break;
      default:
        known = pool_.sequence(children);
        break;
    }
    return *known;
  }

  // ---- Contexts ----
  // The first is the beginning of the text; the others are disjoint sets of characters, all of them together.

  size_t contexts() const { return sets_.size() + 1; }
  Rest everywhere(RegexId id) const { return Rest(contexts(), id); }

  Result<void> find_contexts() {
    sets_ = {CharacterSet::all()};
    for (const RegexSyntaxNode& node : syntax_.nodes) {
      if (node.kind == Kind::kWordBoundary) divide(word_characters());
      if (node.kind == Kind::kLineBegin) divide(line_ends());
      if (node.kind == Kind::kLookbehind) CAIRN_TRY_VOID(divide_by(node.children.front(), node.offset));
      if (sets_.size() > kRegexContextsMax)
        return fail_at(fmt::format("{}", node.offset), Code::kTooLarge,
                       "lookbehinds tell more than {} kinds of characters apart", kRegexContextsMax);
    }
    return {};
  }

  void divide(const CharacterSet& by) {
    if (!divided_by_.insert(by).second) return;
    std::vector<CharacterSet> divided;
    for (const CharacterSet& set : sets_)
      for (CharacterSet part : {set & by, set - by})
        if (!part.empty()) divided.push_back(std::move(part));
    sets_ = std::move(divided);
  }

  // What a lookbehind asks for: one character, or the beginning of the text, or one of these. Recursive, as deep as
  // groups are nested.
  Result<void> divide_by(RegexNodeId id, uint32_t lookbehind) {
    const RegexSyntaxNode& node = syntax_[id];
    switch (node.kind) {
      case Kind::kCharacters:
        divide(syntax_.sets[node.set]);
        return {};
      case Kind::kTextBegin:
        return {};
      case Kind::kChoice:
        for (const RegexNodeId child : node.children) CAIRN_TRY_VOID(divide_by(child, lookbehind));
        return {};
      default:
        return fail_at(fmt::format("{}", lookbehind), Code::kUnsupported,
                       "a lookbehind at more than one character is not read");
    }
  }

  ContextSet behind(RegexNodeId id) const {
    const RegexSyntaxNode& node = syntax_[id];
    ContextSet out(contexts());
    switch (node.kind) {
      case Kind::kTextBegin:
        out[0] = true;
        break;
      case Kind::kCharacters:
        out = after_characters(syntax_.sets[node.set]);
        break;
      default:
        for (const RegexNodeId child : node.children) {
          const ContextSet more = behind(child);
          for (size_t k = 0; k < out.size(); ++k) out[k] = out[k] || more[k];
        }
    }
    return out;
  }

  ContextSet after_characters(const CharacterSet& set) const {
    ContextSet out(contexts());
    for (size_t k = 1; k < out.size(); ++k) out[k] = !(sets_[k - 1] & set).empty();
    return out;
  }

  Rest only_in(const ContextSet& where, Rest rest) const {
    for (size_t k = 0; k < rest.size(); ++k)
      if (!where[k]) rest[k] = kNoMatch;
    return rest;
  }

  // ---- A node and what follows ----

  // Recursive, as deep as groups are nested.
  Result<Rest> before(RegexNodeId id, const Rest& rest) {
    const RegexSyntaxNode& node = syntax_[id];
    if (pool_.full())
      return fail_at(fmt::format("{}", node.offset), Code::kTooLarge, "the expression needs {}", pool_.excess());
    if (++parts_ > kRegexUnrolledMax)
      return fail_at(fmt::format("{}", node.offset), Code::kTooLarge,
                     "with the copies of what is repeated around assertions, the expression has more than {} parts",
                     kRegexUnrolledMax);
    if (!node.has_assertion) {
      if (node.kind == Kind::kCharacters) return before_characters(node.set, rest);
      return before_language(language(id), rest);
    }
    switch (node.kind) {
      case Kind::kSequence: {
        Rest out = rest;
        for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
          CAIRN_TRY(out, before(*child, out));
        }
        return out;
      }
      case Kind::kChoice:
        return before_choice(node, rest);
      case Kind::kRepeat:
        return before_repeat(node, rest);
      case Kind::kTextBegin: {
        ContextSet where(contexts());
        where[0] = true;
        return only_in(where, rest);
      }
      case Kind::kLineBegin: {
        ContextSet where = after_characters(line_ends());
        where[0] = true;
        return only_in(where, rest);
      }
      case Kind::kTextEnd:
        return that_are(kEmptyText, rest);
      case Kind::kLineEnd:
        return that_are(either(kEmptyText, begins_with(line_ends())), rest);
      case Kind::kWordBoundary:
        return before_boundary(node.negative, rest);
      case Kind::kLookahead: {
        CAIRN_TRY(const Rest asked, before(node.children.front(), everywhere(any_text())));
        Rest out = rest;
        for (size_t k = 0; k < out.size(); ++k)
          out[k] = both(node.negative ? pool_.complement(asked[k]) : asked[k], out[k]);
        return out;
      }
      case Kind::kLookbehind: {
        ContextSet where = behind(node.children.front());
        if (node.negative) where.flip();
        return only_in(where, rest);
      }
      case Kind::kCharacters:
        break;  // no assertion
    }
    return rest;
  }

  Rest that_are(RegexId condition, Rest rest) {
    for (RegexId& id : rest) id = both(condition, id);
    return rest;
  }

  Rest before_characters(uint32_t set, const Rest& rest) {
    if (uniform(std::span(rest).subspan(1))) return everywhere(sequence(spelled(set), rest[1]));
    RegexId out = kNoMatch;
    for (size_t k = 1; k < contexts(); ++k)
      out = either(out, sequence(spell(pool_, syntax_.sets[set] & sets_[k - 1], options_.spelling), rest[k]));
    return everywhere(out);
  }

  // Texts of `inner` end in the context of their last character; the empty one stays where it is.
  Rest before_language(RegexId inner, const Rest& rest) {
    if (uniform(rest)) return everywhere(sequence(inner, rest.front()));
    const bool empty = pool_.matches_empty(inner);
    RegexId out = kNoMatch;
    if (uniform(std::span(rest).subspan(1))) {
      out = sequence(empty ? both(inner, some_text()) : inner, rest[1]);
    } else {
      for (size_t k = 1; k < contexts(); ++k) {
        const RegexId ends = sequence(any_text(), spell(pool_, sets_[k - 1], options_.spelling));
        out = either(out, sequence(both(inner, ends), rest[k]));
      }
    }
    Rest all = everywhere(out);
    if (empty)
      for (size_t k = 0; k < all.size(); ++k) all[k] = either(all[k], rest[k]);
    return all;
  }

  Result<Rest> before_choice(const RegexSyntaxNode& node, const Rest& rest) {
    std::vector<std::vector<RegexId>> choices(contexts());
    for (const RegexNodeId child : node.children) {
      CAIRN_TRY(const Rest one, before(child, rest));
      for (size_t k = 0; k < one.size(); ++k) choices[k].push_back(one[k]);
    }
    Rest out;
    for (const std::vector<RegexId>& list : choices) out.push_back(pool_.any_of(list));
    return out;
  }

  Rest before_boundary(bool negative, const Rest& rest) {
    const RegexId word_follows = begins_with(word_characters());
    const RegexId none_follows = pool_.complement(word_follows);
    Rest out = rest;
    for (size_t k = 0; k < out.size(); ++k) {
      const bool after_word = k > 0 && word_characters().contains(sets_[k - 1].ranges().front().first);
      out[k] = both(after_word != negative ? none_follows : word_follows, out[k]);
    }
    return out;
  }

  // ---- What is repeated around an assertion ----

  Result<Rest> before_repeat(const RegexSyntaxNode& node, const Rest& rest) {
    const RegexNodeId inner = node.children.front();
    if (const auto guarded = before_guarded_repeat(node, rest)) return *guarded;
    // The copies that may be left out, the last one first; each may be followed by what those after it allow.
    Rest out = rest;
    const bool unbounded = node.max == kUnbounded;
    bool settled = node.max == node.min;
    for (uint32_t i = node.min; !settled && i < node.max; ++i) {
      if (unbounded && i - node.min == kRegexFixpointSteps)
        return fail_at(fmt::format("{}", node.offset), Code::kUnsupported,
                       "an assertion within what is repeated without bound is not read here");
      CAIRN_TRY(Rest next, before(inner, out));
      for (size_t k = 0; k < next.size(); ++k) next[k] = either(next[k], rest[k]);
      settled = next == out;
      out = std::move(next);
    }
    for (uint32_t i = 0; i < node.min; ++i) {
      CAIRN_TRY(Rest next, before(inner, out));
      if (next == out) break;
      out = std::move(next);
    }
    return out;
  }

  // (?:(?!A)x)* at the end of the text, where x is one character: the texts of x* without a place at which A begins.
  // Nullopt: it is something else.
  std::optional<Rest> before_guarded_repeat(const RegexSyntaxNode& node, const Rest& rest) {
    const RegexSyntaxNode* inner = &syntax_[node.children.front()];
    if (!uniform(rest) || rest.front() != kEmptyText || inner->kind != Kind::kSequence) return std::nullopt;
    std::optional<uint32_t> set;
    std::vector<RegexId> conditions;
    for (const RegexNodeId child : inner->children) {
      const RegexSyntaxNode& part = syntax_[child];
      if (part.kind == Kind::kCharacters && !set) {
        set = part.set;
        continue;
      }
      if (part.kind != Kind::kLookahead) return std::nullopt;
      const Result<Rest> asked = before(part.children.front(), everywhere(any_text()));
      if (!asked || !uniform(*asked)) return std::nullopt;
      const RegexId bad = part.negative ? asked->front() : pool_.complement(asked->front());
      // Where the lookahead stands: before a character of the text, or after one.
      const RegexId place = set ? sequence(some_text(), bad) : sequence(any_text(), both(bad, some_text()));
      conditions.push_back(pool_.complement(place));
    }
    if (!set) return std::nullopt;
    conditions.push_back(pool_.repeat(spelled(*set), node.min,
                                      node.max == kUnbounded ? std::nullopt : std::optional<uint32_t>(node.max)));
    return everywhere(pool_.all_of(conditions));
  }

  RegexPool& pool_;
  const RegexSyntax& syntax_;
  const RegexOptions& options_;
  std::vector<std::optional<RegexId>> languages_;  // of nodes
  std::vector<std::optional<RegexId>> spelled_;    // sets
  std::optional<RegexId> any_text_;
  std::vector<CharacterSet> sets_;     // of contexts but the first
  std::set<CharacterSet> divided_by_;  // what told the contexts apart
  std::map<CharacterSet, RegexId> beginnings_;
  size_t parts_ = 0;
};

}  // namespace

Result<RegexId> read_regex(RegexPool& pool, std::string_view pattern, const RegexOptions& options) {
  CAIRN_TRY(const RegexSyntax syntax, parse_regex(pattern, options));
  CAIRN_TRY(const RegexId regex, RegexCompiler(pool, syntax, options).compile());
  if (pool.full()) return fail_at("0", Code::kTooLarge, "the expression needs {}", pool.excess());
  return regex;
}

}  // namespace cairn::grammar
