// Typed reading of metadata: see Metadata in reader.h.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "base/text/printable.h"
#include "gguf/number_type.h"
#include "gguf/reader.h"

namespace cairn::gguf {
namespace {

// The range of whole numbers that a double holds exactly.
constexpr double kExactDoubleMax = 9007199254740992.0;

std::string describe(const Value& value) {
  if (const auto* array = std::get_if<Array>(&value.data)) {
    return fmt::format("an array of {} {} elements", array->size, value_type_name(array->type));
  }
  if (const auto* text = std::get_if<std::string_view>(&value.data))
    return fmt::format("the string \"{}\"", printable(*text));
  if (const auto* flag = std::get_if<bool>(&value.data)) return fmt::format("the bool {}", *flag);
  const std::string_view type = value_type_name(value.type);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return fmt::format("the {} {}", type, *number);
  if (const auto* number = std::get_if<int64_t>(&value.data)) return fmt::format("the {} {}", type, *number);
  return fmt::format("the {} {}", type, std::get<double>(value.data));
}

std::unexpected<Error> wrong_type(std::string_view key, const Value& value, std::string_view expected) {
  return fail(Code::kCorruptFile, "metadata key {} is {}; expected {}", printable(key), describe(value), expected);
}

std::unexpected<Error> wrong_element(std::string_view key, uint64_t index, std::string_view expected) {
  return fail(Code::kCorruptFile, "element {} of metadata key {} is not {}", index, printable(key), expected);
}

Result<const Value*> required(const Metadata& metadata, std::string_view key, std::string_view expected) {
  const Value* value = metadata.find(key);
  if (value == nullptr)
    return fail(Code::kCorruptFile, "metadata key {} is missing; expected {}", printable(key), expected);
  return value;
}

template <class T>
std::optional<int64_t> as_integer(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto wide = static_cast<double>(number);
    if (!(std::fabs(wide) <= kExactDoubleMax) || wide != std::trunc(wide)) return std::nullopt;
    return static_cast<int64_t>(wide);
  } else {
    if (!std::in_range<int64_t>(number)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
}

template <class T>
std::optional<double> as_double(T number) {
  const auto wide = static_cast<double>(number);
  if constexpr (std::is_integral_v<T>) {
    if (std::fabs(wide) > kExactDoubleMax) return std::nullopt;
  }
  return wide;
}

// Infinities and NaN are kept; a finite number must not become infinite.
template <class T>
std::optional<float> as_float(T number) {
  const auto narrow = static_cast<double>(number);
  if (std::isfinite(narrow) && std::fabs(narrow) > double{std::numeric_limits<float>::max()}) return std::nullopt;
  return static_cast<float>(narrow);
}

Result<int64_t> to_integer(std::string_view key, const Value& value) {
  std::optional<int64_t> number;
  if (const auto* u = std::get_if<uint64_t>(&value.data)) number = as_integer(*u);
  if (const auto* i = std::get_if<int64_t>(&value.data)) number = *i;
  if (const auto* d = std::get_if<double>(&value.data)) number = as_integer(*d);
  if (!number) return wrong_type(key, value, "a 64-bit integer");
  return *number;
}

Result<double> to_number(std::string_view key, const Value& value) {
  std::optional<double> number;
  if (const auto* u = std::get_if<uint64_t>(&value.data)) number = as_double(*u);
  if (const auto* i = std::get_if<int64_t>(&value.data)) number = as_double(*i);
  if (const auto* d = std::get_if<double>(&value.data)) number = *d;
  if (!number) return wrong_type(key, value, "a number");
  return *number;
}

template <class T>
Result<T> to(std::string_view key, const Value& value, std::string_view expected) {
  const auto* found = std::get_if<T>(&value.data);
  if (found == nullptr) return wrong_type(key, value, expected);
  return *found;
}

// Converts every element of an array of numbers with `convert`, which gives nullopt for one that does not fit.
template <class Out, class Convert>
Result<std::vector<Out>> number_array(const Metadata& metadata, std::string_view key, std::string_view expected_array,
                                      std::string_view expected_element, Convert&& convert) {
  CAIRN_TRY(const Value* value, required(metadata, key, expected_array));
  const auto* array = std::get_if<Array>(&value->data);
  if (array == nullptr) return wrong_type(key, *value, expected_array);
  std::vector<Out> out;
  std::optional<uint64_t> wrong;
  const bool is_numbers = visit_number_type(array->type, [&]<class T>() {
    out.reserve(array->size);
    for (uint64_t i = 0; i < array->size && !wrong; ++i) {
      if (const std::optional<Out> element = convert(load<T>(array->numbers.data() + i * sizeof(T)))) {
        out.push_back(*element);
      } else {
        wrong = i;
      }
    }
  });
  if (!is_numbers) return wrong_type(key, *value, expected_array);
  if (wrong) return wrong_element(key, *wrong, expected_element);
  return out;
}

}  // namespace

std::string_view value_type_name(ValueType type) {
  switch (type) {
    case ValueType::kU8:
      return "u8";
    case ValueType::kI8:
      return "i8";
    case ValueType::kU16:
      return "u16";
    case ValueType::kI16:
      return "i16";
    case ValueType::kU32:
      return "u32";
    case ValueType::kI32:
      return "i32";
    case ValueType::kF32:
      return "f32";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      return "string";
    case ValueType::kArray:
      return "array";
    case ValueType::kU64:
      return "u64";
    case ValueType::kI64:
      return "i64";
    case ValueType::kF64:
      return "f64";
  }
  return "unknown";
}

const Value* Metadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Result<std::string_view> Metadata::string(std::string_view key) const {
  CAIRN_TRY(const Value* value, required(*this, key, "a string"));
  return to<std::string_view>(key, *value, "a string");
}

Result<int64_t> Metadata::integer(std::string_view key) const {
  CAIRN_TRY(const Value* value, required(*this, key, "an integer"));
  return to_integer(key, *value);
}

Result<double> Metadata::number(std::string_view key) const {
  CAIRN_TRY(const Value* value, required(*this, key, "a number"));
  return to_number(key, *value);
}

Result<bool> Metadata::boolean(std::string_view key) const {
  CAIRN_TRY(const Value* value, required(*this, key, "a bool"));
  return to<bool>(key, *value, "a bool");
}

Result<std::span<const std::string_view>> Metadata::strings(std::string_view key) const {
  CAIRN_TRY(const Value* value, required(*this, key, "an array of strings"));
  const auto* array = std::get_if<Array>(&value->data);
  if (array == nullptr || array->type != ValueType::kString) return wrong_type(key, *value, "an array of strings");
  return std::span<const std::string_view>(array->strings);
}

Result<std::vector<int64_t>> Metadata::integers(std::string_view key) const {
  return number_array<int64_t>(*this, key, "an array of integers", "a 64-bit integer",
                               [](auto number) { return as_integer(number); });
}

Result<std::vector<float>> Metadata::floats(std::string_view key) const {
  return number_array<float>(*this, key, "an array of numbers", "a 32-bit float",
                             [](auto number) { return as_float(number); });
}

Result<std::vector<bool>> Metadata::booleans(std::string_view key) const {
  CAIRN_TRY(const Value* value, required(*this, key, "an array of bools"));
  const auto* array = std::get_if<Array>(&value->data);
  if (array == nullptr || array->type != ValueType::kBool) return wrong_type(key, *value, "an array of bools");
  std::vector<bool> out;
  out.reserve(array->size);
  for (const std::byte byte : array->numbers) out.push_back(byte != std::byte{0});
  return out;
}

Result<std::string_view> Metadata::string_or(std::string_view key, std::string_view missing) const {
  return contains(key) ? string(key) : missing;
}
Result<int64_t> Metadata::integer_or(std::string_view key, int64_t missing) const {
  return contains(key) ? integer(key) : missing;
}
Result<double> Metadata::number_or(std::string_view key, double missing) const {
  return contains(key) ? number(key) : missing;
}
Result<bool> Metadata::boolean_or(std::string_view key, bool missing) const {
  return contains(key) ? boolean(key) : Result<bool>(missing);
}

}  // namespace cairn::gguf
