/// What differs between two model files.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "convert/contents.h"
#include "gguf/reader.h"

namespace cairn::convert {

/// A key that one file lacks (nullptr there), or that has another value or type.
struct KeyDifference {
  std::string_view key;
  const gguf::Value* a = nullptr;
  const gguf::Value* b = nullptr;
};

/// A tensor that one file lacks (nullptr there), or that has another type, shape or other bytes.
struct TensorDifference {
  std::string_view name{};
  const gguf::Tensor* a = nullptr;
  const gguf::Tensor* b = nullptr;
  int64_t first_byte = 0;  ///< of those that differ, where type and shape are the same
  int64_t bytes = 0;       ///< number of bytes that differ, likewise

  bool same_layout() const { return a != nullptr && b != nullptr && a->type == b->type && a->shape == b->shape; }
};

struct Comparison {
  std::vector<KeyDifference> keys;        ///< by name
  std::vector<TensorDifference> tensors;  ///< in the order of a, then those that only b has
  int64_t keys_compared = 0;
  int64_t tensors_compared = 0;
  int64_t bytes_compared = 0;  ///< of tensors

  bool same() const { return keys.empty() && tensors.empty(); }
};

/// Compares all metadata but split.*, and every byte of tensors of the same type and shape. The files outlive the
/// result. The order of keys and tensors, and how the models are split, make no difference.
Comparison compare(const gguf::Reader& a, const gguf::Reader& b, const OnCopy& on_read = {});

}  // namespace cairn::convert
