/// Positions of tokens, and attention over pages of keys and values. Part of the interface of kernels/backend.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kv.h"
#include "kernels/operation_params.h"

namespace cairn::kernels {

/// Conventions as in Backend.
class AttentionOperations {
 public:
  virtual ~AttentionOperations() = default;
  /// table [positions, dims]: for pair i of position p, table[p, 2i] = magnitude * cos(p * frequencies[i]) and
  /// table[p, 2i+1] = magnitude * sin(...), angles in double. frequencies [dims / 2], both in host memory.
  virtual void rope_table(std::span<const int32_t> positions, std::span<const double> frequencies, float magnitude,
                          float* table) = 0;
  /// Rotates the first `dims` elements of every head of each x [rows, heads, head_dim] in place, by table [rows, dims].
  /// An `x` may begin inside of a head: so do then all of its elements that turn.
  virtual void rope(RopeStyle style, const float* table, int32_t dims, std::span<const RopeHeads> rotated, int64_t rows,
                    int32_t head_dim) = 0;
  /// What attention() reads best of as many bits and as precise as `wanted`.
  virtual KvType stored_kv_type(KvType wanted) const { return wanted; }
  /// Writes k [rows, kv_heads * key_dim] and v [rows, kv_heads * value_dim] of every slice's rows to their pages.
  virtual void store_kv(const KvView& kv, std::span<const AttentionSlice> slices, const float* k, const float* v) = 0;
  /// Attention of q [rows, heads * key_dim] over what the pages hold, up to each row's own position if it is causal;
  /// out [rows, heads * value_dim].
  virtual void attention(const AttentionParams& params, const KvView& kv, std::span<const AttentionSlice> slices,
                         const float* q, float* out) = 0;
};

}  // namespace cairn::kernels
