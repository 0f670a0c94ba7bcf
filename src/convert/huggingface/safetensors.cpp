#include "convert/huggingface/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text/printable.h"
#include "base/text/utf8.h"
#include "convert/huggingface/model_config.h"

namespace cairn::convert {
namespace {

struct StoredTypeInfo {
  StoredType type;
  std::string_view name;
  int64_t bytes;
};

constexpr StoredTypeInfo kStoredTypes[] = {
    {StoredType::kF64, "F64", 8},        {StoredType::kF32, "F32", 4},        {StoredType::kF16, "F16", 2},
    {StoredType::kBF16, "BF16", 2},      {StoredType::kF8E4M3, "F8_E4M3", 1}, {StoredType::kF8E5M2, "F8_E5M2", 1},
    {StoredType::kF8E8M0, "F8_E8M0", 1}, {StoredType::kI64, "I64", 8},        {StoredType::kI32, "I32", 4},
    {StoredType::kI16, "I16", 2},        {StoredType::kI8, "I8", 1},          {StoredType::kU8, "U8", 1},
    {StoredType::kBool, "BOOL", 1},
};

// The elements of all tensors together stay far below; products of shapes cannot overflow.
constexpr uint64_t kElementsMax = 1ull << 48;

std::unexpected<Error> corrupt(std::string_view name, std::string_view what) {
  return fail_at(fmt::format("tensor {}", printable(name)), Code::kCorruptFile, "the safetensors header {}", what);
}

std::optional<uint64_t> whole(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<uint64_t>();
}

Result<std::vector<int64_t>> read_shape(const std::string& name, const nlohmann::json& entry) {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array() || found->size() > kSafetensorsDimensionsMax) {
    return corrupt(name, "has no shape, or one of more than 8 dimensions");
  }
  std::vector<int64_t> shape;
  uint64_t elements = 1;
  for (const auto& size : *found) {
    const auto value = whole(size);
    if (!value || *value > kElementsMax || (*value != 0 && elements > kElementsMax / *value)) {
      return corrupt(name, "has a shape that is no list of sizes, or too large");
    }
    elements *= *value;
    shape.push_back(static_cast<int64_t>(*value));
  }
  return shape;
}

Result<StoredTensor> read_entry(const std::string& name, const nlohmann::json& entry, std::span<const std::byte> data) {
  if (!entry.is_object()) return corrupt(name, "has something else than an object");
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return corrupt(name, "has no dtype");
  const auto& type_name = dtype->get_ref<const std::string&>();
  const auto* info = std::ranges::find(kStoredTypes, type_name, &StoredTypeInfo::name);
  if (info == std::end(kStoredTypes)) {
    return fail_at(fmt::format("tensor {}", printable(name)), Code::kUnsupported,
                   "the weights have the type {}, which cannot be converted; these can: F64, F32, F16, BF16, F8_E4M3, "
                   "F8_E5M2, and MXFP4 as U8 with F8_E8M0 or U8 scales",
                   printable(type_name));
  }
  CAIRN_TRY(std::vector<int64_t> shape, read_shape(name, entry));
  StoredTensor tensor{info->type, std::move(shape), {}};
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2)
    return corrupt(name, "has no data_offsets");
  const auto begin = whole((*offsets)[0]), end = whole((*offsets)[1]);
  if (!begin || !end || *begin > *end || *end > data.size()) {
    return corrupt(name, fmt::format("places it outside the file, which has {} bytes of tensors; was it downloaded "
                                     "completely?",
                                     data.size()));
  }
  if (*end - *begin != static_cast<uint64_t>(tensor.elements() * info->bytes)) {
    return corrupt(name, fmt::format("gives it {} bytes, but its shape and type need {}", *end - *begin,
                                     tensor.elements() * info->bytes));
  }
  tensor.bytes = data.subspan(*begin, *end - *begin);
  return tensor;
}

}  // namespace

std::string_view stored_type_name(StoredType type) {
  return std::ranges::find(kStoredTypes, type, &StoredTypeInfo::type)->name;
}
int64_t stored_type_bytes(StoredType type) {
  return std::ranges::find(kStoredTypes, type, &StoredTypeInfo::type)->bytes;
}

int64_t StoredTensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

Result<std::vector<NamedTensor>> parse_safetensors(std::span<const std::byte> file) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return fail(Code::kCorruptFile, "the file is too short for a safetensors header");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kSafetensorsHeaderMax) {
    return fail(Code::kTooLarge, "the safetensors header claims {} bytes, over the limit of {}; is it another format?",
                length, kSafetensorsHeaderMax);
  }
  if (length > file.size() - sizeof length) {
    return fail(Code::kCorruptFile, "the safetensors header of {} bytes ends after the file", length);
  }
  const char* text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  const auto parsed = parse_json({text, length});
  if (!parsed) return fail(parsed.error().code, "the safetensors header {}", parsed.error().message);
  const nlohmann::json& header = *parsed;
  if (!header.is_object()) return fail(Code::kCorruptFile, "the safetensors header is no JSON object");
  std::vector<NamedTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    if (!utf8_valid(name)) return corrupt(name, "has a name that is not UTF-8");
    CAIRN_TRY(StoredTensor tensor, read_entry(name, entry, file.subspan(sizeof length + length)));
    tensors.push_back({name, std::move(tensor)});
  }
  return tensors;
}

}  // namespace cairn::convert
