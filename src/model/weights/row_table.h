/// A matrix of which single rows are looked up, and nothing is multiplied with it.
#pragma once

#include <cstdint>
#include <span>

#include "gguf/reader.h"
#include "quant/codec.h"

namespace cairn::model {

/// Stays in the file's mapping, whatever the backend: only the rows that are asked for are read.
class RowTable {
 public:
  RowTable() = default;
  /// A matrix of a type that decode_row() knows; its file outlives this.
  explicit RowTable(const gguf::Tensor& tensor) : tensor_(&tensor) {}

  /// out [columns].
  void read(int64_t row, std::span<float> out) const {
    const int64_t bytes = row_bytes(tensor_->type, std::ssize(out));
    quant::decode_row(tensor_->type, tensor_->bytes.subspan(row * bytes, bytes), out);
  }

 private:
  const gguf::Tensor* tensor_ = nullptr;
};

}  // namespace cairn::model
