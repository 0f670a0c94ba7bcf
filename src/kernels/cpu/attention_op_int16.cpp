// The parts of AttentionOp that multiply int16 (Int16Attention).
#include "kernels/cpu/attention_op.h"
#include "kernels/cpu/kv_page.h"

namespace cairn::cpu {

void AttentionOp::prepare_queries(const Call& call, const Block& block, const Working& working) const {
  if (call.kv.type != KvType::kI16) return;
  const auto queries = queries_of(call, block);
  kernels_.int16->pair_queries(queries.data(), block.count, call.kv.key_dim, working.queries, working.query_scales);
}

void AttentionOp::score_int16_pages(const Call& call, const Block& block, std::span<const SeenPage> pages,
                                    const Working& working) const {
  const KvView& kv = call.kv;
  for (size_t p = 0; p < pages.size(); ++p) {
    // After the last keys come the first values.
    const std::byte* next = p + 1 < pages.size() ? page_keys(kv, pages[p + 1].page, block.kv_head)
                                                 : page_values(kv, pages[0].page, block.kv_head);
    const Range seen = pages[p].queries;
    kernels_.int16->scores(page_keys(kv, pages[p].page, block.kv_head), kv.key_dim,
                           working.queries + seen.lo * query_pairs(kv.key_dim), working.query_scales + seen.lo,
                           seen.hi - seen.lo, next, working.scores + int64_t{seen.lo} * kScoreStride + pages[p].begin);
  }
}

AttentionOp::SegmentValues AttentionOp::values_of(const Call& call, const Block& block,
                                                  std::span<const SeenPage> pages) {
  SegmentValues values{};
  for (const SeenPage& page : pages) {
    const int32_t number = page.begin / kPageTokens;
    values[number] = page_values(call.kv, page.page, block.kv_head);
    // After the last values come, most often, the next head's keys.
    values[number + 1] = page_keys(call.kv, pages[0].page, block.kv_head + 1);
  }
  return values;
}

// Of a segment.
AttentionOp::Range AttentionOp::pages_of(const Range& range) {
  if (range.lo >= range.hi) return {};
  return {range.lo / kPageTokens, (range.hi + kPageTokens - 1) / kPageTokens};
}

void AttentionOp::sum_int16_pages(const Call& call, const SegmentValues& values, std::span<const Range> ranges,
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
