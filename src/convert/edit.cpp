#include "convert/edit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <type_traits>
#include <utility>

#include "base/text/glob.h"
#include "base/text/json.h"
#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "gguf/encode.h"
#include "gguf/number_type.h"

namespace cairn::convert {
namespace {

using gguf::ValueType;
using nlohmann::ordered_json;

constexpr std::string_view kArrayMark = "[]";

struct TypeName {
  std::string_view name;
  ValueType type;
};
// What the gguf package calls the types.
constexpr std::array kPackageNames = {
    TypeName{"uint8", ValueType::kU8},    TypeName{"int8", ValueType::kI8},    TypeName{"uint16", ValueType::kU16},
    TypeName{"int16", ValueType::kI16},   TypeName{"uint32", ValueType::kU32}, TypeName{"int32", ValueType::kI32},
    TypeName{"uint64", ValueType::kU64},  TypeName{"int64", ValueType::kI64},  TypeName{"float32", ValueType::kF32},
    TypeName{"float64", ValueType::kF64}, TypeName{"str", ValueType::kString},
};

std::optional<ValueType> type_named(std::string_view name) {
  for (const TypeName& known : kPackageNames) {
    if (known.name == name) return known.type;
  }
  for (uint32_t id = 0; id <= static_cast<uint32_t>(ValueType::kF64); ++id) {
    const auto type = static_cast<ValueType>(id);
    if (type != ValueType::kArray && gguf::value_type_name(type) == name) return type;
  }
  return std::nullopt;
}

// Values that were read from texts, which point here.
struct Storage {
  std::deque<std::string> texts;
};

std::unexpected<Error> does_not_fit(std::string_view text, ValueType type) {
  std::string range;
  gguf::visit_number_type(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      range = fmt::format(" ({} to {})", std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  });
  if (type == ValueType::kBool) range = " (true or false)";
  return fail(Code::kInvalidArgument, "{} is no {}{}; KEY:TYPE=VALUE gives the key another type", printable(text),
              gguf::value_type_name(type), range);
}

template <class T>
std::optional<T> number_in(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(number)) return std::nullopt;
  }
  return number;
}

// Appends a number or bool in the bytes of its type. False: the text is none, or does not fit.
bool append_scalar_text(std::string& out, std::string_view text, ValueType type) {
  if (type == ValueType::kBool) {
    if (text != "true" && text != "false") return false;
    gguf::append_number(out, static_cast<uint8_t>(text == "true"));
    return true;
  }
  bool done = false;
  gguf::visit_number_type(type, [&]<class T>() {
    const auto number = number_in<T>(text);
    done = number.has_value();
    if (done) gguf::append_number(out, *number);
  });
  return done;
}

