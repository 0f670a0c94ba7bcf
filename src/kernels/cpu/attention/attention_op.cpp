#include "kernels/cpu/attention/attention_op.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/attention/kv_page.h"

namespace cairn::kernels::cpu {
namespace {

static_assert(kAttentionPage == kPageTokens && kAttentionSegment == kSegmentTokens &&
              kSegmentTokens % kPageTokens == 0);
static_assert(kKvPieceBytes == int64_t{kKvBlock + 2} * kAttentionPage && kKvPieceScales == kQ8ScalesAt &&
              kKvBlock == kQ8Dims);

// Memory for segments in flight, per thread: enough for 4 blocks of head dimension 128 with 4 segments each.
constexpr int64_t kAttentionSplitFloats = 128 * 1024;
// Estimated multiply-adds per nanosecond of one thread; only used to choose the size of chunks.
constexpr double kAttentionProductsPerNs = 15;
// Bytes of values that are accumulated together: each few queries read them from the L1 cache.
constexpr int32_t kRunBytes = 32 << 10;
constexpr float kNoSink = -std::numeric_limits<float>::infinity();

// A function that decodes a page to float32; `q8_0` is the one for keys or for values of kQ8_0.
using Decode = void (*)(const std::byte* page, int32_t dim, const std::byte* next, float* out);
Decode decoder_of(const AttentionKernels& kernels, KvType type, Decode q8_0) {
  switch (type) {
    case KvType::kF16:
      return kernels.decode_half;
    case KvType::kBF16:
      return kernels.decode_bf16;
    case KvType::kQ8_0:
      return q8_0;
    case KvType::kF32:
    case KvType::kI16:
    case KvType::kQ8_0Pairs:
      break;
  }
  CAIRN_CHECK(false && "read as they are, or in pairs");
}

}  // namespace

int32_t AttentionOp::run_pages(int32_t value_dim) {
  return std::max(1, kRunBytes / (kPageTokens * value_dim * static_cast<int32_t>(sizeof(float))));
}

int64_t AttentionOp::page_floats(const KvView& kv) {
  return std::max(int64_t{kPageTokens} * std::max(kv.key_dim, kv.value_dim), kRunBytes / int64_t{sizeof(float)});
}

int64_t AttentionOp::working_floats(const KvView& kv) {
  return page_floats(kv) + kBlockQueries * (kScoreStride + query_pairs(kv.key_dim) + 1) + 2 * sums_floats(kv);
}

AttentionOp::Sums AttentionOp::sums_at(float* memory) {
  return {memory, memory + kBlockQueries, memory + int64_t{2} * kBlockQueries};
}

AttentionOp::Working AttentionOp::working_at(float* memory, const KvView& kv) {
  Working working;
  working.page = memory;
  working.scores = memory + page_floats(kv);
  working.segment = sums_at(working.scores + kBlockQueries * kScoreStride);
  working.total = sums_at(working.segment.largest + sums_floats(kv));
  working.query_scales = working.total.largest + sums_floats(kv);
  working.queries = reinterpret_cast<int32_t*>(working.query_scales + kBlockQueries);
  return working;
}

int64_t AttentionOp::working_bytes(const WorkspaceSizes& sizes) const {
  const int64_t floats = working_floats(KvView{.key_dim = sizes.head_dim, .value_dim = sizes.head_dim});
  return team_.threads() * floats * static_cast<int64_t>(sizeof(float));
}

int64_t AttentionOp::split_bytes() const {
  return team_.threads() * kAttentionSplitFloats * static_cast<int64_t>(sizeof(float));
}

Result<void> AttentionOp::reserve(const WorkspaceSizes& sizes) {
  if (sizes.attention_heads == 0) return {};
  CAIRN_TRY_VOID(working_.reserve(working_bytes(sizes)));
  CAIRN_TRY_VOID(split_.reserve(split_bytes()));
  // At most one block per query, plus one for the odd rest of each slice and KV head.
  blocks_.reserve(static_cast<size_t>(sizes.attention_rows) * static_cast<size_t>(sizes.attention_heads));
  return {};
}

int64_t AttentionOp::workspace_bytes(const WorkspaceSizes& sizes) const {
  if (sizes.attention_heads == 0) return 0;
  const int64_t blocks = sizes.attention_rows * sizes.attention_heads;
  return working_bytes(sizes) + split_bytes() + blocks * static_cast<int64_t>(sizeof(Block));
}

void AttentionOp::attention(const AttentionParams& params, const KvView& kv, std::span<const AttentionSlice> slices,
                            const float* q, float* out) {
  CAIRN_DCHECK(params.heads % kv.kv_heads == 0);
  CAIRN_DCHECK(params.scale > 0);
  CAIRN_DCHECK(params.slopes == nullptr || params.soft_cap == 0);
  const Call call{params, kv, q, out, params.heads / kv.kv_heads, pairs_of(kv.type)};
  list_blocks(call, slices);
  if (blocks_.empty()) return;
  // With few blocks, as in the decode steps of few streams, their segments are divided among the threads.
  const auto blocks = static_cast<int64_t>(blocks_.size());
  int32_t segments = 0;
  for (const Block& block : blocks_) segments = std::max(segments, block.segment_end - block.segment_begin);
  if (team_.threads() > 1 && segments > 1 && blocks < team_.threads() * int64_t{4}) {
    const int64_t at_once = team_.threads() * kAttentionSplitFloats / (blocks * sums_floats(kv)) - 1;
    if (at_once > 1) return attend_split(call, static_cast<int32_t>(std::min<int64_t>(at_once, segments)));
  }
  attend_whole(call);
}

void AttentionOp::list_blocks(const Call& call, std::span<const AttentionSlice> slices) {
  blocks_.clear();
  for (const AttentionSlice& slice : slices) {
    const int32_t queries = slice.rows * call.group;
    for (int32_t kv_head = 0; kv_head < call.kv.kv_heads; ++kv_head) {
      for (int32_t begin = 0; begin < queries; begin += kBlockQueries) {
        Block block{.slice = &slice, .kv_head = kv_head, .begin = begin};
        block.count = std::min(kBlockQueries, queries - begin);
        const int32_t first = slice.position_begin + begin / call.group;
        const int32_t last = slice.position_begin + (begin + block.count - 1) / call.group;
        block.segment_begin = seen_by(call.params, slice, first).lo / kSegmentTokens;
        block.segment_end = (seen_by(call.params, slice, last).hi - 1) / kSegmentTokens + 1;
        blocks_.push_back(block);
      }
    }
  }
}

double AttentionOp::segment_ns(const Call& call) const {
  double queries = 0;
  for (const Block& block : blocks_) queries += block.count;
  const double mean = queries / static_cast<double>(blocks_.size());
  return mean * kSegmentTokens * (call.kv.key_dim + call.kv.value_dim) / kAttentionProductsPerNs;
}

// Computes each block on one thread, from its first segment to its last.
void AttentionOp::attend_whole(const Call& call) {
  const int64_t stride = working_floats(call.kv);
  auto* memory = working_.get_array<float>(team_.threads() * stride);
  double segments = 0;
  for (const Block& block : blocks_) segments += block.segment_end - block.segment_begin;
  const auto blocks = static_cast<int64_t>(blocks_.size());
  const double block_ns = segment_ns(call) * segments / static_cast<double>(blocks);
  team_.run(blocks, team_.chunk_least(block_ns), [&](int64_t begin, int64_t end, int member) {
    const Working working = working_at(memory + member * stride, call.kv);
    for (int64_t b = begin; b < end; ++b) {
      const Block& block = blocks_[b];
      clear(block, working.total);
      prepare_queries(call, block, working);
      for (int32_t segment = block.segment_begin; segment < block.segment_end; ++segment) {
        attend_segment(call, block, segment, working, working.segment);
        merge(call.kv, block, working.segment, working.total);
      }
      finish(call, block, working.total);
    }
  });
}

// Distributes the next `at_once` segments of every block over the threads, then merges them in order, until all are
// done.
void AttentionOp::attend_split(const Call& call, int32_t at_once) {
  const int64_t stride = working_floats(call.kv);
  auto* memory = working_.get_array<float>(team_.threads() * stride);
  const auto blocks = static_cast<int64_t>(blocks_.size());
  const int64_t sums = sums_floats(call.kv);
  auto* totals = split_.get_array<float>(blocks * sums * (at_once + 1));
  float* pieces = totals + blocks * sums;
  int32_t segments = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    clear(blocks_[b], sums_at(totals + b * sums));
    segments = std::max(segments, blocks_[b].segment_end - blocks_[b].segment_begin);
  }
  const double piece_ns = segment_ns(call);
  for (int32_t wave = 0; wave < segments; wave += at_once) {
    team_.run(blocks * at_once, team_.chunk_least(piece_ns), [&](int64_t begin, int64_t end, int member) {
      const Working working = working_at(memory + member * stride, call.kv);
      for (int64_t i = begin; i < end; ++i) {
        const Block& block = blocks_[i / at_once];
        const auto segment = static_cast<int32_t>(block.segment_begin + wave + i % at_once);
        if (segment >= block.segment_end) continue;
        prepare_queries(call, block, working);
        attend_segment(call, block, segment, working, sums_at(pieces + i * sums));
      }
    });
    for (int64_t i = 0; i < blocks * at_once; ++i) {
      const Block& block = blocks_[i / at_once];
      if (block.segment_begin + wave + i % at_once >= block.segment_end) continue;
      merge(call.kv, block, sums_at(pieces + i * sums), sums_at(totals + i / at_once * sums));
    }
  }
  for (int64_t b = 0; b < blocks; ++b) finish(call, blocks_[b], sums_at(totals + b * sums));
}

