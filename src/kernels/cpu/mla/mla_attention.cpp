#include "kernels/cpu/mla/mla_attention.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"

namespace cairn::kernels::cpu {
namespace {

// Memory for segments in flight, per thread: 15 of 32 heads with values of 512.
constexpr int64_t kMlaSplitFloats = 256 * 1024;
// Estimated multiply-adds per nanosecond of one thread; only used to choose the size of chunks.
constexpr double kMlaProductsPerNs = 15;
constexpr float kNone = -std::numeric_limits<float>::infinity();

constexpr int32_t segments_of(int32_t rows) { return (rows + kRowsOfSegment - 1) / kRowsOfSegment; }

}  // namespace

int64_t MlaAttention::working_floats(int32_t dim, int32_t value_dim) {
  return int64_t{kTileRows + kTileHeads} * dim + int64_t{kTileRows + kTileHeads} * kScoreStride +
         3 * sums_floats(value_dim);
}

MlaAttention::Sums MlaAttention::sums_at(float* memory) {
  return {memory, memory + kTileHeads, memory + int64_t{2} * kTileHeads};
}

MlaAttention::Working MlaAttention::working_at(float* memory, int32_t dim, int32_t value_dim) {
  Working working;
  working.tile = memory;
  working.queries = working.tile + int64_t{kTileRows} * dim;
  working.products = working.queries + int64_t{kTileHeads} * dim;
  working.weights = working.products + int64_t{kTileRows} * kScoreStride;
  float* sums = working.weights + int64_t{kTileHeads} * kScoreStride;
  working.of_tile = sums_at(sums);
  working.segment = sums_at(sums + sums_floats(value_dim));
  working.total = sums_at(sums + 2 * sums_floats(value_dim));
  return working;
}

int64_t MlaAttention::working_bytes(const MlaSizes& sizes) const {
  return team_.threads() * working_floats(sizes.row_dim, sizes.row_dim) * static_cast<int64_t>(sizeof(float));
}

int64_t MlaAttention::split_bytes() const {
  return team_.threads() * kMlaSplitFloats * static_cast<int64_t>(sizeof(float));
}

Result<void> MlaAttention::reserve(const MlaSizes& sizes) {
  if (sizes.row_dim == 0) return {};
  CAIRN_TRY_VOID(working_.reserve(working_bytes(sizes)));
  return split_.reserve(split_bytes());
}

int64_t MlaAttention::workspace_bytes(const MlaSizes& sizes) const {
  return sizes.row_dim == 0 ? 0 : working_bytes(sizes) + split_bytes();
}

int32_t MlaAttention::rows_read(const RowSource& source, QueryPlace place) {
  const int32_t position = source.slices[place.slice].position_begin + place.row;
  const int32_t seen = kv_rows(position + 1, source.kv.tokens_per_row);
  if (source.chosen != nullptr) return std::min(seen, source.chosen_max);
  return source.window > 0 ? std::min(seen, source.window) : seen;
}

MlaAttention::Block MlaAttention::block_of(const Call& call, int64_t number) {
  const std::span<const AttentionSlice> slices = call.sources[0].slices;
  Block block;
  block.place = query_place(slices, number / call.blocks_of_query);
  block.query = int64_t{slices[block.place.slice].row_begin} + block.place.row;
  block.head = static_cast<int32_t>(number % call.blocks_of_query) * kTileHeads;
  block.heads = std::min(kTileHeads, call.params.heads - block.head);
  for (const RowSource& source : call.sources) block.rows += rows_read(source, block.place);
  return block;
}

void MlaAttention::attend(const RowAttentionParams& params, std::span<const RowSource> sources, const float* q,
                          float* out) {
  CAIRN_DCHECK(params.scale > 0);
  CAIRN_DCHECK(!sources.empty() && sources.size() <= kRowSourcesMax);
  for (const RowSource& source : sources) {
    CAIRN_DCHECK(source.kv.kv_heads == 1 && source.kv.key_dim == sources[0].kv.key_dim);
    CAIRN_DCHECK(source.slices.size() == sources[0].slices.size());
  }
  if (sources[0].slices.empty()) return;
  const Call call{params, sources, q, out, sources[0].kv.key_dim, (params.heads + kTileHeads - 1) / kTileHeads};
  CAIRN_DCHECK(params.value_dim <= call.dim);
  const int64_t blocks = count_queries(sources[0].slices) * call.blocks_of_query;
  int32_t most = 0;
  for (int64_t b = 0; b < blocks; b += call.blocks_of_query) most = std::max(most, block_of(call, b).rows);
  const int32_t segments = segments_of(most);
  const double segment_ns = double{kRowsOfSegment} * kTileHeads * (call.dim + params.value_dim) / kMlaProductsPerNs;
  if (team_.threads() > 1 && segments > 1 && blocks < team_.threads() * int64_t{4}) {
    const int64_t at_once = team_.threads() * kMlaSplitFloats / (blocks * sums_floats(params.value_dim)) - 1;
    if (at_once > 1) {
      return attend_split(call, blocks, segment_ns, segments,
                          static_cast<int32_t>(std::min<int64_t>(at_once, segments)));
    }
  }
  attend_whole(call, blocks, segment_ns, segments);
}

// Computes each block on one thread, from its first segment to its last.
void MlaAttention::attend_whole(const Call& call, int64_t blocks, double segment_ns, int32_t segments) {
  const int64_t stride = working_floats(call.dim, call.params.value_dim);
  auto* memory = working_.get_array<float>(team_.threads() * stride);
  const int64_t chunk = ThreadTeam::chunk_least(segment_ns * segments / 2);
  team_.run(blocks, chunk, [&](int64_t begin, int64_t end, int member) {
    const Working working = working_at(memory + member * stride, call.dim, call.params.value_dim);
    for (int64_t b = begin; b < end; ++b) {
      const Block block = block_of(call, b);
      std::fill_n(working.total.sum, kTileHeads, 0.0f);
      for (int32_t segment = 0; segment < segments_of(block.rows); ++segment) {
        attend_segment(call, block, segment, working, working.segment);
        merge(call, block, working.segment, working.total);
      }
      finish(call, block, working.total);
    }
  });
}

// Distributes the next `at_once` segments of every block over the threads, then merges them in order, until all are
// done.
void MlaAttention::attend_split(const Call& call, int64_t blocks, double segment_ns, int32_t segments,
                                int32_t at_once) {
  const int64_t stride = working_floats(call.dim, call.params.value_dim);
  auto* memory = working_.get_array<float>(team_.threads() * stride);
  const int64_t sums = sums_floats(call.params.value_dim);
  auto* totals = split_.get_array<float>(blocks * sums * (at_once + 1));
  float* pieces = totals + blocks * sums;
  for (int64_t b = 0; b < blocks; ++b) std::fill_n(sums_at(totals + b * sums).sum, kTileHeads, 0.0f);
  for (int32_t wave = 0; wave < segments; wave += at_once) {
    team_.run(blocks * at_once, ThreadTeam::chunk_least(segment_ns), [&](int64_t begin, int64_t end, int member) {
      const Working working = working_at(memory + member * stride, call.dim, call.params.value_dim);
      for (int64_t i = begin; i < end; ++i) {
        const Block block = block_of(call, i / at_once);
        const auto segment = static_cast<int32_t>(wave + i % at_once);
        if (segment < segments_of(block.rows))
          attend_segment(call, block, segment, working, sums_at(pieces + i * sums));
      }
    });
    for (int64_t i = 0; i < blocks * at_once; ++i) {
      const Block block = block_of(call, i / at_once);
      if (wave + i % at_once >= segments_of(block.rows)) continue;
      merge(call, block, sums_at(pieces + i * sums), sums_at(totals + i / at_once * sums));
    }
  }
  for (int64_t b = 0; b < blocks; ++b) finish(call, block_of(call, b), sums_at(totals + b * sums));
}

// Decodes rows begin .. begin + count - 1 of those that the block reads.
void MlaAttention::decode_tile(const Call& call, const Block& block, int32_t begin, int32_t count, float* tile) const {
  for (const RowSource& source : call.sources) {
    const AttentionSlice& slice = source.slices[block.place.slice];
    const int32_t read = rows_read(source, block.place);
    const int32_t seen = kv_rows(slice.position_begin + block.place.row + 1, source.kv.tokens_per_row);
    const int32_t* chosen = source.chosen == nullptr ? nullptr : source.chosen + block.query * source.chosen_max;
    for (int32_t i = begin; i < read && count > 0; ++i, --count, tile += call.dim) {
      const int32_t row = chosen == nullptr ? seen - read + i : chosen[i];
      CAIRN_DCHECK(row >= 0 && row < seen);
      decode_latent_row(kernels_, source.kv, latent_row(source.kv, slice.pages, row), tile);
    }
    begin = std::max(begin - read, 0);
  }
}

void MlaAttention::attend_segment(const Call& call, const Block& block, int32_t segment, const Working& working,
                                  const Sums& sums) const {
  const int32_t value_dim = call.params.value_dim;
  turn_queries(call.q + (block.query * call.params.heads + block.head) * call.dim, block.heads, call.dim,
               working.queries);
  std::fill_n(sums.sum, kTileHeads, 0.0f);
  std::array<const float*, kTileRows> rows;
  for (int32_t t = 0; t < kTileRows; ++t) rows[t] = working.tile + int64_t{t} * call.dim;
  const int32_t end = std::min(block.rows, (segment + 1) * kRowsOfSegment);
  for (int32_t begin = segment * kRowsOfSegment; begin < end; begin += kTileRows) {
    const int32_t count = std::min(kTileRows, end - begin);
    decode_tile(call, block, begin, count, working.tile);
    kernels_.scores(working.queries, call.dim, rows.data(), count, working.products);
    for (int32_t t = 0; t < count; ++t) {
      const float* products = working.products + int64_t{t} * kScoreStride;
      for (int32_t h = 0; h < block.heads; ++h) working.weights[int64_t{h} * kScoreStride + t] = products[h];
    }
    const Sums& of_tile = working.of_tile;
    for (int32_t h = 0; h < block.heads; ++h) {
      kernels_.exponentials(working.weights + int64_t{h} * kScoreStride, 0, count, call.params.scale, 0,
                            &of_tile.largest[h], &of_tile.sum[h]);
    }
    std::fill_n(of_tile.values, int64_t{block.heads} * value_dim, 0.0f);
    kernels_.add_values(working.tile, call.dim, value_dim, working.weights, 0, count, block.heads, of_tile.values);
    merge(call, block, of_tile, sums);
  }
}

void MlaAttention::merge(const Call& call, const Block& block, const Sums& piece, const Sums& total) const {
  const int32_t value_dim = call.params.value_dim;
  for (int32_t h = 0; h < block.heads; ++h) {
    float* values = total.values + int64_t{h} * value_dim;
    const float* more = piece.values + int64_t{h} * value_dim;
    // The sum is 0 only if the query reads no rows: otherwise its largest exponential is 1.
    if (total.sum[h] == 0) {
      total.largest[h] = piece.largest[h];
      total.sum[h] = piece.sum[h];
      std::copy_n(more, value_dim, values);
    } else {
      kernels_.merge(&total.largest[h], &total.sum[h], values, piece.largest[h], piece.sum[h], more, value_dim);
    }
  }
}

void MlaAttention::finish(const Call& call, const Block& block, const Sums& total) const {
  const int32_t value_dim = call.params.value_dim;
  for (int32_t h = 0; h < block.heads; ++h) {
    const float sink = call.params.sinks == nullptr ? kNone : call.params.sinks[block.head + h];
    kernels_.finish(total.largest[h], total.sum[h], total.values + int64_t{h} * value_dim, sink, value_dim,
                    call.out + (block.query * call.params.heads + block.head + h) * value_dim);
  }
}

}  // namespace cairn::kernels::cpu
