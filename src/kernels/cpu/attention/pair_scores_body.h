/// Scores of queries and of keys that lie in pairs (PairAttention), written once over an ISA's `Vector` that has
/// add_pair_products and over a reader of pages (pair_pages.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_tiles.h"
#include "kernels/cpu/attention/pair_pages.h"

namespace cairn::kernels::cpu {
namespace {

template <class V, class Pages>
struct PairScores : PairVectors<V> {
  using F = typename V::F;
  using I = typename V::I;
  using Vectors = PairVectors<V>;
  using Tiles = AttentionTiles<V>;
  using Vectors::ask_for, Vectors::broadcast, Vectors::to_float;
  using Vectors::kLanes, Vectors::kPagePairs, Vectors::kPageVectors;

  // Adds the scores of one piece: its sums, times the keys' scales, are added to those of the pieces before it.
  template <int kQueries, int kVectors>
  [[gnu::always_inline]] static void score_piece(const std::byte* keys, int32_t key_dim, int v0, const int32_t* queries,
                                                 const std::byte* next, bool first, const float* query_scales,
                                                 float* scores) {
    constexpr int kBytes = kVectors * kLanes * Pages::kPairBytes;
    const int32_t row = kAttentionPage * Pages::kPairBytes, skipped = v0 * kLanes * Pages::kPairBytes;
    const int32_t pairs = key_pairs(Pages::piece_dims(key_dim));
    I sums[kQueries][kVectors];
    Vectors::template for_each_sum<kQueries, kVectors>([&](int q, int v) { sums[q][v] = broadcast(0); });
    for (int32_t i = 0; i < pairs; ++i) {
      I key[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        key[v] = Pages::pairs(keys + int64_t{i} * row + skipped + v * kLanes * Pages::kPairBytes);
      }
      ask_for(next + int64_t{i} * row + skipped, kBytes);
      for (int q = 0; q < kQueries; ++q) {
        const I query = broadcast(queries[q * query_pairs(key_dim) + i]);
        for (int v = 0; v < kVectors; ++v) sums[q][v] = V::add_pair_products(query, key[v], sums[q][v]);
      }
    }
    ask_for(next + int64_t{pairs} * row + skipped, kBytes);  // the scales of the next page
    F key_scales[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      key_scales[v] = V::keep(Pages::key_scales(keys, key_dim, (v0 + v) * kLanes));
    }
    Vectors::template for_each_sum<kQueries, kVectors>([&](int q, int v) {
      float* to = scores + q * kScoreStride + (v0 + v) * kLanes;
      F score = V::fma(to_float(sums[q][v]), key_scales[v], first ? V::set(0) : V::load(to));
      if (query_scales != nullptr) score = score * query_scales[q];
      V::store(to, score);
    });
  }

  template <int kQueries, int kVectors>
  static void scores_of(const std::byte* keys, int32_t key_dim, int v0, const int32_t* queries,
                        const float* query_scales, const std::byte* next, float* scores) {
    const int32_t pieces = Pages::pieces(key_dim);
    for (int32_t p = 0; p < pieces; ++p) {
      const int64_t at = p * Pages::kPieceBytes;
      score_piece<kQueries, kVectors>(keys + at, key_dim, v0, queries + int64_t{p} * kPagePairs, next + at, p == 0,
                                      p == pieces - 1 ? query_scales : nullptr, scores);
    }
  }

  static void scores(const std::byte* keys, int32_t key_dim, const int32_t* queries, const float* query_scales,
                     int32_t n, const std::byte* next, float* scores) {
    Tiles::in_tiles(n, [&]<int kQueries>(int32_t q) {
      constexpr int kVectors = kQueries > 2 || kPageVectors < 4 ? Tiles::kTileVectors : 4;
      for (int v = 0; v < kPageVectors; v += kVectors) {
        scores_of<kQueries, kVectors>(keys, key_dim, v, queries + q * query_pairs(key_dim), query_scales + q, next,
                                      scores + q * kScoreStride);
      }
    });
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
