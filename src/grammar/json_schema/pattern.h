/// `pattern` and `patternProperties` of JSON Schema: regular expressions of ECMA-262, which are searched for.
#pragma once

#include <string_view>

#include "base/error.h"
#include "grammar/json_schema/json_text.h"

namespace cairn::grammar {

inline constexpr size_t kPatternBytesMax = 64 * 1024;
inline constexpr int kPatternDepthMax = 200;  ///< of groups

/// Canonical spellings (see JsonText) of the strings in which the pattern is found, without quotes. Characters are code
/// points (the flag `u`), though an escape of a letter without a meaning is an error. Lookahead is regular and is built
/// by intersection. Errors: kInvalidArgument (not a regular expression), kUnsupported (lookbehind, back-references, word
/// boundaries, an assertion in a repeated group), kTooLarge; `at` is the byte offset.
Result<RegexId> pattern_strings(JsonText& text, std::string_view pattern);

/// Strings that the pattern matches from end to end.
Result<RegexId> pattern_whole_strings(JsonText& text, std::string_view pattern);

}  // namespace cairn::grammar