Result<gguf::Value> scalar_value(std::string_view text, ValueType type) {
  std::string bytes;
  if (!append_scalar_text(bytes, text, type)) return does_not_fit(text, type);
  if (type == ValueType::kBool) return gguf::Value{type, bytes[0] != 0};
  gguf::Value value{type, {}};
  gguf::visit_number_type(type, [&]<class T>() {
    const T number = gguf::load<T>(reinterpret_cast<const std::byte*>(bytes.data()));
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

// The type of the elements of an array whose type nobody says.
std::optional<ValueType> elements_type(const ordered_json& array) {
  const auto all = [&](auto is) { return !array.empty() && std::ranges::all_of(array, is); };
  if (all([](const ordered_json& element) { return element.is_string(); })) return ValueType::kString;
  if (all([](const ordered_json& element) { return element.is_boolean(); })) return ValueType::kBool;
  if (!all(is_any_number)) return std::nullopt;
  ValueType type = ValueType::kI32;
  for (const ordered_json& element : array) {
    const std::string text = number_text(element);
    if (number_in<int32_t>(text)) continue;
    if (!number_in<int64_t>(text)) return ValueType::kF32;
    type = ValueType::kI64;
  }
  return type;
}

Result<gguf::Value> array_value(const ordered_json& json, ValueType type, Storage& storage) {
  gguf::Array array;
  array.type = type;
  array.size = json.size();
  if (type == ValueType::kString) {
    for (const ordered_json& element : json) {
      const auto* text = element.get_ptr<const std::string*>();
      if (text == nullptr) return does_not_fit(json_text(element), type);
      array.strings.push_back(storage.texts.emplace_back(*text));
    }
    return gguf::Value{ValueType::kArray, std::move(array)};
  }
  std::string& numbers = storage.texts.emplace_back();
  for (const ordered_json& element : json) {
    const std::string text = is_any_number(element) ? number_text(element) : json_text(element);
    if (!append_scalar_text(numbers, text, type)) return does_not_fit(text, type);
  }
  array.numbers = std::as_bytes(std::span(numbers));
  return gguf::Value{ValueType::kArray, std::move(array)};
}

// The array that the text is; nullopt if it is none.
std::optional<ordered_json> array_in(std::string_view text) {
  if (!text.starts_with('[')) return std::nullopt;
  auto json = read_json(text);
  if (!json || !json->is_array()) return std::nullopt;
  return std::move(*json);
}

ValueType scalar_type(std::string_view text) {
  if (text == "true" || text == "false") return ValueType::kBool;
  if (number_in<uint32_t>(text)) return ValueType::kU32;
  if (number_in<int32_t>(text)) return ValueType::kI32;
  if (number_in<uint64_t>(text)) return ValueType::kU64;
  if (number_in<int64_t>(text)) return ValueType::kI64;
  const bool number = !text.empty() && text.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
  return number && number_in<float>(text) ? ValueType::kF32 : ValueType::kString;
}

// The form of a value that is there.
Result<ValueForm> form_of(const gguf::Value& value) {
  const auto* array = std::get_if<gguf::Array>(&value.data);
  if (array == nullptr) return ValueForm{value.type, false};
  if (array->type == ValueType::kArray)
    return fail(Code::kUnsupported, "an array of arrays cannot be written here; only remove it");
  return ValueForm{array->type, true};
}

Result<gguf::Value> value_of(const Assignment& assignment, const gguf::Value* before, Storage& storage) {
  std::optional<ValueForm> form = assignment.form;
  if (!form && before != nullptr) {
    CAIRN_TRY(form, form_of(*before));
  }
  const auto json = !form || form->array ? array_in(assignment.text) : std::nullopt;
  if (!form && json) {
    const auto type = elements_type(*json);
    if (!type) {
      return fail(Code::kInvalidArgument,
                  "the elements are not all strings, all numbers or all bools; KEY:TYPE[]=VALUE gives their type, and "
                  "KEY:string=VALUE makes it a text");
    }
    form = ValueForm{*type, true};
  }
  if (!form) form = ValueForm{scalar_type(assignment.text), false};
  if (form->array && !json) {
    return fail(Code::kInvalidArgument, "{} is no JSON array, such as [1,2] or [\"a\",\"b\"]",
                printable(assignment.text));
  }
  if (form->array) return array_value(*json, form->type, storage);
  if (form->type == ValueType::kString)
    return gguf::Value{ValueType::kString, std::string_view(storage.texts.emplace_back(assignment.text))};
  return scalar_value(assignment.text, form->type);
}

Result<void> check_key(std::string_view key) {
  if (!is_split_key(key)) return {};
  return fail_at(
      "key " + printable(key), Code::kInvalidArgument,
      "this key follows from how the model is split, and the output is one file; cairn gguf split writes it");
}

Result<int64_t> remove_keys(const std::string& pattern, Contents& contents) {
  CAIRN_TRY_VOID(check_key(pattern));
  const auto removed =
      std::erase_if(contents.metadata, [&](const auto& entry) { return glob_matches(pattern, entry.first); });
  if (removed > 0) return static_cast<int64_t>(removed);
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : contents.metadata) keys.push_back(key);
  return fail(Code::kInvalidArgument, "the file has no key {}{}", printable(pattern), did_you_mean(pattern, keys));
}

Result<void> set_key(const Assignment& assignment, Contents& contents, Storage& storage) {
  CAIRN_TRY_VOID(check_key(assignment.key));
  gguf::Value* before = contents.find(assignment.key);
  auto value = value_of(assignment, before, storage);
  if (!value) return fail_at("key " + printable(assignment.key), value.error().code, "{}", value.error().message);
  if (before != nullptr) {
    *before = std::move(*value);
  } else {
    contents.metadata.emplace_back(assignment.key, std::move(*value));
  }
  return {};
}

Result<void> check_given_once(const std::vector<Assignment>& set) {
  for (size_t i = 0; i < set.size(); ++i) {
    const auto same = [&](const Assignment& other) { return other.key == set[i].key; };
    if (std::any_of(set.begin(), set.begin() + static_cast<ptrdiff_t>(i), same))
      return fail(Code::kInvalidArgument, "the key {} is given two values", printable(set[i].key));
  }
  return {};
}

Result<std::regex> tensor_pattern(const std::string& text) {
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    return fail(Code::kInvalidArgument, "'{}' is no regular expression: {}", printable(text), error.what());
  }
}

// Error if the tensor of the other file cannot take the place of this one.
Result<const gguf::Tensor*> counterpart(const gguf::Tensor& tensor, const gguf::Reader& other,
                                        const std::filesystem::path& other_path) {
  const gguf::Tensor* const found = other.find_tensor(tensor.name);
  const std::string at = "tensor " + printable(tensor.name);
  if (found == nullptr) return fail_at(at, Code::kNotFound, "{} has no such tensor", other_path.string());
  if (found->shape == tensor.shape) return found;
  return fail_at(at, Code::kUnsupported, "its shape is {} here and {} in {}: they are not of the same model",
                 fmt::join(tensor.shape, " x "), fmt::join(found->shape, " x "), other_path.string());
}

}  // namespace

