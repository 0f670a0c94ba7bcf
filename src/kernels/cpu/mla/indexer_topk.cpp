#include "kernels/cpu/mla/indexer_topk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ranges>

namespace cairn::kernels::cpu {
namespace {

// Scores held at the same time, unless one query has more: 16 queries with 64k rows.
constexpr int64_t kScoresAtOnce = 1 << 20;
constexpr double kIndexerProductsPerNs = 15;  // only used to choose the size of chunks
constexpr double kChooseNs = 2;

constexpr int32_t blocks_of(int32_t heads) { return (heads + kTileHeads - 1) / kTileHeads; }

// A score for comparison: NaN counts as the smallest.
float value_of(float score) { return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score; }

constexpr int32_t block_count(const CandidateBlocks& candidates, int32_t seen) {
  return (seen + candidates.rows - 1) / candidates.rows;
}

// Rows outside of the blocks lose their scores. There are none where all blocks are candidates.
void keep_candidates(const CandidateBlocks& candidates, const int32_t* blocks, int32_t seen, float* scores) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  if (block_count(candidates, seen) <= candidates.most) return;
  int32_t done = 0;
  for (int32_t i = 0; i < candidates.most; ++i) {
    const int32_t begin = blocks[i] * candidates.rows;
    std::fill(scores + done, scores + begin, kNone);
    done = std::min(seen, begin + candidates.rows);
  }
  std::fill(scores + done, scores + seen, kNone);
}

// Overwrites the scores with those of the blocks: each is read before.
void find_candidates(const CandidateBlocks& candidates, int32_t seen, float* scores, int32_t* blocks) {
  const int32_t count = block_count(candidates, seen);
  if (count <= candidates.most) {
    for (int32_t block = 0; block < count; ++block) blocks[block] = block;
    return;
  }
  for (int32_t block = 0; block < count; ++block) {
    const int32_t begin = block * candidates.rows, end = begin + candidates.rows;
    if (end > seen) {
      scores[block] = std::numeric_limits<float>::infinity();
      continue;
    }
    float best = value_of(scores[begin]);
    for (int32_t row = begin + 1; row < end; ++row) best = std::max(best, value_of(scores[row]));
    scores[block] = best;
  }
  choose_largest(scores, count, candidates.most, blocks);
}

}  // namespace

void choose_largest(const float* scores, int32_t n, int32_t most, int32_t* chosen) {
  const auto larger = [scores](int32_t a, int32_t b) { return value_of(scores[a]) > value_of(scores[b]); };
  const auto rows = std::views::iota(int32_t{0}, n);
  std::partial_sort_copy(rows.begin(), rows.end(), chosen, chosen + most, larger);
  std::sort(chosen, chosen + most);
}

int64_t IndexerTopK::working_floats(int32_t heads, int32_t dim) {
  return int64_t{kTileRows} * (dim + kScoreStride) + int64_t{blocks_of(heads)} * kTileHeads * (dim + 1);
}

IndexerTopK::Working IndexerTopK::working_at(float* memory, int32_t blocks, int32_t dim) {
  Working working;
  working.tile = memory;
  working.products = working.tile + int64_t{kTileRows} * dim;
  working.queries = working.products + int64_t{kTileRows} * kScoreStride;
  working.weights = working.queries + int64_t{blocks} * kTileHeads * dim;
  return working;
}

int64_t IndexerTopK::working_bytes(const MlaSizes& sizes) const {
  return team_.threads() * working_floats(sizes.choose_heads, sizes.choose_dim) * static_cast<int64_t>(sizeof(float));
}

int64_t IndexerTopK::scores_bytes(const MlaSizes& sizes) {
  return std::max<int64_t>(sizes.context_tokens, kScoresAtOnce) * static_cast<int64_t>(sizeof(float));
}

Result<void> IndexerTopK::reserve(const MlaSizes& sizes) {
  if (sizes.choose_heads == 0) return {};
  CAIRN_TRY_VOID(working_.reserve(working_bytes(sizes)));
  return scores_.reserve(scores_bytes(sizes));
}

int64_t IndexerTopK::workspace_bytes(const MlaSizes& sizes) const {
  return sizes.choose_heads == 0 ? 0 : working_bytes(sizes) + scores_bytes(sizes);
}

int32_t IndexerTopK::rows_seen(const Call& call, int64_t query) {
  const QueryPlace place = query_place(call.slices, query);
  return kv_rows(call.slices[place.slice].position_begin + place.row + 1, call.keys.tokens_per_row);
}

