/// Helpers shared by attention over whole rows and by their selection: decoding rows to float32, transposing queries,
/// finding a query's slice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/kv_page.h"

namespace cairn::kernels::cpu {

/// Rows that are decoded to float32 at a time, and heads that are multiplied with them at once: the rows act as the
/// "queries" of AttentionKernels::scores and the heads as its "keys", so that each row is loaded once for all heads.
inline constexpr int32_t kTileRows = 64;
inline constexpr int32_t kTileHeads = kAttentionPage;
/// Rows of a segment, counted from the first row that a query reads; results are accumulated in the order of segments.
inline constexpr int32_t kRowsOfSegment = 512;
static_assert(kRowsOfSegment % kTileRows == 0);

inline void decode_latent_row(const AttentionKernels& kernels, const KvView& kv, const std::byte* row, float* out) {
  switch (kv.type) {
    case KvType::kF32:
      std::memcpy(out, row, static_cast<size_t>(kv.key_dim) * sizeof(float));
      return;
    case KvType::kF16:
      kernels.decode_half_row(row, kv.key_dim, out);
      return;
    case KvType::kBF16:
      kernels.decode_bf16_row(row, kv.key_dim, out);
      return;
    case KvType::kQ8_0:
      kernels.decode_q8_0_row(row, kv.key_dim, out);
      return;
    case KvType::kI16:
    case KvType::kQ8_0Pairs:
      break;
  }
  CAIRN_CHECK(false && "rows of MlaOperations are not in pairs");
}

/// Transposes q [heads, dim] to out [dim, kTileHeads]; missing heads are zeros.
inline void turn_queries(const float* q, int32_t heads, int32_t dim, float* out) {
  if (heads < kTileHeads) std::fill_n(out, int64_t{dim} * kTileHeads, 0.0f);
  for (int32_t h = 0; h < heads; ++h) {
    for (int32_t d = 0; d < dim; ++d) out[int64_t{d} * kTileHeads + h] = q[int64_t{h} * dim + d];
  }
}

/// Finds query `query` of consecutive slices: which slice, and its row there.
struct QueryPlace {
  size_t slice = 0;
  int32_t row = 0;
};
inline QueryPlace query_place(std::span<const AttentionSlice> slices, int64_t query) {
  const int64_t row = slices.front().row_begin + query;
  const auto after = std::ranges::upper_bound(slices, row, {}, &AttentionSlice::row_begin);
  const auto slice = static_cast<size_t>(after - slices.begin() - 1);
  return {slice, static_cast<int32_t>(row - slices[slice].row_begin)};
}
inline int64_t count_queries(std::span<const AttentionSlice> slices) {
  return int64_t{slices.back().row_begin} + slices.back().rows - slices.front().row_begin;
}

}  // namespace cairn::kernels::cpu
