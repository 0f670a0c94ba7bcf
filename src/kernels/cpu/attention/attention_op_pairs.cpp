// The part of AttentionOp that multiplies pairs of int16 (PairAttention).
#include "kernels/cpu/attention/attention_op.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/attention/kv_page.h"

namespace cairn::kernels::cpu {

const PairAttention* AttentionOp::pairs_of(KvType type) const {
  if (type != KvType::kI16 && type != KvType::kQ8_0Pairs) return nullptr;
  CAIRN_CHECK(kernels_.int16 != nullptr);
  return type == KvType::kI16 ? &kernels_.int16->int16 : &kernels_.int16->q8_0;
}

void AttentionOp::prepare_queries(const Call& call, const Block& block, const Working& working) const {
  if (call.pairs == nullptr) return;
  const auto queries = queries_of(call, block);
  call.pairs->pair_queries(queries.data(), block.count, call.kv.key_dim, working.queries, working.query_scales);
}

namespace {

void ask_for_scales(const KvView& kv, const std::byte* values) {
  if (kv.type == KvType::kI16) {
    const std::byte* scales = values + value_scales_at(kv.value_dim);
    for (int64_t at = 0; at < kPageTokens * int64_t{sizeof(float)}; at += 64) __builtin_prefetch(scales + at, 0, 2);
    return;
  }
  for (int32_t d = 0; d < kv.value_dim; d += kKvBlock, values += kKvPieceBytes) {
    __builtin_prefetch(values + kKvPieceScales, 0, 2);
  }
}

}  // namespace

// The pages in `pages` are consecutive.
AttentionOp::SegmentMemory AttentionOp::memory_of(const Call& call, const Block& block, int32_t segment,
                                                  std::span<const SeenPage> pages) {
  SegmentMemory memory{};
  if (pages.empty()) return memory;
  for (const SeenPage& page : pages) {
    const int32_t number = page.begin / kPageTokens;
    memory.keys[number] = page_keys(call.kv, page.page, block.kv_head);
    memory.values[number] = page_values(call.kv, page.page, block.kv_head);
    // The values' scales of all pages are needed at once, by every query, so they are prefetched.
    ask_for_scales(call.kv, memory.values[number]);
  }
  // The addresses after the last page: after the keys come the values; after those the next segment's keys or, usually,
  // the next head's.
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

void AttentionOp::score_pair_pages(const Call& call, const SegmentBytes& keys, std::span<const SeenPage> pages,
                                   const Working& working) const {
  const int32_t key_dim = call.kv.key_dim;
  for (const SeenPage& page : pages) {
    const int32_t number = page.begin / kPageTokens;
    const Range seen = page.queries;
    call.pairs->scores(keys[number], key_dim, working.queries + seen.lo * query_pairs(key_dim),
                       working.query_scales + seen.lo, seen.hi - seen.lo, keys[number + kPagesAhead],
                       working.scores + int64_t{seen.lo} * kScoreStride + page.begin);
  }
}

// The pages of a segment that hold the positions of `range`.
AttentionOp::Range AttentionOp::pages_of(const Range& range) {
  if (range.lo >= range.hi) return {};
  return {range.lo / kPageTokens, (range.hi + kPageTokens - 1) / kPageTokens};
}

void AttentionOp::attend_pairs(const Call& call, const Block& block, int32_t segment, std::span<const SeenPage> pages,
                               std::span<const Range> ranges, const Working& working, const Sums& sums) const {
  const SegmentMemory memory = memory_of(call, block, segment, pages);
  score_pair_pages(call, memory.keys, pages, working);
  // Processes a few queries that see the same pages at a time: their weights are still in the L1 cache when values are
  // summed.
  for (int32_t i = 0, end = 0; i < block.count; i = end) {
    const Range same = pages_of(ranges[i]);
    while (end < block.count && end - i < kWeighedTogether && pages_of(ranges[end]) == same) ++end;
    if (same == Range{}) continue;
    for (int32_t query = i; query < end; ++query) weigh(call, block, query, segment, ranges[query], working, sums);
    call.pairs->sum_values(memory.values.data(), call.kv.value_dim, working.scores + int64_t{i} * kScoreStride,
                           &ranges[i], same.lo, same.hi, end - i, sums.values + int64_t{i} * call.kv.value_dim);
  }
}

}  // namespace cairn::kernels::cpu
