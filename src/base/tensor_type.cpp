#include "base/tensor_type.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"

namespace cairn {
namespace {

constexpr std::array kTypes = {
    TensorTypeInfo{TensorType::kF32, "F32", 1, 4, {{{0, "F32"}}}},
    TensorTypeInfo{TensorType::kF16, "F16", 1, 2, {{{1, "F16"}}}},
    TensorTypeInfo{TensorType::kQ4_0, "Q4_0", 32, 18, {{{2, "Q4_0"}}}},
    TensorTypeInfo{TensorType::kQ4_1, "Q4_1", 32, 20, {{{3, "Q4_1"}}}},
    TensorTypeInfo{TensorType::kQ5_0, "Q5_0", 32, 22, {{{8, "Q5_0"}}}},
    TensorTypeInfo{TensorType::kQ5_1, "Q5_1", 32, 24, {{{9, "Q5_1"}}}},
    TensorTypeInfo{TensorType::kQ8_0, "Q8_0", 32, 34, {{{7, "Q8_0"}}}},
    TensorTypeInfo{TensorType::kQ2_K, "Q2_K", 256, 84, {{{10, "Q2_K"}, {21, "Q2_K_S"}}}},
    TensorTypeInfo{TensorType::kQ3_K, "Q3_K", 256, 110, {{{11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}}}},
    TensorTypeInfo{TensorType::kQ4_K, "Q4_K", 256, 144, {{{14, "Q4_K_S"}, {15, "Q4_K_M"}}}},
    TensorTypeInfo{TensorType::kQ5_K, "Q5_K", 256, 176, {{{16, "Q5_K_S"}, {17, "Q5_K_M"}}}},
    TensorTypeInfo{TensorType::kQ6_K, "Q6_K", 256, 210, {{{18, "Q6_K"}}}},
    TensorTypeInfo{TensorType::kIQ2_XXS, "IQ2_XXS", 256, 66, {{{19, "IQ2_XXS"}}}},
    TensorTypeInfo{TensorType::kIQ2_XS, "IQ2_XS", 256, 74, {{{20, "IQ2_XS"}}}},
    TensorTypeInfo{TensorType::kIQ3_XXS, "IQ3_XXS", 256, 98, {{{23, "IQ3_XXS"}}}},
    TensorTypeInfo{TensorType::kIQ1_S, "IQ1_S", 256, 50, {{{24, "IQ1_S"}}}},
    TensorTypeInfo{TensorType::kIQ4_NL, "IQ4_NL", 32, 18, {{{25, "IQ4_NL"}}}},
    TensorTypeInfo{TensorType::kIQ3_S, "IQ3_S", 256, 110, {{{22, "IQ3_XS"}, {26, "IQ3_S"}, {27, "IQ3_M"}}}},
    TensorTypeInfo{TensorType::kIQ2_S, "IQ2_S", 256, 82, {{{28, "IQ2_S"}, {29, "IQ2_M"}}}},
    TensorTypeInfo{TensorType::kIQ4_XS, "IQ4_XS", 256, 136, {{{30, "IQ4_XS"}}}},
    TensorTypeInfo{TensorType::kI8, "I8", 1, 1},
    TensorTypeInfo{TensorType::kI16, "I16", 1, 2},
    TensorTypeInfo{TensorType::kI32, "I32", 1, 4},
    TensorTypeInfo{TensorType::kI64, "I64", 1, 8},
    TensorTypeInfo{TensorType::kF64, "F64", 1, 8},
    TensorTypeInfo{TensorType::kIQ1_M, "IQ1_M", 256, 56, {{{31, "IQ1_M"}}}},
    TensorTypeInfo{TensorType::kBF16, "BF16", 1, 2, {{{32, "BF16"}}}},
    TensorTypeInfo{TensorType::kTQ1_0, "TQ1_0", 256, 54, {{{36, "TQ1_0"}}}},
    TensorTypeInfo{TensorType::kTQ2_0, "TQ2_0", 256, 66, {{{37, "TQ2_0"}}}},
    TensorTypeInfo{TensorType::kMXFP4, "MXFP4", 32, 17, {{{38, "MXFP4"}}}},
    TensorTypeInfo{TensorType::kNVFP4, "NVFP4", 64, 36, {{{39, "NVFP4"}}}},
    TensorTypeInfo{TensorType::kQ1_0, "Q1_0", 128, 18, {{{40, "Q1_0"}}}},
    TensorTypeInfo{TensorType::kQ2_0, "Q2_0", 64, 18, {{{41, "Q2_0"}}}},
};

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

struct FoundFileType {
  TensorType main;
  FileType type;
};
template <class Wanted>
std::optional<FoundFileType> find_file_type(const Wanted& wanted) {
  for (const auto& info : kTypes) {
    for (const FileType& type : info.file_types) {
      if (!type.name.empty() && wanted(type)) return FoundFileType{info.type, type};
    }
  }
  return std::nullopt;
}
std::optional<FoundFileType> file_type_named(std::string_view name) {
  return find_file_type([name](const FileType& type) { return same_ignoring_case(type.name, name); });
}

}  // namespace

std::span<const TensorTypeInfo> tensor_types() { return kTypes; }

std::optional<TensorTypeInfo> tensor_type_info(uint32_t id) {
  for (const auto& info : kTypes) {
    if (static_cast<uint32_t>(info.type) == id) return info;
  }
  return std::nullopt;
}

const TensorTypeInfo& tensor_type_info(TensorType type) {
  const auto* found = std::ranges::find(kTypes, type, &TensorTypeInfo::type);
  CAIRN_CHECK(found != kTypes.end());
  return *found;
}

std::optional<TensorType> tensor_type_named(std::string_view name) {
  for (const auto& info : kTypes) {
    if (same_ignoring_case(info.name, name)) return info.type;
  }
  return std::nullopt;
}

std::optional<std::string_view> file_type_name(int64_t id) {
  const auto found = find_file_type([id](const FileType& type) { return type.id == id; });
  return found.transform([](const FoundFileType& each) { return each.type.name; });
}

std::optional<int32_t> file_type_id(std::string_view name) {
  return file_type_named(name).transform([](const FoundFileType& each) { return each.type.id; });
}

std::optional<TensorType> file_type_main(std::string_view name) {
  return file_type_named(name).transform([](const FoundFileType& each) { return each.main; });
}

}  // namespace cairn