void IndexerTopK::choose(const ChooseParams& params, const KvView& keys, std::span<const AttentionSlice> slices,
                         const float* q, const float* weights, int32_t* chosen) {
  if (slices.empty()) return;
  const Call call{params, keys, slices, q, weights, blocks_of(params.heads)};
  const int64_t queries = count_queries(slices);
  int32_t longest = 0;
  for (int64_t i = 0; i < queries; ++i) longest = std::max(longest, rows_seen(call, i));
  const int32_t segments = longest > params.most ? (longest + kRowsOfSegment - 1) / kRowsOfSegment : 0;
  const int64_t at_once = std::min(queries, std::max<int64_t>(1, kScoresAtOnce / std::max(longest, 1)));
  float* scores = segments == 0 ? nullptr : scores_.get_array<float>(at_once * longest);
  const int64_t stride = working_floats(params.heads, keys.key_dim);
  auto* memory = working_.get_array<float>(team_.threads() * stride);
  const double segment_ns = double{kRowsOfSegment} * params.heads * keys.key_dim / kIndexerProductsPerNs;
  for (int64_t wave = 0; wave < queries; wave += at_once) {
    const int64_t count = std::min(at_once, queries - wave);
    team_.run(count * segments, ThreadTeam::chunk_least(segment_ns), [&](int64_t begin, int64_t end, int member) {
      const Working working = working_at(memory + member * stride, call.blocks, keys.key_dim);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t query = i / segments;
        score_segment(call, wave + query, static_cast<int32_t>(i % segments), working, scores + query * longest);
      }
    });
    team_.run_items(count, kChooseNs * longest, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t query = begin; query < end; ++query) {
        const int32_t seen = rows_seen(call, wave + query);
        const int64_t row = slices.front().row_begin + wave + query;
        int32_t* to = chosen + row * params.most;
        const CandidateBlocks& candidates = params.candidates;
        int32_t* blocks = candidates.rows > 0 ? candidates.blocks + row * candidates.most : nullptr;
        float* own = scores == nullptr ? nullptr : scores + query * longest;
        if (blocks != nullptr && !candidates.find) keep_candidates(candidates, blocks, seen, own);
        if (seen > params.most) {
          choose_largest(own, seen, params.most, to);
        } else {
          for (int32_t seen_row = 0; seen_row < seen; ++seen_row) to[seen_row] = seen_row;
        }
        if (blocks != nullptr && candidates.find) find_candidates(candidates, seen, own, blocks);
      }
    });
  }
}

// Computes scores[r] of the segment's rows r, counted from row 0.
void IndexerTopK::score_segment(const Call& call, int64_t query, int32_t segment, const Working& working,
                                float* scores) const {
  const int32_t seen = rows_seen(call, query);
  const int32_t end = std::min(seen, (segment + 1) * kRowsOfSegment);
  if (seen <= call.params.most || segment * kRowsOfSegment >= end) return;
  const AttentionSlice& slice = call.slices[query_place(call.slices, query).slice];
  const int64_t first = (call.slices.front().row_begin + query) * call.params.heads;
  const int32_t dim = call.keys.key_dim;
  for (int32_t block = 0; block < call.blocks; ++block) {
    const int32_t head = block * kTileHeads;
    const int32_t heads = std::min(kTileHeads, call.params.heads - head);
    turn_queries(call.q + (first + head) * dim, heads, dim, working.queries + int64_t{head} * dim);
    std::fill_n(working.weights + head, kTileHeads, 0.0f);
    std::copy_n(call.weights + first + head, heads, working.weights + head);
  }
  std::array<const float*, kTileRows> rows;
  for (int32_t begin = segment * kRowsOfSegment; begin < end; begin += kTileRows) {
    const int32_t count = std::min(kTileRows, end - begin);
    for (int32_t t = 0; t < count; ++t) {
      const std::byte* row = latent_row(call.keys, slice.pages, begin + t);
      float* decoded = working.tile + int64_t{t} * dim;
      rows[t] = call.keys.type == KvType::kF32 ? reinterpret_cast<const float*>(row) : decoded;
      if (rows[t] == decoded) decode_latent_row(kernels_, call.keys, row, decoded);
    }
    std::fill_n(scores + begin, count, 0.0f);
    for (int32_t block = 0; block < call.blocks; ++block) {
      const int32_t head = block * kTileHeads;
      kernels_.scores(working.queries + int64_t{head} * dim, dim, rows.data(), count, working.products);
      for (int32_t t = 0; t < count; ++t) {
        scores[begin + t] +=
            kernels_.relu_dot(working.products + int64_t{t} * kScoreStride, working.weights + head, kTileHeads);
      }
    }
  }
}

}  // namespace cairn::kernels::cpu
