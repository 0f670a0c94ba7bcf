/// Reads everything from a reader, as code that trusts it would: used by tests and fuzzing with damaged files.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/hash.h"
#include "gguf/reader.h"

namespace cairn::gguf {

/// Adds all bytes of a value to the sum.
inline uint64_t walk(const Value& value, uint64_t sum) {
  if (const auto* text = std::get_if<std::string_view>(&value.data)) return hash64(*text, sum);
  const auto* array = std::get_if<Array>(&value.data);
  if (array == nullptr) return sum + value.data.index();
  sum = hash64(array->numbers, sum + array->size);
  for (const std::string_view text : array->strings) sum = hash64(text, sum);
  for (const Value& inner : array->arrays) sum = walk(inner, sum);
  return sum;
}

/// Adds which getters could read the key, and their values.
inline uint64_t walk_getters(const Metadata& metadata, std::string_view key) {
  uint64_t sum = 0;
  if (const auto text = metadata.string(key)) sum += hash64(*text);
  if (const auto number = metadata.integer(key)) sum += static_cast<uint64_t>(*number);
  if (const auto number = metadata.number(key)) sum += std::bit_cast<uint64_t>(*number);
  if (const auto flag = metadata.boolean(key)) sum += *flag ? 1 : 0;
  if (const auto texts = metadata.strings(key)) sum += texts->size();
  if (const auto numbers = metadata.integers(key)) {
    for (const int64_t number : *numbers) sum += static_cast<uint64_t>(number);
  }
  if (const auto numbers = metadata.floats(key)) sum += numbers->size();
  if (const auto flags = metadata.booleans(key)) sum += flags->size();
  if (const auto text = metadata.string_or(key, "")) sum += text->size();
  if (const auto number = metadata.integer_or(key, 0)) sum += static_cast<uint64_t>(*number);
  if (const auto number = metadata.number_or(key, 0)) sum += *number > 0 ? 1 : 0;
  if (const auto flag = metadata.boolean_or(key, false)) sum += *flag ? 1 : 0;
  return sum;
}

/// Calls every typed getter on every key and reads every byte of strings, arrays and tensors. The result depends on all
/// of them, so that nothing is optimised away.
inline uint64_t walk(const Reader& reader) {
  uint64_t sum = reader.version();
  for (const auto& [key, value] : reader.metadata().values()) {
    sum = walk(value, hash64(key, sum)) + walk_getters(reader.metadata(), key);
  }
  for (const Tensor& tensor : reader.tensors()) {
    sum = hash64(tensor.bytes, hash64(tensor.name, sum)) + static_cast<uint64_t>(tensor.elements());
    if (reader.find_tensor(tensor.name) == &tensor) ++sum;
  }
  return sum;
}

}  // namespace cairn::gguf
