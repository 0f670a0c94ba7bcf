// The parts of AttentionOp that multiply int16 (Int16Attention).
#include "kernels/cpu/attention_op.h"

#include <algorithm>

#include "kernels/cpu/kv_page.h"

namespace cairn::cpu {

void AttentionOp::prepare_queries(const Call& call, const Block& block, const Working& working) const {
  if (call.kv.type != KvType::kI16) return;
  const auto queries = queries_of(call, block);
  kernels_.int16->pair_queries(queries.data(), block.count, call.kv.key_dim, working.queries, working.query_scales);
}

// The pages that are seen follow each other.
AttentionOp::SegmentMemory AttentionOp::memory_of(const Call& call, const Block& block, int32_t segment,
                                                  std::span<const SeenPage> pages) {
  SegmentMemory memory{};
  if (pages.empty()) return memory;
  for (const SeenPage& page : pages) {
    const int32_t number = page.begin / kPageTokens;
    memory.keys[number] = page_keys(call.kv, page.page, block.kv_head);
    memory.values[number] = page_values(call.kv, page.page, block.kv_head);
    // Of the values' scales every query wants those of all pages at once.
    const std::byte* scales = memory.values[number] + value_scales_at(call.kv.value_dim);
    for (int64_t at = 0; at < kPageTokens * int64_t{sizeof(float)}; at += 64) __builtin_prefetch(scales + at, 0, 2);
  }
  // After the keys come the values, after them the next segment's keys or else, most often, the next head's.
  const std::span<const PageId> all = block.slice->pages;
  const bool more = segment + 1 < block.segment_end;
  const int32_t first = pages.front().begin / kPageTokens, end = pages.back().begin / kPageTokens + 1;
  for (int32_t i = 0; i < kPagesAhead; ++i) {
    const int32_t same = std::min(first + i, end - 1);
    const size_t later = std::min(static_cast<size_t>((segment + 1) * kSegmentPages + i), all.size() - 1);
    memory.keys[end + i] = memory.values[same];
    memory.values[end + i] = more
                                 ? page_keys(call.kv, all[later], block.kv_head)
                                 : page_keys(call.kv, pages[static_cast<size_t>(same - first)].page, block.kv_head + 1);
  }
  return memory;
}

void AttentionOp::score_int16_pages(const Call& call, const SegmentBytes& keys, std::span<const SeenPage> pages,
                                    const Working& working) const {
  const int32_t key_dim = call.kv.key_dim;
  for (const SeenPage& page : pages) {
    const int32_t number = page.begin / kPageTokens;
    const Range seen = page.queries;
    kernels_.int16->scores(keys[number], key_dim, working.queries + seen.lo * query_pairs(key_dim),
                           working.query_scales + seen.lo, seen.hi - seen.lo, keys[number + kPagesAhead],
                           working.scores + int64_t{seen.lo} * kScoreStride + page.begin);
  }
}

// Of a segment.
AttentionOp::Range AttentionOp::pages_of(const Range& range) {
  if (range.lo >= range.hi) return {};
  return {range.lo / kPageTokens, (range.hi + kPageTokens - 1) / kPageTokens};
}

void AttentionOp::sum_int16_pages(const Call& call, const SegmentBytes& values, std::span<const Range> ranges,
                                  const Working& working, const Sums& sums) const {
  // Queries that see the same pages go together: tokens that one of them does not see have no weight.
  const auto count = static_cast<int32_t>(ranges.size());
  for (int32_t i = 0, end = 0; i < count; i = end) {
    const Range same = pages_of(ranges[i]);
    while (end < count && pages_of(ranges[end]) == same) ++end;
    if (same == Range{}) continue;
    kernels_.int16->sum_values(values.data(), call.kv.value_dim, working.scores + int64_t{i} * kScoreStride,
                               working.weight_scales + i, same.lo, same.hi, end - i,
                               sums.values + int64_t{i} * call.kv.value_dim);
  }
}

}  // namespace cairn::cpu
