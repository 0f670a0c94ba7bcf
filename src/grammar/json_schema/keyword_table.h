/// Which keywords of JSON Schema are held to, for people: docs/grammar.md has this table.
#pragma once

#include <span>
#include <string_view>

namespace cairn::grammar {

struct KeywordNote {
  std::string_view keywords;  ///< separated by ", "
  std::string_view drafts;
  std::string_view held;  ///< how, and what of it is refused
};

std::span<const KeywordNote> keyword_table();
/// Whether a draft knows the keyword, and whether it says something of values by itself.
bool is_keyword(std::string_view name);
bool binds_values(std::string_view name);

}  // namespace cairn::grammar
