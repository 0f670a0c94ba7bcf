/// Metadata values and names as the bytes of a GGUF file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"
#include "gguf/parse_value.h"
#include "gguf/reader.h"

namespace cairn::gguf {

/// Appends the bytes of a number, little-endian.
template <class T>
void append_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// Appends a string: its length, its bytes.
void append_string(std::string& out, std::string_view text);

/// Appends the value's type and the value. Errors: kInvalidArgument, kTooLarge for values that Reader would refuse (a
/// number that does not fit its type, text that is not UTF-8, an array whose parts contradict each other, the limits of
/// reader.h).
Result<void> append_value(std::string& out, const Value& value, Strings strings);

}  // namespace cairn::gguf
