/// Parses a metadata value of any type, including nested arrays.
#pragma once

#include "base/error.h"
#include "gguf/cursor.h"
#include "gguf/reader.h"

namespace cairn::gguf {

/// Whether a value's strings must be UTF-8: tokens are pieces of text and may be any bytes, everything else is text.
enum class Strings { kText, kAnyBytes };

/// Parses the value type at the cursor, then the value. Errors have the offset.
Result<Value> parse_value(Cursor& cursor, Strings strings);

}  // namespace cairn::gguf
