/// A regular expression as a tree: what regex_parser.cpp makes of its text, and regex_reader.cpp turns into a RegexId.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/readers/characters.h"
#include "grammar/readers/regex_reader.h"

namespace cairn::grammar {

/// A node's index in RegexSyntax::nodes.
enum class RegexNodeId : uint32_t {};

/// A RegexSyntaxNode::max that means no upper bound.
inline constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

struct RegexSyntaxNode {
  enum class Kind : uint8_t {
    kCharacters,  ///< one character of a set
    kSequence,    ///< `children`, in order
    kChoice,      ///< one of `children`
    kRepeat,      ///< `min` to `max` times `children[0]`
    kTextBegin,   ///< assertions: they match no character
    kTextEnd,
    kLineBegin,
    kLineEnd,
    kWordBoundary,
    kLookahead,   ///< of `children[0]`
    kLookbehind,  ///< of `children[0]`
  };
  Kind kind = Kind::kSequence;
  bool negative = false;       ///< of word boundaries and lookarounds
  bool has_assertion = false;  ///< it is one, or one is below
  uint32_t min = 0;
  uint32_t max = 0;
  uint32_t offset = 0;  ///< where in the text it begins, in bytes
  uint32_t set = 0;     ///< index in RegexSyntax::sets
  std::vector<RegexNodeId> children{};
};

struct RegexSyntax {
  std::vector<RegexSyntaxNode> nodes;
  std::vector<CharacterSet> sets;
  RegexNodeId root{};

  const RegexSyntaxNode& operator[](RegexNodeId id) const { return nodes[static_cast<size_t>(id)]; }
};

/// ECMA-262's \w.
const CharacterSet& word_characters();
/// What ECMA-262 calls line terminators.
const CharacterSet& line_ends();

/// Errors: as read_regex has them.
Result<RegexSyntax> parse_regex(std::string_view pattern, const RegexOptions& options);

}  // namespace cairn::grammar
