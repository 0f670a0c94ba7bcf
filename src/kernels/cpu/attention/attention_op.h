/// Attention of the CPU backend: cuts the queries into blocks and long contexts into segments for the threads.
///
/// A query's result is accumulated segment by segment (kSegmentTokens positions, counted from position 0) in order, so
/// it depends on the query and its position alone, not on its slice, chunk, block or thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_team.h"

namespace cairn::kernels::cpu {

/// Positions whose scores are held at the same time: 16 pages.
inline constexpr int32_t kSegmentTokens = 512;

class AttentionOp {
 public:
  AttentionOp(const Isa& isa, ThreadTeam& team) : kernels_(*isa.attention), team_(team) {}

  /// Implements Backend::reserve for attention.
  Result<void> reserve(const WorkspaceSizes& sizes);
  int64_t workspace_bytes(const WorkspaceSizes& sizes) const;
  void attention(const AttentionParams& params, const KvView& kv, std::span<const AttentionSlice> slices,
                 const float* q, float* out);

 private:
  struct Call {
    const AttentionParams& params;
    const KvView& kv;
    const float* q;
    float* out;
    int32_t group;               // query heads per KV head
    const PairAttention* pairs;  // null unless keys and values lie in pairs
  };
  // Queries begin .. begin + count - 1 of one slice and KV head, numbered row by row: query i is row i / group.
  struct Block {
    const AttentionSlice* slice = nullptr;
    int32_t kv_head = 0;
    int32_t begin = 0;
    int32_t count = 0;
    int32_t segment_begin = 0;  // first segment that some query of the block sees
    int32_t segment_end = 0;
  };
  static constexpr int32_t kSegmentPages = kSegmentTokens / kPageTokens;
  static constexpr int32_t kBlockQueries = 96;
  // How many queries' weights are computed together: a multiple of every instruction set's tile (attention_tiles.h).
  static constexpr int32_t kWeighedTogether = 12;
  // Softmax-weighted sums of a block's queries, over one segment or several.
  struct Sums {
    float* largest = nullptr;  // [kBlockQueries]
    float* sum = nullptr;      // [kBlockQueries]
    float* values = nullptr;   // [kBlockQueries, value_dim]
  };
  using Range = TokenRange;
  // A page that some queries of a block see, and its first position, counted from the segment's beginning.
  struct SeenPage {
    PageId page{};
    int32_t begin = 0;
    Range queries;
  };
  // A head's keys or values in each seen page of a segment, followed by the addresses that are read after the last
  // page.
  using SegmentBytes = std::array<const std::byte*, kSegmentPages + kPagesAhead>;
  struct SegmentMemory {
    SegmentBytes keys;
    SegmentBytes values;
  };
  struct Working {
    float* page = nullptr;    // a page's decoded keys, or the decoded values of one or several pages
    float* scores = nullptr;  // [kBlockQueries, kScoreStride]
    Sums segment;
    Sums total;
    int32_t* queries = nullptr;     // for PairAttention: [kBlockQueries, query_pairs]
    float* query_scales = nullptr;  // [kBlockQueries]
  };

  static int64_t sums_floats(const KvView& kv) { return kBlockQueries * (int64_t{kv.value_dim} + 2); }
  static int32_t run_pages(int32_t value_dim);
  static int64_t page_floats(const KvView& kv);
  static int64_t working_floats(const KvView& kv);
  int64_t working_bytes(const WorkspaceSizes& sizes) const;
  int64_t split_bytes() const;
  static Sums sums_at(float* memory);
  static Working working_at(float* memory, const KvView& kv);

  void list_blocks(const Call& call, std::span<const AttentionSlice> slices);
  double segment_ns(const Call& call) const;
  static Range seen_by(const AttentionParams& params, const AttentionSlice& slice, int32_t position);
  static Range range_of(const Call& call, const Block& block, int32_t query, int32_t segment);
  static Range pages_of(const Range& range);
  static Range queries_of_page(std::span<const Range> ranges, int32_t page);
  const PairAttention* pairs_of(KvType type) const;
  static void clear(const Block& block, const Sums& sums);
  static std::array<const float*, kBlockQueries> queries_of(const Call& call, const Block& block);
  void prepare_queries(const Call& call, const Block& block, const Working& working) const;
  void attend_segment(const Call& call, const Block& block, int32_t segment, const Working& working,
                      const Sums& sums) const;
  static void lower_by_distance(const Call& call, const Block& block, int32_t query, int32_t segment,
                                const Range& range, float* scores);
  void score_pages(const Call& call, const Block& block, std::span<const SeenPage> pages, const Working& working) const;
  void score_pair_pages(const Call& call, const SegmentBytes& keys, std::span<const SeenPage> pages,
                        const Working& working) const;
  static size_t pages_together(const Call& call, std::span<const SeenPage> pages, std::span<const Range> ranges);
  void add_pages(const Call& call, const Block& block, std::span<const SeenPage> pages, std::span<const Range> ranges,
                 const Working& working, const Sums& sums) const;
  static SegmentMemory memory_of(const Call& call, const Block& block, int32_t segment,
                                 std::span<const SeenPage> pages);
  void attend_pairs(const Call& call, const Block& block, int32_t segment, std::span<const SeenPage> pages,
                    std::span<const Range> ranges, const Working& working, const Sums& sums) const;
  void weigh(const Call& call, const Block& block, int32_t query, int32_t segment, const Range& range,
             const Working& working, const Sums& sums) const;
  void merge(const KvView& kv, const Block& block, const Sums& piece, const Sums& total) const;
  void finish(const Call& call, const Block& block, const Sums& total) const;
  void attend_whole(const Call& call);
  void attend_split(const Call& call, int32_t at_once);

  const AttentionKernels& kernels_;
  ThreadTeam& team_;
  Scratch working_;  // one Working per thread
  Scratch split_;    // attend_split: Sums of every block, and of the segments in flight
  std::vector<Block> blocks_;
};

}  // namespace cairn::kernels::cpu
