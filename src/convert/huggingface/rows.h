/// Rows of numbers that a tensor of the new file is made of: a checkpoint's, or others of them selected, turned and
/// changed. Nothing is computed before a row is read, so that memory does not depend on the size of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/tensor_type.h"
#include "convert/huggingface/checkpoint.h"

namespace cairn::convert {

/// Immutable, thread-safe. Row i is out[0 .. length).
class Rows {
 public:
  Rows(int64_t count, int64_t length) : count_(count), length_(length) {}
  virtual ~Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  int64_t count() const { return count_; }
  int64_t length() const { return length_; }

  /// Reads the rows [begin, end) one after another.
  virtual void read(int64_t begin, int64_t end, float* out) const = 0;
  /// Rows that are best read at once: reading fewer costs as much.
  virtual int64_t piece_rows() const { return 1; }
  /// The type in which the rows are stored as blocks that a GGUF file can hold as they are, or kF32: none.
  virtual TensorType blocks() const { return TensorType::kF32; }
  /// Reads the blocks of rows; only if there are some.
  virtual void read_blocks(int64_t /*begin*/, int64_t /*end*/, std::byte* /*out*/) const {}
  /// Frees the memory of what was read for these rows.
  virtual void release(int64_t begin, int64_t end) const = 0;

 private:
  int64_t count_;
  int64_t length_;
};
using RowsPtr = std::shared_ptr<const Rows>;

/// A stored tensor of numbers in rows of `length`, which divides its elements. The checkpoint outlives the rows.
RowsPtr stored_rows(const Checkpoint& checkpoint, const StoredTensor& tensor, int64_t length);
/// An integer tensor as rows that are written as I32.
RowsPtr stored_integers(const Checkpoint& checkpoint, const StoredTensor& tensor, int64_t length);
/// A stored tensor times a scale for each block of `block_rows` x `block_columns` of its matrices, as FP8 weights have
/// it. Error: kCorruptFile (the shapes do not fit; without a name).
Result<RowsPtr> scaled_rows(const Checkpoint& checkpoint, const StoredTensor& tensor, const StoredTensor& scale);
/// MXFP4: 16 bytes for 32 weights, neighbours in the low and high half of a byte, and a byte of scale (E8M0) each.
/// Error: kCorruptFile, as above.
Result<RowsPtr> mxfp4_rows(const Checkpoint& checkpoint, const StoredTensor& packed, const StoredTensor& scale);

/// Numbers that were computed.
RowsPtr constant_row(std::vector<float> values);
/// Row i is row source[i].
RowsPtr selected(RowsPtr rows, std::vector<int64_t> source);
/// The rows [begin, begin + count).
RowsPtr slice(RowsPtr rows, int64_t begin, int64_t count);
/// All rows of each, one after the other; their lengths are the same.
RowsPtr stacked(std::vector<RowsPtr> parts);
/// Element i of each row is element source[i].
RowsPtr gathered(RowsPtr rows, std::vector<int64_t> source);
/// Each matrix of `matrix_rows` rows with rows and columns exchanged.
RowsPtr transposed(RowsPtr rows, int64_t matrix_rows);
/// Every element changed.
RowsPtr mapped(RowsPtr rows, std::function<float(float)> change);
/// The same elements in rows of another length.
RowsPtr reshaped(RowsPtr rows, int64_t length);

}  // namespace cairn::convert
