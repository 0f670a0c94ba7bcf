/// The number types of metadata values as C++ types.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gguf/reader.h"

namespace cairn::gguf {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read in place");

/// Loads the value from any address, aligned or not.
template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// Calls `visit.operator()<T>()` with the C++ type of a number type (not bool) and returns true; false for other types.
template <class Visit>
bool visit_number_type(ValueType type, Visit&& visit) {
  switch (type) {
    case ValueType::kU8:
      visit.template operator()<uint8_t>();
      return true;
    case ValueType::kI8:
      visit.template operator()<int8_t>();
      return true;
    case ValueType::kU16:
      visit.template operator()<uint16_t>();
      return true;
    case ValueType::kI16:
      visit.template operator()<int16_t>();
      return true;
    case ValueType::kU32:
      visit.template operator()<uint32_t>();
      return true;
    case ValueType::kI32:
      visit.template operator()<int32_t>();
      return true;
    case ValueType::kU64:
      visit.template operator()<uint64_t>();
      return true;
    case ValueType::kI64:
      visit.template operator()<int64_t>();
      return true;
    case ValueType::kF32:
      visit.template operator()<float>();
      return true;
    case ValueType::kF64:
      visit.template operator()<double>();
      return true;
    case ValueType::kBool:
    case ValueType::kString:
    case ValueType::kArray:
      return false;
  }
  return false;
}

/// Bytes of a number or bool; 0 for strings and arrays.
inline uint64_t value_type_bytes(ValueType type) {
  uint64_t bytes = type == ValueType::kBool ? 1 : 0;
  visit_number_type(type, [&]<class T>() { bytes = sizeof(T); });
  return bytes;
}

}  // namespace cairn::gguf
