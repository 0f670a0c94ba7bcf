/// Sets of characters that utf8proc does not tell: ECMA-262's binary properties, and scripts.
#pragma once

#include <span>
#include <string_view>

namespace cairn::grammar {

struct UnicodeTable {
  std::string_view names;   ///< in small letters without underscores, separated by spaces
  std::string_view ranges;  ///< lengths of gaps and ranges in turn, as scripts/unicode_tables.py writes them
};

std::span<const UnicodeTable> binary_properties();
/// All but Unknown, which has the characters of no other.
std::span<const UnicodeTable> scripts();
/// The extensions of those scripts that have others than their own characters.
std::span<const UnicodeTable> script_extensions();

}  // namespace cairn::grammar
