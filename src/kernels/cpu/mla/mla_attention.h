/// MlaOperations::attend_rows of the CPU backend.
///
/// A query's rows are numbered in the order of its sources and accumulated segment by segment in that order, so its
/// result depends on the query alone, not on the batch or the threads. Few queries with long lists are split by
/// segments; many are computed whole, kTileHeads heads at a time.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/mla/latent_tile.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/mla_operations.h"

namespace cairn::kernels::cpu {

class MlaAttention {
 public:
  MlaAttention(const AttentionKernels& kernels, ThreadTeam& team) : kernels_(kernels), team_(team) {}

  Result<void> reserve(const MlaSizes& sizes);
  int64_t workspace_bytes(const MlaSizes& sizes) const;
  /// Implements MlaOperations::attend_rows.
  void attend(const RowAttentionParams& params, std::span<const RowSource> sources, const float* q, float* out);

 private:
  struct Call {
    const RowAttentionParams& params;
    std::span<const RowSource> sources;
    const float* q;
    float* out;
    int32_t dim;
    int32_t blocks_of_query;  // blocks of kTileHeads heads per query
  };
  /// Some heads of one query.
  struct Block {
    QueryPlace place;
    int64_t query = 0;  // row of q and out
    int32_t head = 0;
    int32_t heads = 0;
    int32_t rows = 0;  // rows that it reads, over all sources
  };
  /// Softmax-weighted sums of a block's heads over some of its rows.
  struct Sums {
    float* largest = nullptr;  // [kTileHeads]
    float* sum = nullptr;      // [kTileHeads]
    float* values = nullptr;   // [kTileHeads, value_dim]
  };
  struct Working {
    float* tile = nullptr;      // [kTileRows, dim]
    float* queries = nullptr;   // [dim, kTileHeads]
    float* products = nullptr;  // [kTileRows, kScoreStride]
    float* weights = nullptr;   // [kTileHeads, kScoreStride]
    Sums of_tile;
    Sums segment;
    Sums total;
  };

  static int64_t sums_floats(int32_t value_dim) { return kTileHeads * (int64_t{value_dim} + 2); }
  static int64_t working_floats(int32_t dim, int32_t value_dim);
  int64_t working_bytes(const MlaSizes& sizes) const;
  int64_t split_bytes() const;
  static Sums sums_at(float* memory);
  static Working working_at(float* memory, int32_t dim, int32_t value_dim);

  static Block block_of(const Call& call, int64_t number);
  static int32_t rows_read(const RowSource& source, QueryPlace place);
  void decode_tile(const Call& call, const Block& block, int32_t begin, int32_t count, float* tile) const;
  void attend_segment(const Call& call, const Block& block, int32_t segment, const Working& working,
                      const Sums& sums) const;
  void merge(const Call& call, const Block& block, const Sums& piece, const Sums& total) const;
  void finish(const Call& call, const Block& block, const Sums& total) const;
  void attend_whole(const Call& call, int64_t blocks, double segment_ns, int32_t segments);
  void attend_split(const Call& call, int64_t blocks, double segment_ns, int32_t segments, int32_t at_once);

  const AttentionKernels& kernels_;
  ThreadTeam& team_;
  Scratch working_;  // one Working per thread
  Scratch split_;    // attend_split: Sums of every block, and of the segments in flight
};

}  // namespace cairn::kernels::cpu
