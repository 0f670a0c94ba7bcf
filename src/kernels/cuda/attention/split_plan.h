/// Which positions a row attends to, and the chunks in which they are summed up. For host and device.
///
/// A row's positions are cut at the multiples of a chunk's size, which follows from how many the row sees; every chunk
/// has a softmax of its own, and these are joined in ascending order. So a row's result follows from its own position,
/// whoever computes which chunk and whatever else is in the batch.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kv.h"

namespace cairn::cuda {

/// Chunks that a row has at most, and positions that one has at least.
inline constexpr int32_t kChunksMax = 32;
inline constexpr int32_t kChunkLeast = 128;
static_assert(kChunkLeast % kPageTokens == 0);

/// Positions [begin, end).
struct SeenPositions {
  int32_t begin = 0;
  int32_t end = 0;
};
/// Of the row at `position`, in a slice of `slice_rows` rows that begins at `slice_position`.
CAIRN_HOST_DEVICE constexpr SeenPositions seen_positions(int32_t position, int32_t slice_position, int32_t slice_rows,
                                                         bool causal, int32_t window) {
  if (!causal) return {slice_position, slice_position + slice_rows};
  const int32_t end = position + 1;
  return {window > 0 && end > window ? end - window : 0, end};
}

/// The size of a row's chunks: whole pages. Never smaller for a row that sees more.
CAIRN_HOST_DEVICE constexpr int32_t chunk_positions(int32_t seen) {
  // A window that begins inside of a chunk touches one more than its length has.
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
/// Chunks that a row which sees no more than `positions` touches at most, with or without a window.
constexpr int32_t chunks_most(int32_t positions, bool window) {
  constexpr int32_t kSmall = (kChunksMax - 1) * kChunkLeast;  // from here on chunks grow
  const int32_t some = positions < kSmall ? positions : kSmall;
  return (some + kChunkLeast - 1) / kChunkLeast + (window ? 1 : 0);
}

}  // namespace cairn::cuda
