/// Element types of GGUF tensors: ids as in the file, how many bytes a block of elements takes, and how files are
/// called that are mostly of a type. Source: the GGUF specification (ggml docs/gguf.md), the block sizes that published
/// files have, and llama.cpp's llama_ftype. quant/ decodes a block's bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cairn {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

/// What files are called whose matrices have certain types, and the number of that in general.file_type: Q4_K_M, 15.
struct FileType {
  int32_t id;
  std::string_view name;
};

struct TensorTypeInfo {
  TensorType type;
  std::string_view name;   ///< as tools print it: "Q4_K"
  int32_t block_elements;  ///< elements per block; a row's length is a multiple of it
  int32_t block_bytes;
  std::array<FileType, 3> file_types = {};  ///< of files that are mostly of this type; unused ones have no name
};

/// Every readable type, in order of id.
std::span<const TensorTypeInfo> tensor_types();
/// nullopt for an unknown id (a file's tensor may have any number).
std::optional<TensorTypeInfo> tensor_type_info(uint32_t id);
/// The properties of a type.
const TensorTypeInfo& tensor_type_info(TensorType type);
/// The type of that name, ignoring case: "q4_k".
std::optional<TensorType> tensor_type_named(std::string_view name);

/// The name of files with that general.file_type.
std::optional<std::string_view> file_type_name(int64_t id);
/// The general.file_type of files of that name, ignoring case: "q4_k_m".
std::optional<int32_t> file_type_id(std::string_view name);
/// The type that files of that name are mostly of, ignoring case.
std::optional<TensorType> file_type_main(std::string_view name);

inline std::string_view tensor_type_name(TensorType type) { return tensor_type_info(type).name; }
/// Bytes of a row of `elements`, which is a multiple of the block.
inline int64_t row_bytes(TensorType type, int64_t elements) {
  const TensorTypeInfo& info = tensor_type_info(type);
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace cairn