// The positions that the row at `position` sees.
AttentionOp::Range AttentionOp::seen_by(const AttentionParams& params, const AttentionSlice& slice, int32_t position) {
  if (params.causal) return {params.first_seen(position), position + 1};
  const int32_t window = params.window;
  const int32_t end = slice.position_begin + slice.rows;
  if (window == 0) return {0, end};
  return {std::max(0, position - window / 2), std::min(end, position + window / 2 + 1)};
}

AttentionOp::Range AttentionOp::range_of(const Call& call, const Block& block, int32_t query, int32_t segment) {
  const int32_t begin = segment * kSegmentTokens;
  const int32_t position = block.slice->position_begin + (block.begin + query) / call.group;
  const Range seen = seen_by(call.params, *block.slice, position);
  return {std::max(seen.lo - begin, 0), std::min(seen.hi - begin, kSegmentTokens)};
}

// Positions ascend with the queries, and so do both ends of their ranges: the queries that see some position of a page
// are adjacent.
AttentionOp::Range AttentionOp::queries_of_page(std::span<const Range> ranges, int32_t page) {
  const auto sees = [page](const Range& range) {
    return range.lo < range.hi && range.lo < (page + 1) * kPageTokens && range.hi > page * kPageTokens;
  };
  const auto first = std::ranges::find_if(ranges, sees);
  const auto last = std::find_if_not(first, ranges.end(), sees);
  return {static_cast<int32_t>(first - ranges.begin()), static_cast<int32_t>(last - ranges.begin())};
}

