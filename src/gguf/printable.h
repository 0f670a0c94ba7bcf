/// Text of a file as an error message or a terminal can show it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::gguf {

/// How much of a name an error message quotes.
inline constexpr size_t kQuotedBytesMax = 96;

/// The text with control characters and ill-formed UTF-8 as escapes (\n, \x1b), cut with "..." behind `bytes_max`
/// bytes: a file must not be able to move the reader's cursor or fill the screen.
std::string printable(std::string_view text, size_t bytes_max = kQuotedBytesMax);

}  // namespace cairn::gguf
