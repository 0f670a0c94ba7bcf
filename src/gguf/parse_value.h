/// A metadata value of any type, arrays in arrays included.
#pragma once

#include "base/error.h"
#include "gguf/cursor.h"
#include "gguf/reader.h"

namespace cairn::gguf {

/// Whether a value's strings must be UTF-8: tokens are pieces of text and may be any bytes, all else is text.
enum class Strings { kText, kAnyBytes };

/// The value type at the cursor, then the value. Errors have the offset.
Result<Value> parse_value(Cursor& cursor, Strings strings);

}  // namespace cairn::gguf