void AttentionOp::attend_segment(const Call& call, const Block& block, int32_t segment, const Working& working,
                                 const Sums& sums) const {
  std::array<Range, kBlockQueries> all;
  const std::span<Range> ranges(all.data(), static_cast<size_t>(block.count));
  for (int32_t i = 0; i < block.count; ++i) ranges[i] = range_of(call, block, i, segment);
  // Only these pages are read: the list of pages may have kNoPage before the window.
  std::array<SeenPage, kSegmentPages> pages;
  size_t seen = 0;
  for (int32_t page = 0; page < kSegmentPages; ++page) {
    const Range queries = queries_of_page(ranges, page);
    if (queries.lo >= queries.hi) continue;
    pages[seen++] = {block.slice->pages[segment * kSegmentPages + page], page * kPageTokens, queries};
  }
  clear(block, sums);
  if (call.pairs != nullptr) return attend_pairs(call, block, segment, {pages.data(), seen}, ranges, working, sums);
  score_pages(call, block, {pages.data(), seen}, working);
  for (int32_t i = 0; i < block.count; ++i) weigh(call, block, i, segment, ranges[i], working, sums);
  std::fill_n(sums.values, int64_t{block.count} * call.kv.value_dim, 0.0f);
  add_pages(call, block, {pages.data(), seen}, ranges, working, sums);
}

