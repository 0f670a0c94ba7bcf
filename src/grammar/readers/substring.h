/// Parts of a given text as a regular expression: `%regex {"substring_chunks": [...]}` of llguidance's dialect of Lark.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "grammar/readers/characters.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

inline constexpr size_t kSubstringChunksMax = 900;  ///< each is nested in the one before: kRegexDepthMax

/// Any neighbours among the chunks, none too. `what` has one member: `substring_chunks`, a list of texts;
/// `substring_words`, a text whose chunks are its words, its white space and what is between them; or
/// `substring_chars`, a text whose chunks are its characters. Errors: kInvalidArgument, kTooLarge (over
/// kSubstringChunksMax), kUnsupported (a member of another name).
Result<RegexId> read_substring(RegexPool& pool, const nlohmann::ordered_json& what, Spelling spelling);

}  // namespace cairn::grammar
