/// Attention kernels, written once over an ISA's `Vector`; <isa>/attention.cpp makes its table of them.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_decode_body.h"
#include "kernels/cpu/attention/attention_rows_body.h"
#include "kernels/cpu/attention/attention_softmax_body.h"
#include "kernels/cpu/attention/attention_tiles.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct AttentionOps {
  using F = typename V::F;
  static constexpr int32_t kLanes = V::kLanes;
  using Tiles = AttentionTiles<V>;
  static constexpr int kTileVectors = Tiles::kTileVectors;
  static constexpr int kPageVectors = kAttentionPage / kLanes;
  static_assert(kPageVectors % kTileVectors == 0);

  template <int kQueries, int kVectors>
  static void scores_of(const float* keys, int32_t key_dim, const float* const* queries, float* scores) {
    F sums[kQueries][kVectors];
    for (auto& row : sums) {
      for (F& sum : row) sum = V::set(0);
    }
    for (int32_t d = 0; d < key_dim; ++d) {
      F key[kVectors];
      for (int v = 0; v < kVectors; ++v) key[v] = V::keep(V::load(keys + int64_t{d} * kAttentionPage + v * kLanes));
      for (int i = 0; i < kQueries; ++i) {
        const F q = V::set(queries[i][d]);
        for (int v = 0; v < kVectors; ++v) sums[i][v] = V::fma(q, key[v], sums[i][v]);
      }
    }
    for (int i = 0; i < kQueries; ++i) {
      for (int v = 0; v < kVectors; ++v) V::store(scores + i * kScoreStride + v * kLanes, sums[i][v]);
    }
  }

  static void scores(const float* keys, int32_t key_dim, const float* const* queries, int32_t n, float* scores) {
    Tiles::in_tiles(n, [&]<int kQueries>(int32_t i) {
      constexpr int kVectors = kQueries > 2 || kPageVectors < 4 ? kTileVectors : 4;
      for (int v = 0; v < kPageVectors; v += kVectors) {
        scores_of<kQueries, kVectors>(keys + v * kLanes, key_dim, queries + i, scores + i * kScoreStride + v * kLanes);
      }
    });
  }

  // A function of its own, so that the compiler keeps its few pointers in registers.
  template <int kQueries, int kVectors>
  [[gnu::noinline]] static void add_block(const float* values, int32_t stride, int32_t value_dim, const float* weights,
                                          int32_t lo, int32_t hi, float* sums) {
    F acc[kQueries][kVectors];
    for (int i = 0; i < kQueries; ++i) {
      for (int v = 0; v < kVectors; ++v) acc[i][v] = V::load(sums + i * value_dim + v * kLanes);
    }
    for (int32_t t = lo; t < hi; ++t) {
      const float* row = values + int64_t{t} * stride;
      F value[kVectors];
      for (int v = 0; v < kVectors; ++v) value[v] = V::keep(V::load(row + v * kLanes));
      for (int i = 0; i < kQueries; ++i) {
        const F weight = V::set(weights[i * kScoreStride + t]);
        for (int v = 0; v < kVectors; ++v) acc[i][v] = V::fma(weight, value[v], acc[i][v]);
      }
    }
    for (int i = 0; i < kQueries; ++i) {
      for (int v = 0; v < kVectors; ++v) V::store(sums + i * value_dim + v * kLanes, acc[i][v]);
    }
  }

  // Adds the last value_dim % kLanes elements for one query.
  static void add_rest(const float* values, int32_t stride, const float* weights, int32_t lo, int32_t hi, int32_t n,
                       float* sums) {
    F acc = V::load_some(sums, n);
    for (int32_t t = lo; t < hi; ++t) {
      acc = V::fma(V::set(weights[t]), V::load_some(values + int64_t{t} * stride, n), acc);
    }
    V::store_some(sums, acc, n);
  }

  template <int kQueries>
  static void add_values_of(const float* values, int32_t stride, int32_t value_dim, const float* weights, int32_t lo,
                            int32_t hi, float* sums) {
    constexpr int kVectors = kQueries > 4 ? kTileVectors : 8 / kQueries;
    int32_t d = 0;
    for (; d + kVectors * kLanes <= value_dim; d += kVectors * kLanes) {
      add_block<kQueries, kVectors>(values + d, stride, value_dim, weights, lo, hi, sums + d);
    }
    for (; d + kLanes <= value_dim; d += kLanes) {
      add_block<kQueries, 1>(values + d, stride, value_dim, weights, lo, hi, sums + d);
    }
    if (d == value_dim) return;
    for (int i = 0; i < kQueries; ++i) {
      add_rest(values + d, stride, weights + i * kScoreStride, lo, hi, value_dim - d, sums + i * value_dim + d);
    }
  }

  static void add_values(const float* values, int32_t stride, int32_t value_dim, const float* weights, int32_t lo,
                         int32_t hi, int32_t n, float* sums) {
    Tiles::in_tiles(n, [&]<int kQueries>(int32_t i) {
      add_values_of<kQueries>(values, stride, value_dim, weights + i * kScoreStride, lo, hi, sums + i * value_dim);
    });
  }
};

template <class V>
constexpr AttentionKernels make_attention_kernels(const Int16Attention* int16) {
  using Ops = AttentionOps<V>;
  using Decoder = PageDecoder<V>;
  using Rows = RowDecoder<V>;
  using Softmax = AttentionSoftmax<V>;
  return {
      .decode_half = Decoder::template decode_16_bits<V::load>,
      .decode_bf16 = Decoder::template decode_16_bits<V::load_uppers>,
      .decode_q8_0_keys = Decoder::decode_q8_0_keys,
      .decode_q8_0_values = Decoder::decode_q8_0_values,
      .decode_half_row = Rows::template decode_16_bit_row<V::load>,
      .decode_bf16_row = Rows::template decode_16_bit_row<V::load_uppers>,
      .decode_q8_0_row = Rows::decode_q8_0_row,
      .scores = Ops::scores,
      .exponentials = Softmax::exponentials,
      .add_values = Ops::add_values,
      .relu_dot = Rows::relu_dot,
      .merge = Softmax::merge,
      .finish = Softmax::finish,
      .int16 = int16,
  };
}

}  // namespace
}  // namespace cairn::kernels::cpu
