/// JSON spellings as regular expressions: strings, numbers and white space.
///
/// Sets of strings are sets of *decoded* strings. Where a string is constrained, its expression ranges over the
/// canonical spellings: printable ASCII stands for itself, `"` and `\` come behind a backslash, control characters as
/// escapes, and all others as themselves or as `\u` escapes (Spelling::kJsonPlain). Each spelling decodes to one
/// string, so intersections and complements of expressions, taken among the canonical spellings, are those of the sets.
/// In a notation without escapes each string has one spelling, itself.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/readers/characters.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

enum class Whitespace {
  kAny,     ///< All that JSON allows.
  kPretty,  ///< At each place nothing, one space, or one or two line feeds and at most 20 spaces or tabs.
  kNone,
};

/// How values are written: in JSON, or in another notation of the same values.
struct Notation {
  bool escapes = true;  ///< strings have JSON's escapes, which constrained ones need; else they stand as they are
  std::string open_quote = "\"";
  std::string close_quote = "\"";
  bool single_quotes = false;  ///< strings may have these quotes too
  bool bare_keys = false;      ///< keys that are words have no quotes
  // The words for each of these values, any of which may be written.
  std::vector<std::string> null{"null"};
  std::vector<std::string> no{"false"};
  std::vector<std::string> yes{"true"};
  std::vector<std::string> absent{};  ///< texts that no string contains, because they end what is around it
};

/// Makes and shares the expressions of one pool, which must outlive it.
class JsonText {
 public:
  explicit JsonText(RegexPool& pool, Notation notation = {});

  const Notation& notation() const { return notation_; }

  RegexPool& pool() { return pool_; }
  /// The canonical spelling.
  Spelling spelling() const { return notation_.escapes ? Spelling::kJsonPlain : Spelling::kUtf8; }
  /// Canonical spellings of one character.
  RegexId characters(const CharacterSet& set);
  RegexId words(const std::vector<std::string>& words);
  /// Canonical spellings of a text of UTF-8.
  RegexId literal(std::string_view text);
  /// The same of any of many texts.
  RegexId literals(std::span<const std::string> texts);
  /// What stands between the quotes of any string, in every spelling.
  RegexId any_string() const { return any_string_; }
  RegexId canonical_string() const { return canonical_string_; }
  /// Strings of a number of characters, in every spelling.
  RegexId length_between(uint32_t min, std::optional<uint32_t> max) { return pool_.repeat(any_character_, min, max); }
  /// A string with its quotes, of what stands between them.
  RegexId quoted(RegexId body);
  /// What stands between the quotes of strings that are written without escapes but for those that spell() writes.
  RegexId spelled_string();
  /// A string with its quotes, of its decoded text; kNoMatch if it cannot be written.
  RegexId string_of(std::string_view text);
  /// The same of any of many texts.
  RegexId strings_of(std::span<const std::string> texts);
  /// A member's key, with its quotes if it has any: of what stands between them, or of its decoded text.
  RegexId key(RegexId body);
  RegexId key_of(std::string_view text);
  RegexId whitespace(Whitespace which);

  RegexId both(RegexId a, RegexId b) { return pool_.all_of(std::initializer_list<RegexId>{a, b}); }
  RegexId either(RegexId a, RegexId b) { return pool_.any_of(std::initializer_list<RegexId>{a, b}); }
  RegexId then(RegexId a, RegexId b) { return pool_.sequence(std::initializer_list<RegexId>{a, b}); }
  RegexId except(RegexId a, RegexId b) { return both(a, pool_.complement(b)); }
  /// Whether the expression matches the whole text.
  bool matches(RegexId regex, std::string_view text) { return pool_.matches(regex, text); }
  /// Whether it is certain that nothing matches.
  bool none(RegexId regex);

  /// The spelling that is written for a text: escapes only where JSON needs them. With the notation's quotes.
  std::string spell(std::string_view text) const;
  /// The spelling that is written for a text, without quotes.
  std::string spelled_body(std::string_view text) const;

 private:
  RegexId without_absent(RegexId body);
  RegexId single_quoted(RegexId body);

  RegexPool& pool_;
  Notation notation_;
  std::optional<RegexId> with_absent_{};
  RegexId any_character_{}, any_string_{}, canonical_string_{};
  std::map<CharacterSet, RegexId> sets_;
  std::map<std::string, RegexId, std::less<>> literals_;
  std::map<RegexId, bool> none_;
};

}  // namespace cairn::grammar