// Turns a query's scores of a segment into weights.
void AttentionOp::weigh(const Call& call, const Block& block, int32_t query, int32_t segment, const Range& range,
                        const Working& working, const Sums& sums) const {
  if (range.lo >= range.hi) return;
  float* scores = working.scores + int64_t{query} * kScoreStride;
  if (call.params.slopes != nullptr) lower_by_distance(call, block, query, segment, range, scores);
  kernels_.exponentials(scores, range.lo, range.hi, call.params.scale, call.params.soft_cap, &sums.largest[query],
                        &sums.sum[query]);
}

std::array<const float*, AttentionOp::kBlockQueries> AttentionOp::queries_of(const Call& call, const Block& block) {
  std::array<const float*, kBlockQueries> queries{};
  for (int32_t i = 0; i < block.count; ++i) {
    const int64_t row = block.slice->row_begin + (block.begin + i) / call.group;
    const int64_t head = int64_t{block.kv_head} * call.group + (block.begin + i) % call.group;
    queries[i] = call.q + (row * call.params.heads + head) * call.kv.key_dim;
  }
  return queries;
}

void AttentionOp::lower_by_distance(const Call& call, const Block& block, int32_t query, int32_t segment,
                                    const Range& range, float* scores) {
  const int32_t position = block.slice->position_begin + (block.begin + query) / call.group;
  const int32_t head = block.kv_head * call.group + (block.begin + query) % call.group;
  // The slope is divided by the scale because the scores are multiplied by it later.
  const float slope = call.params.slopes[head] / call.params.scale;
  const int32_t distance = segment * kSegmentTokens - position;  // distance of the segment's first position
  for (int32_t t = range.lo; t < range.hi; ++t) {
    scores[t] -= slope * static_cast<float>(std::abs(distance + t));
  }
}

void AttentionOp::score_pages(const Call& call, const Block& block, std::span<const SeenPage> pages,
                              const Working& working) const {
  const KvView& kv = call.kv;
  const std::array<const float*, kBlockQueries> queries = queries_of(call, block);
  for (size_t p = 0; p < pages.size(); ++p) {
    const std::byte* bytes = page_keys(kv, pages[p].page, block.kv_head);
    // After the last keys, the first values are read next.
    const std::byte* next = p + 1 < pages.size() ? page_keys(kv, pages[p + 1].page, block.kv_head)
                                                 : page_values(kv, pages[0].page, block.kv_head);
    const auto* keys = reinterpret_cast<const float*>(bytes);
    if (kv.type != KvType::kF32) {
      decoder_of(kernels_, kv.type, kernels_.decode_q8_0_keys)(bytes, kv.key_dim, next, working.page);
      keys = working.page;
    }
    const Range seen = pages[p].queries;
    kernels_.scores(keys, kv.key_dim, &queries[seen.lo], seen.hi - seen.lo,
                    working.scores + int64_t{seen.lo} * kScoreStride + pages[p].begin);
  }
}

// How many of the first pages can be added as if they were one: consecutive pages that all queries of the block see in
// full, as far as their values fit beside each other.
size_t AttentionOp::pages_together(const Call& call, std::span<const SeenPage> pages, std::span<const Range> ranges) {
  const auto most = call.kv.type == KvType::kF32 ? 1 : static_cast<size_t>(run_pages(call.kv.value_dim));
  const auto whole = [&](const SeenPage& page) {
    // Both ends of the ranges ascend with the queries.
    return ranges.back().lo <= page.begin && ranges.front().hi >= page.begin + kPageTokens;
  };
  size_t count = 0;
  while (count < std::min(most, pages.size()) && whole(pages[count])) ++count;
  return std::max<size_t>(count, 1);
}

