/// The small notations: string escapes, digits, HTML entities.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

/// The value of a Python string literal's inside. Unknown escapes stay as they are.
Result<std::string> unescape(std::string_view literal);

/// Digits of a base from 2 to 36, nothing else; nothing if there are none, others, or more than an Int holds.
std::optional<Int> parse_digits(std::string_view digits, int base);

/// Python's int(text, base) and float(text): white space around, sign, underscores between digits. Base 0 takes it from
/// the prefix.
std::optional<Int> parse_integer(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

/// & < > ' " as HTML entities.
Result<void> put_escaped(Buffer& out, const Piece& text);

}  // namespace cairn::jinja
