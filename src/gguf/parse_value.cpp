#include "gguf/parse_value.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/text/utf8.h"
#include "gguf/number_type.h"

namespace cairn::gguf {
namespace {

// Minimum bytes of an element of an array: a string's length, an inner array's type and count.
constexpr uint64_t kStringBytesMin = 8;
constexpr uint64_t kArrayBytesMin = 12;

Result<ValueType> parse_type(Cursor& cursor) {
  const std::string begin = cursor.at();
  CAIRN_TRY(const uint32_t id, cursor.number<uint32_t>("a value's type"));
  if (id > static_cast<uint32_t>(ValueType::kF64)) {
    return fail_at(begin, Code::kCorruptFile, "value type {} is unknown (types are 0 to 12); the file is damaged", id);
  }
  return static_cast<ValueType>(id);
}

Result<std::string_view> parse_string(Cursor& cursor, Strings strings) {
  const std::string begin = cursor.at();
  CAIRN_TRY(const auto text, cursor.string(kStringBytesMax, "a string"));
  if (strings == Strings::kText && !utf8_valid(text)) {
    return fail_at(begin, Code::kCorruptFile, "a string is not UTF-8 from its byte {} on", utf8_valid_prefix(text));
  }
  return text;
}

Result<bool> parse_bool(Cursor& cursor) {
  const std::string begin = cursor.at();
  CAIRN_TRY(const auto byte, cursor.number<uint8_t>("a bool"));
  if (byte > 1) return fail_at(begin, Code::kCorruptFile, "a bool is {}; it can only be 0 or 1", byte);
  return byte == 1;
}

// Reads a count, which is accepted only if the file has bytes for that many elements.
Result<uint64_t> parse_count(Cursor& cursor, ValueType type) {
  const std::string begin = cursor.at();
  CAIRN_TRY(const uint64_t count, cursor.number<uint64_t>("an array's length"));
  if (count > kArrayElementsMax) {
    return fail_at(begin, Code::kTooLarge,
                   "an array has {} elements, the limit is {}; the file is damaged or not usable", count,
                   kArrayElementsMax);
  }
  uint64_t bytes_min = value_type_bytes(type);
  if (type == ValueType::kString) bytes_min = kStringBytesMin;
  if (type == ValueType::kArray) bytes_min = kArrayBytesMin;
  if (count > cursor.remaining() / bytes_min) {
    return fail_at(
        begin, Code::kCorruptFile,
        "the file is cut short: an array of {} {} elements needs bytes up to {}, the file has {}; download it "
        "again",
        count, value_type_name(type), cursor.offset() + count * bytes_min, cursor.offset() + cursor.remaining());
  }
  return count;
}

Result<Array> parse_array(Cursor& cursor, Strings strings, int depth) {
  if (depth > kArrayDepthMax) {
    return fail_at(cursor.at(), Code::kTooLarge, "arrays lie more than {} deep in each other", kArrayDepthMax);
  }
  Array array;
  CAIRN_TRY(array.type, parse_type(cursor));
  CAIRN_TRY(array.size, parse_count(cursor, array.type));
  if (array.type == ValueType::kString) {
    array.strings.reserve(array.size);
    for (uint64_t i = 0; i < array.size; ++i) {
      CAIRN_TRY(const auto text, parse_string(cursor, strings));
      array.strings.push_back(text);
    }
    return array;
  }
  if (array.type == ValueType::kArray) {
    for (uint64_t i = 0; i < array.size; ++i) {
      CAIRN_TRY(Array inner, parse_array(cursor, strings, depth + 1));
      array.arrays.push_back(Value{ValueType::kArray, std::move(inner)});
    }
    return array;
  }
  const uint64_t begin = cursor.offset();
  CAIRN_TRY(array.numbers, cursor.take(array.size * value_type_bytes(array.type), "an array"));
  if (array.type == ValueType::kBool) {
    const auto wrong = std::ranges::find_if(array.numbers, [](std::byte byte) { return byte > std::byte{1}; });
    if (wrong != array.numbers.end()) {
      const auto index = static_cast<uint64_t>(wrong - array.numbers.begin());
      return fail_at(fmt::format("offset {}", begin + index), Code::kCorruptFile,
                     "bool {} of an array is {}; it can only be 0 or 1", index, std::to_integer<int>(*wrong));
    }
  }
  return array;
}

}  // namespace

Result<Value> parse_value(Cursor& cursor, Strings strings) {
  Value value;
  CAIRN_TRY(value.type, parse_type(cursor));
  switch (value.type) {
    case ValueType::kString: {
      CAIRN_TRY(value.data, parse_string(cursor, strings));
      return value;
    }
    case ValueType::kArray: {
      CAIRN_TRY(value.data, parse_array(cursor, strings, 1));
      return value;
    }
    case ValueType::kBool: {
      CAIRN_TRY(value.data, parse_bool(cursor));
      return value;
    }
    default:
      break;
  }
  CAIRN_TRY(const auto bytes, cursor.take(value_type_bytes(value.type), "a number"));
  visit_number_type(value.type, [&]<class T>() {
    const T number = load<T>(bytes.data());
    if constexpr (std::is_floating_point_v<T>) {
      value.data = static_cast<double>(number);
    } else if constexpr (std::is_signed_v<T>) {
      value.data = static_cast<int64_t>(number);
    } else {
      value.data = static_cast<uint64_t>(number);
    }
  });
  return value;
}

}  // namespace cairn::gguf
