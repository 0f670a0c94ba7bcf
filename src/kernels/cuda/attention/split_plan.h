/// The positions to which a row attends, and the chunks in which they are summed (split-K). For host and device.
///
/// A row's positions are cut at the multiples of a chunk's size, which follows from the number of positions that the
/// row sees; every chunk has a softmax of its own, and these are merged in ascending order. So a row's result follows
/// from its own position, whichever block computes which chunk and whatever else is in the batch.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kv.h"
#include "kernels/operation_params.h"

namespace cairn::kernels::cuda {

/// Maximum chunks of a row, and minimum positions of a chunk.
inline constexpr int32_t kChunksMax = 32;
inline constexpr int32_t kChunkLeast = 128;
static_assert(kChunkLeast % kPageTokens == 0);

/// Positions [begin, end).
struct SeenPositions {
  int32_t begin = 0;
  int32_t end = 0;
};
/// The positions seen by the row at `position`, in a slice of `slice_rows` rows that begins at `slice_position`.
CAIRN_HOST_DEVICE constexpr SeenPositions seen_positions(int32_t position, int32_t slice_position, int32_t slice_rows,
                                                         const AttentionParams& params) {
  if (!params.causal) {
    const SeenPositions all{slice_position, slice_position + slice_rows};
    if (params.window == 0) return all;
    const int32_t begin = position - params.window / 2, last = position + params.window / 2;
    return {begin > all.begin ? begin : all.begin, last < all.end ? last + 1 : all.end};
  }
  return {params.first_seen(position), position + 1};
}

/// The size of a row's chunks, in whole pages. It never shrinks as a row sees more.
CAIRN_HOST_DEVICE constexpr int32_t chunk_positions(int32_t seen) {
  // A window that begins within a chunk touches one chunk more than its length covers.
  const int32_t least = (seen + kChunksMax - 2) / (kChunksMax - 1);
  const int32_t pages = (least + kPageTokens - 1) / kPageTokens * kPageTokens;
  return pages > kChunkLeast ? pages : kChunkLeast;
}
/// The first and the last chunk that a row touches, numbered from position 0; at most kChunksMax.
struct Chunks {
  int32_t first = 0;
  int32_t last = 0;
};
CAIRN_HOST_DEVICE constexpr Chunks chunks_of(SeenPositions seen, int32_t chunk) {
  return {seen.begin / chunk, (seen.end - 1) / chunk};
}
/// Maximum number of chunks that a row which sees at most `positions` touches, with or without a window.
constexpr int32_t chunks_most(int32_t positions, bool window) {
  constexpr int32_t kSmall = (kChunksMax - 1) * kChunkLeast;  // beyond it chunks grow
  const int32_t some = positions < kSmall ? positions : kSmall;
  return (some + kChunkLeast - 1) / kChunkLeast + (window ? 1 : 0);
}

}  // namespace cairn::kernels::cuda
