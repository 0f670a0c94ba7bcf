/// Reads regular expressions as ECMA-262 has them with the `u` flag, and what clients send beside that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "grammar/readers/characters.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

inline constexpr size_t kRegexBytesMax = 64 << 10;
inline constexpr int kRegexGroupsMax = 250;  ///< groups within groups
inline constexpr size_t kRegexUnrolledMax =
    100'000;  ///< parts, with the copies of what is repeated around an assertion
inline constexpr uint32_t kRegexCountMax = 2'147'483'647;  ///< the largest count of a repetition

struct RegexOptions {
  enum class Match : uint8_t {
    kWhole,   ///< The whole text matches, as for a request's `regex`.
    kSearch,  ///< Some part of the text matches, as for JSON Schema's `pattern`.
  };
  Match match = Match::kWhole;
  Spelling spelling = Spelling::kUtf8;
  bool ignore_case = false;  ///< i
  bool multiline = false;    ///< m: `^` and `$` also at line ends
  bool dot_all = false;      ///< s: `.` matches line ends, too
  bool dot_ends_at_newline_only =
      false;  ///< `.` matches all but \n, as in Rust and Python; else ECMA's four line ends.
  /// Whether anchors, lookarounds and word boundaries are read, which look at what stands around a match.
  bool assertions = true;
};

/// The texts (spelled as the options say) that the expression matches.
///
/// Characters are Unicode scalar values; \d, \w and \b are ASCII's, \s is ECMA-262's. Lookaheads and word boundaries
/// are exact wherever they do not stand in what is repeated without bound; lookbehinds are read where they look at one
/// character. Errors have the byte offset in `at`: kInvalidArgument (no regular expression), kUnsupported (no regular
/// language: a backreference; or an assertion that is not read there), kTooLarge (over a limit, which is named).
Result<RegexId> read_regex(RegexPool& pool, std::string_view pattern, const RegexOptions& options = {});

}  // namespace cairn::grammar
