/// Parses one GGUF file's bytes into metadata and tensors; reader.h combines one or more of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "gguf/parse_value.h"
#include "gguf/reader.h"

namespace cairn::gguf {

/// The result points into the bytes: names and metadata into the header, tensors after it.
struct Part {
  uint32_t version = 0;
  size_t header_bytes = 0;  ///< up to the end of the directory of tensors
  Metadata metadata;
  std::vector<Tensor> tensors;
};

/// Checks the whole file before it is used. Errors as Reader::open, each with the byte offset and the key or tensor
/// concerned.
Result<Part> parse_part(std::span<const std::byte> bytes);
/// The same, but parses a copy of the file's header (or of more): names and metadata point there.
Result<Part> parse_part(std::span<const std::byte> header_copy, std::span<const std::byte> bytes);

/// Which strings of a key must be UTF-8.
Strings strings_of(std::string_view key);

/// Bytes of a tensor with the given shape, which is not empty and may hold any numbers: kInvalidArgument if a dimension
/// is below 1, a row is not whole blocks or the product overflows.
Result<uint64_t> tensor_bytes(std::span<const int64_t> shape, const TensorTypeInfo& type);

/// nullptr if the alignment is valid, or what is wrong with it.
const char* alignment_problem(int64_t alignment);

}  // namespace cairn::gguf
