/// Reads the header of safetensors files, in which Hugging Face's repositories keep weights.
///
/// Source: the safetensors format: 8 bytes of header length, little-endian; a JSON object with dtype, shape and
/// data_offsets of each tensor; then the tensors' bytes. Shapes are row-major: the last dimension is contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn::convert {

/// Limits on what a hostile file can make us allocate. Headers of published files have a few MiB at most.
inline constexpr uint64_t kSafetensorsHeaderMax = 32ull << 20;
inline constexpr int64_t kSafetensorsDimensionsMax = 8;

enum class StoredType { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kF8E8M0, kI64, kI32, kI16, kI8, kU8, kBool };

/// The name in headers: "BF16".
std::string_view stored_type_name(StoredType type);
int64_t stored_type_bytes(StoredType type);

/// A tensor in a file: its shape as stored, the slowest dimension first; a scalar's shape is empty.
struct StoredTensor {
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  int64_t elements() const;
};

struct NamedTensor {
  std::string name;
  StoredTensor tensor;
};

/// The tensors of a file, sorted by name; their bytes are inside `file`. Errors: kCorruptFile (with the tensor's name
/// or what is wrong with the header), kUnsupported (a dtype that is not known, which is named), kTooLarge (limits).
Result<std::vector<NamedTensor>> parse_safetensors(std::span<const std::byte> file);

}  // namespace cairn::convert
