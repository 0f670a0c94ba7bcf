/// Rows that stand for several positions: keys and values compressed over time (DeepSeek V4). Part of the interface of
/// kernels/backend.h.
///
/// What a compressed row is made from is itself kept per position, in pages: so a sequence can stop, resume, be shared
/// or go back at any position, and no state but pages needs to be saved.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kv.h"

namespace cairn::kernels {

struct CompressorParams {
  int32_t ratio = 0;  ///< positions per row
  int32_t dim = 0;    ///< of a row
  /// Row r is made from the positions of row r - 1 besides its own: their first `dim` columns, and the second ones of
  /// its own positions. The first row has none before it.
  bool overlapping = false;
  const float* biases = nullptr;  ///< [ratio, width()]: added to the scores, by position modulo ratio

  constexpr int32_t width() const { return overlapping ? 2 * dim : dim; }
  /// Positions that a row is made from.
  constexpr int32_t span() const { return overlapping ? 2 * ratio : ratio; }
};

/// Longest span.
inline constexpr int32_t kCompressorSpanMax = 256;

/// Conventions as in Backend.
class CompressorOperations {
 public:
  virtual ~CompressorOperations() = default;

  /// The compressed rows that the slices' positions complete (kv_row_place), in order, [completed, dim]: per column,
  /// the values of the span weighted by the softmax of their scores. Of both there is a kF32 row of width() per
  /// position.
  virtual void compress(const CompressorParams& params, const KvView& values, const KvView& scores,
                        std::span<const AttentionSlice> slices, float* out) = 0;
  /// Simulates the rounding that models were trained with. To E4M3 and back, per 64 elements with a scale of a power of
  /// two: the first `dims` of each row; rows are `stride` apart.
  virtual void round_fp8(float* x, int64_t rows, int64_t stride, int32_t dims) = 0;
  /// A Hadamard transform of each row, orthonormal; `dims` is a power of two. Then to E2M1 and back, per 32 elements
  /// with a scale of a power of two.
  virtual void hadamard_fp4(float* x, int64_t rows, int32_t dims) = 0;
};

}  // namespace cairn::kernels
