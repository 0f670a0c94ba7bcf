/// MlaOperations::select_topk of the CPU backend (lightning indexer): scores of some queries at a time, by segments,
/// then the selection.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/mla/latent_tile.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/mla_operations.h"

namespace cairn::kernels::cpu {

/// Indices of the `most` < n largest scores, ascending; NaN counts as the smallest. Among equal scores it chooses as
/// std::partial_sort does, because with few heads many sums are exactly zero and the reference logits were made that
/// way.
void choose_largest(const float* scores, int32_t n, int32_t most, int32_t* chosen);

class IndexerTopK {
 public:
  IndexerTopK(const AttentionKernels& kernels, ThreadTeam& team) : kernels_(kernels), team_(team) {}

  Result<void> reserve(const MlaSizes& sizes);
  int64_t workspace_bytes(const MlaSizes& sizes) const;
  /// Implements MlaOperations::select_topk.
  void choose(const ChooseParams& params, const KvView& keys, std::span<const AttentionSlice> slices, const float* q,
              const float* weights, int32_t* chosen);

 private:
  struct Call {
    const ChooseParams& params;
    const KvView& keys;
    std::span<const AttentionSlice> slices;
    const float* q;
    const float* weights;
    int32_t blocks;  // number of blocks of kTileHeads heads
  };
  struct Working {
    float* tile = nullptr;      // [kTileRows, key_dim]
    float* queries = nullptr;   // [blocks, key_dim, kTileHeads]
    float* weights = nullptr;   // [blocks, kTileHeads]
    float* products = nullptr;  // [kTileRows, kScoreStride]
  };

  static int64_t working_floats(int32_t heads, int32_t dim);
  int64_t working_bytes(const MlaSizes& sizes) const;
  static int64_t scores_bytes(const MlaSizes& sizes);
  static Working working_at(float* memory, int32_t blocks, int32_t dim);
  static int32_t rows_seen(const Call& call, int64_t query);
  void score_segment(const Call& call, int64_t query, int32_t segment, const Working& working, float* scores) const;

  const AttentionKernels& kernels_;
  ThreadTeam& team_;
  Scratch working_;  // one Working per thread
  Scratch scores_;   // [queries at once, rows]
};

}  // namespace cairn::kernels::cpu