void AttentionOp::add_pages(const Call& call, const Block& block, std::span<const SeenPage> pages,
                            std::span<const Range> ranges, const Working& working, const Sums& sums) const {
  const KvView& kv = call.kv;
  for (size_t p = 0, run = 0; p < pages.size(); p += run) {
    run = pages_together(call, pages.subspan(p), ranges);
    const float* values = working.page;
    for (size_t i = p; i < p + run; ++i) {
      const std::byte* bytes = page_values(kv, pages[i].page, block.kv_head);
      // After the last values, the next head's keys are usually read next.
      const std::byte* next = i + 1 < pages.size() ? page_values(kv, pages[i + 1].page, block.kv_head)
                                                   : page_keys(kv, pages[0].page, block.kv_head + 1);
      if (kv.type == KvType::kF32) {
        values = reinterpret_cast<const float*>(bytes);
        continue;
      }
      const auto decode = decoder_of(kernels_, kv.type, kernels_.decode_q8_0_values);
      decode(bytes, kv.value_dim, next, working.page + static_cast<int64_t>(i - p) * kPageTokens * kv.value_dim);
    }
    const int32_t begin = pages[p].begin;
    const auto tokens = static_cast<int32_t>(run) * kPageTokens;
    const auto part = [&](int32_t i) {
      return Range{std::max(ranges[i].lo - begin, 0), std::min(ranges[i].hi - begin, tokens)};
    };
    // Queries that see the same part of the pages are added together. Tokens outside of it are not read: they may hold
    // anything.
    const Range seen = pages[p].queries;
    for (int32_t i = seen.lo, end = i; i < seen.hi; i = end) {
      const Range same = part(i);
      while (end < seen.hi && part(end).lo == same.lo && part(end).hi == same.hi) ++end;
      kernels_.add_values(values, kv.value_dim, kv.value_dim, working.scores + int64_t{i} * kScoreStride + begin,
                          same.lo, same.hi, end - i, sums.values + int64_t{i} * kv.value_dim);
    }
  }
}

void AttentionOp::clear(const Block& block, const Sums& sums) {
  std::fill_n(sums.largest, block.count, -std::numeric_limits<float>::infinity());
  std::fill_n(sums.sum, block.count, 0.0f);
}

void AttentionOp::merge(const KvView& kv, const Block& block, const Sums& piece, const Sums& total) const {
  for (int32_t i = 0; i < block.count; ++i) {
    // If a query sees any position of a segment, its largest exponential there is 1, so the sum is not 0.
    if (piece.sum[i] == 0) continue;
    float* values = total.values + int64_t{i} * kv.value_dim;
    const float* more = piece.values + int64_t{i} * kv.value_dim;
    if (total.sum[i] == 0) {
      total.largest[i] = piece.largest[i];
      total.sum[i] = piece.sum[i];
      std::copy_n(more, kv.value_dim, values);
    } else {
      kernels_.merge(&total.largest[i], &total.sum[i], values, piece.largest[i], piece.sum[i], more, kv.value_dim);
    }
  }
}

void AttentionOp::finish(const Call& call, const Block& block, const Sums& total) const {
  const int32_t value_dim = call.kv.value_dim;
  for (int32_t i = 0; i < block.count; ++i) {
    const int64_t row = block.slice->row_begin + (block.begin + i) / call.group;
    const int64_t head = int64_t{block.kv_head} * call.group + (block.begin + i) % call.group;
    const float sink = call.params.sinks == nullptr ? kNoSink : call.params.sinks[head];
    kernels_.finish(total.largest[i], total.sum[i], total.values + int64_t{i} * value_dim, sink, value_dim,
                    call.out + (row * call.params.heads + head) * value_dim);
  }
}

}  // namespace cairn::kernels::cpu