Result<Assignment> parse_assignment(std::string_view typed) {
  const auto wrong = [&](std::string_view why) {
    return fail(Code::kInvalidArgument, "takes KEY=VALUE or KEY:TYPE=VALUE, not {}: {}", printable(typed), why);
  };
  const size_t equals = typed.find('=');
  if (equals == std::string_view::npos) return wrong("there is no =");
  Assignment assignment{
      .key = std::string(typed.substr(0, equals)), .form = {}, .text = std::string(typed.substr(equals + 1))};
  if (const size_t colon = assignment.key.rfind(':'); colon != std::string::npos) {
    std::string_view name = std::string_view(assignment.key).substr(colon + 1);
    ValueForm form{.array = name.ends_with(kArrayMark)};
    if (form.array) name.remove_suffix(kArrayMark.size());
    const auto type = type_named(name);
    if (!type) {
      return wrong(fmt::format(
          "there is no type {}; types are u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool, string, and for "
          "arrays u32[] and so on",
          printable(name)));
    }
    form.type = *type;
    assignment.form = form;
    assignment.key.resize(colon);
  }
  if (assignment.key.empty()) return wrong("the key is missing");
  return assignment;
}

Result<EditReport> edit_metadata(const std::filesystem::path& in, const std::filesystem::path& out,
                                 const MetadataEdit& edit, const OnCopy& on_copy) {
  CAIRN_TRY_VOID(check_given_once(edit.set));
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(in));
  CAIRN_TRY_VOID(check_output(in, out));
  Contents contents = Contents::of(file);
  EditReport report;
  for (const std::string& pattern : edit.remove) {
    CAIRN_TRY(const int64_t removed, remove_keys(pattern, contents));
    report.keys_removed += removed;
  }
  Storage storage;
  for (const Assignment& assignment : edit.set) CAIRN_TRY_VOID(set_key(assignment, contents, storage));
  report.keys_set = std::ssize(edit.set);
  CAIRN_TRY_VOID(write_file(contents, out, {&file}, on_copy));
  return report;
}

Result<EditReport> splice(const std::filesystem::path& in, const std::filesystem::path& from,
                          const std::string& tensors, const std::filesystem::path& out, const OnCopy& on_copy) {
  CAIRN_TRY(const std::regex pattern, tensor_pattern(tensors));
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(in));
  CAIRN_TRY(const gguf::Reader other, gguf::Reader::open(from));
  CAIRN_TRY_VOID(check_output(in, out));
  CAIRN_TRY_VOID(check_output(from, out));
  Contents contents = Contents::of(file);
  EditReport report;
  for (gguf::Tensor& tensor : contents.tensors) {
    if (!std::regex_search(tensor.name.begin(), tensor.name.end(), pattern)) continue;
    CAIRN_TRY(const gguf::Tensor* const taken, counterpart(tensor, other, from));
    tensor = *taken;
    ++report.tensors_taken;
    report.bytes_taken += static_cast<int64_t>(taken->bytes.size());
  }
  if (report.tensors_taken == 0) {
    return fail(Code::kInvalidArgument,
                "no tensor of {} has a name that '{}' matches; cairn inspect --tensors lists them", in.string(),
                printable(tensors));
  }
  CAIRN_TRY_VOID(write_file(contents, out, {&file, &other}, on_copy));
  return report;
}

}  // namespace cairn::convert
