#include "metadata_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <variant>

#include "base/text/printable.h"
#include "gguf/number_type.h"
#include "table_text.h"

namespace cairn {

using nlohmann::ordered_json;

namespace {

constexpr size_t kTextBytesShown = 80;
constexpr uint64_t kElementsShown = 8;

// A 32-bit float as its shortest decimal, not as the double next to it.
double shortest(float number) { return std::strtod(fmt::format("{}", number).c_str(), nullptr); }

ordered_json array_json(const gguf::Array& array, bool full) {
  ordered_json out = ordered_json::array();
  const uint64_t shown = full ? array.size : std::min(array.size, kElementsShown);
  for (uint64_t i = 0; i < shown; ++i) {
    if (array.type == gguf::ValueType::kString) {
      out.push_back(array.strings[i]);
    } else if (array.type == gguf::ValueType::kArray) {
      out.push_back(value_json(array.arrays[i], full)["value"]);
    } else if (array.type == gguf::ValueType::kBool) {
      out.push_back(array.numbers[i] != std::byte{0});
    } else {
      gguf::visit_number_type(array.type, [&]<class T>() {
        const T number = gguf::load<T>(array.numbers.data() + i * sizeof(T));
        if constexpr (std::is_same_v<T, float>) {
          out.push_back(shortest(number));
        } else {
          out.push_back(number);
        }
      });
    }
  }
  return out;
}

}  // namespace

std::string shape_text(const gguf::Tensor& tensor) {
  std::string text;
  for (const int64_t size : tensor.shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

std::string type_text(const gguf::Value& value) {
  const auto* array = std::get_if<gguf::Array>(&value.data);
  return array == nullptr ? std::string(gguf::value_type_name(value.type))
                          : fmt::format("[{}]", gguf::value_type_name(array->type));
}

ordered_json value_json(const gguf::Value& value, bool full) {
  ordered_json out;
  out["type"] = gguf::value_type_name(value.type);
  if (const auto* array = std::get_if<gguf::Array>(&value.data)) {
    out["of"] = gguf::value_type_name(array->type);
    out["length"] = array->size;
    out["value"] = array_json(*array, full);
  } else if (const auto* number = std::get_if<double>(&value.data)) {
    out["value"] = value.type == gguf::ValueType::kF32 ? shortest(static_cast<float>(*number)) : *number;
  } else if (const auto* text = std::get_if<std::string_view>(&value.data)) {
    out["value"] = *text;
  } else if (const auto* flag = std::get_if<bool>(&value.data)) {
    out["value"] = *flag;
  } else if (const auto* whole = std::get_if<uint64_t>(&value.data)) {
    out["value"] = *whole;
  } else {
    out["value"] = std::get<int64_t>(value.data);
  }
  return out;
}

std::string value_text(const gguf::Value& value, bool full) {
  const size_t bytes_max = full ? std::numeric_limits<size_t>::max() : kTextBytesShown;
  if (const auto* text = std::get_if<std::string_view>(&value.data)) return printable(*text, bytes_max);
  const auto* array = std::get_if<gguf::Array>(&value.data);
  if (array == nullptr) return value_json(value, full)["value"].dump();
  std::string out = "[";
  for (const ordered_json& element : array_json(*array, full)) {
    if (out.size() > 1) out += ", ";
    const auto* text = element.get_ptr<const std::string*>();
    out += text == nullptr ? element.dump(-1, ' ', false, ordered_json::error_handler_t::replace)
                           : fmt::format("\"{}\"", printable(*text, bytes_max));
  }
  if (!full && array->size > kElementsShown)
    out += fmt::format(", ... {} in all", grouped(static_cast<int64_t>(array->size)));
  return out + "]";
}

}  // namespace cairn
