/// Small notations: string escapes, digits, HTML entities.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "jinja/value/value.h"

namespace cairn::jinja {

/// The value of the inside of a Python string literal. Unknown escapes are left unchanged.
Result<std::string> unescape(std::string_view literal);

/// Parses digits of a base from 2 to 36; nullopt if there are none, other characters, or more than an Int holds.
std::optional<Int> parse_digits(std::string_view digits, int base);

/// Python's int(text, base) and float(text): surrounding white space, a sign, and underscores between digits are
/// allowed. With base 0 the prefix gives the base.
std::optional<Int> parse_integer(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

/// Writes & < > ' " as HTML entities.
Result<void> put_escaped(Buffer& out, const Piece& text);

}  // namespace cairn::jinja
