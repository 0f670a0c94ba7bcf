/// Sets of characters, and the bytes that they are spelled with.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/regex/regex.h"

namespace cairn::grammar {

/// How a text stands in the bytes that are read.
enum class Spelling : uint8_t {
  kUtf8,  ///< as itself
  /// JSON's text between quotes: quotes, backslashes and control characters are escaped, by name or by number, and
  /// every other character may be.
  kJson,
  /// JSON's text with few escapes: printable ASCII that need not be escaped is not, except that a slash may be.
  kJsonPlain,
};

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

/// Unicode scalar values from `first` to `last`, both included.
struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;
  auto operator<=>(const CodePointRange&) const = default;
};

/// A set of Unicode scalar values; surrogates are in no set.
class CharacterSet {
 public:
  CharacterSet() = default;
  CharacterSet(std::initializer_list<CodePointRange> ranges) : CharacterSet(std::span(ranges.begin(), ranges.size())) {}
  explicit CharacterSet(std::span<const CodePointRange> ranges);
  static CharacterSet all();

  /// The ranges in order, which neither overlap nor touch.
  std::span<const CodePointRange> ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(char32_t character) const;

  CharacterSet operator|(const CharacterSet& other) const;
  CharacterSet operator&(const CharacterSet& other) const;
  CharacterSet operator-(const CharacterSet& other) const { return *this & ~other; }
  CharacterSet operator~() const;
  /// Some order of sets, for maps.
  auto operator<=>(const CharacterSet&) const = default;
  bool operator==(const CharacterSet&) const = default;

  /// With every character also those that differ from it in case only (by one-to-one mappings).
  CharacterSet with_case_variants() const;

 private:
  std::vector<CodePointRange> ranges_;
};

/// The characters with a property as `\p{..}` names it: a general category by its short or long name, also after `gc=`
/// or `General_Category=`; Any, ASCII, Assigned, ASCII_Hex_Digit or White_Space. Nullopt: no property that is known
/// here.
std::optional<CharacterSet> characters_with_property(std::string_view name);

/// One character of the set. kNoMatch: the set is empty.
RegexId spell(RegexPool& pool, const CharacterSet& set, Spelling spelling);
/// Exactly this text (well-formed UTF-8).
RegexId spell(RegexPool& pool, std::string_view text, Spelling spelling);
/// Any text, the empty one too.
RegexId spell_any_text(RegexPool& pool, Spelling spelling);

}  // namespace cairn::grammar
