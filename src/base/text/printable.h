/// Text of others as an error message, a log or a terminal can show it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

/// How much of a name an error message quotes.
inline constexpr size_t kQuotedBytesMax = 96;
/// How much of what a client sent an error message gives back at most.
inline constexpr size_t kEchoBytesMax = 200;

/// The text with control characters, what turns the direction of writing, line separators and ill-formed UTF-8 as
/// escapes (\n, \x1b), cut with "..." behind `bytes_max` of its bytes: nobody's text must be able to move the reader's
/// cursor, feign a line or fill the screen. The result is well-formed and may be longer, for an escape is.
std::string printable(std::string_view text, size_t bytes_max = kQuotedBytesMax);

/// The text, or as many of its whole characters as fit in `bytes_max` with "..." behind them, which counts.
std::string cut_text(std::string_view text, size_t bytes_max);

}  // namespace cairn
