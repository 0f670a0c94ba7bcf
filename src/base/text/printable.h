/// Text from others in a form that an error message, a log or a terminal can show.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

/// Maximum bytes of a name that an error message quotes.
inline constexpr size_t kQuotedBytesMax = 96;
/// Maximum bytes of a client's input that an error message repeats.
inline constexpr size_t kEchoBytesMax = 200;

/// The text with control characters, what turns the direction of writing, line separators and ill-formed UTF-8 as
/// escapes (\n, \x1b), cut with "..." after `bytes_max` of its bytes: a text must not be able to move the reader's
/// cursor, forge a line or fill the screen. The result is well-formed, and may be longer because of escapes.
std::string printable(std::string_view text, size_t bytes_max = kQuotedBytesMax);

/// The text, or as many of its whole characters as fit into `bytes_max` including the "..." after them.
std::string cut_text(std::string_view text, size_t bytes_max);

}  // namespace cairn
