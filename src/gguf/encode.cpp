#include "gguf/encode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/text/utf8.h"
#include "gguf/number_type.h"

namespace cairn::gguf {
namespace {

Result<void> append_text(std::string& out, std::string_view text, Strings strings) {
  if (text.size() > kStringBytesMax) {
    return fail(Code::kTooLarge, "a string has {} bytes, the limit is {}", text.size(), kStringBytesMax);
  }
  if (strings == Strings::kText && !utf8_valid(text)) return fail(Code::kInvalidArgument, "a string is not UTF-8");
  append_string(out, text);
  return {};
}

template <class To, class From>
bool fits(From number) {
  if constexpr (std::is_same_v<From, double>) {
    if constexpr (!std::is_floating_point_v<To>) return false;
    return !std::isfinite(number) || std::fabs(number) <= static_cast<double>(std::numeric_limits<To>::max());
  } else {
    if constexpr (std::is_floating_point_v<To>)
      return false;
    else
      return std::in_range<To>(number);
  }
}

// Appends a number or bool, if the variant holds the value's type and the number fits.
Result<void> append_scalar(std::string& out, const Value& value) {
  bool done = false;
  if (const auto* flag = std::get_if<bool>(&value.data); flag != nullptr && value.type == ValueType::kBool) {
    append_number(out, static_cast<uint8_t>(*flag));
    done = true;
  }
  visit_number_type(value.type, [&]<class To>() {
    std::visit(
        [&]<class From>(const From& number) {
          if constexpr (std::is_same_v<From, uint64_t> || std::is_same_v<From, int64_t> ||
                        std::is_same_v<From, double>) {
            done = fits<To>(number);
            if (done) append_number(out, static_cast<To>(number));
          }
        },
        value.data);
  });
  if (!done) return fail(Code::kInvalidArgument, "the value does not fit the type {}", value_type_name(value.type));
  return {};
}

Result<void> append_array(std::string& out, const Array& array, Strings strings, int depth) {
  if (depth > kArrayDepthMax)
    return fail(Code::kTooLarge, "arrays lie more than {} deep in each other", kArrayDepthMax);
  if (array.size > kArrayElementsMax) {
    return fail(Code::kTooLarge, "an array has {} elements, the limit is {}", array.size, kArrayElementsMax);
  }
  const uint64_t bytes = array.size * value_type_bytes(array.type);
  const uint64_t strings_size = array.type == ValueType::kString ? array.size : 0;
  const uint64_t arrays_size = array.type == ValueType::kArray ? array.size : 0;
  if (array.numbers.size() != bytes || array.strings.size() != strings_size || array.arrays.size() != arrays_size) {
    return fail(Code::kInvalidArgument, "an array says that it has {} elements and has others", array.size);
  }
  append_number(out, static_cast<uint32_t>(array.type));
  append_number(out, array.size);
  if (array.type == ValueType::kBool &&
      std::ranges::any_of(array.numbers, [](std::byte byte) { return byte > std::byte{1}; })) {
    return fail(Code::kInvalidArgument, "an array of bools has a byte that is neither 0 nor 1");
  }
  out.append(reinterpret_cast<const char*>(array.numbers.data()), array.numbers.size());
  for (const std::string_view text : array.strings) CAIRN_TRY_VOID(append_text(out, text, strings));
  for (const Value& inner : array.arrays) {
    const auto* inner_array = std::get_if<Array>(&inner.data);
    if (inner_array == nullptr) return fail(Code::kInvalidArgument, "an array of arrays has an element that is none");
    CAIRN_TRY_VOID(append_array(out, *inner_array, strings, depth + 1));
  }
  return {};
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  out.append(text);
}

Result<void> append_value(std::string& out, const Value& value, Strings strings) {
  append_number(out, static_cast<uint32_t>(value.type));
  const auto* text = std::get_if<std::string_view>(&value.data);
  const auto* array = std::get_if<Array>(&value.data);
  if (value.type == ValueType::kString && text != nullptr) return append_text(out, *text, strings);
  if (value.type == ValueType::kArray && array != nullptr) return append_array(out, *array, strings, 1);
  return append_scalar(out, value);
}

}  // namespace cairn::gguf
