/// Attention by products of int16 pairs (Int16Attention), written once over an ISA's `Vector` that has
/// add_pair_products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/int16_rows_body.h"
#include "kernels/cpu/vector_math.h"

namespace cairn::cpu {
namespace {

template <class V>
struct Int16Ops {
  using F = typename V::F;
  using I = typename V::I;
  using Math = VectorMath<V>;
  using Rows = Int16Rows<V>;
  using Tiles = AttentionTiles<V>;
  static constexpr int32_t kLanes = V::kLanes;
  static constexpr int kPageVectors = kAttentionPage / kLanes;
  static constexpr int32_t kPagePairs = kAttentionPage / 2;

  static F to_float(I x) { return __builtin_convertvector(x, F); }
  static I load(const int32_t* from) { return (I)V::keep(V::load(reinterpret_cast<const float*>(from))); }
  static I broadcast(int32_t x) { return x - I{}; }

  // Unrolled before the compiler chooses what stays in registers.
  template <int kQueries, int kVectors, class Function>
  [[gnu::always_inline]] static void for_each_sum(const Function& function) {
#pragma GCC unroll 12
    for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) function(q, v);
    }
  }

  template <int kQueries, int kVectors>
  static void scores_of(const std::byte* keys, int32_t key_dim, int v0, const int32_t* queries,
                        const float* query_scales, const std::byte* next, float* scores) {
    const int32_t* pairs = reinterpret_cast<const int32_t*>(keys) + v0 * kLanes;
    next += v0 * kLanes * 4;
    I sums[kQueries][kVectors];
    for_each_sum<kQueries, kVectors>([&](int q, int v) { sums[q][v] = broadcast(0); });
    for (int32_t i = 0; i < key_pairs(key_dim); ++i) {
      I key[kVectors];
      for (int v = 0; v < kVectors; ++v) key[v] = load(pairs + int64_t{i} * kAttentionPage + v * kLanes);
      for (int line = 0; line < kVectors * kLanes; line += 16) {
        __builtin_prefetch(next + (int64_t{i} * kAttentionPage + line) * 4, 0, 2);
      }
      for (int q = 0; q < kQueries; ++q) {
        const I query = broadcast(queries[q * query_pairs(key_dim) + i]);
        for (int v = 0; v < kVectors; ++v) sums[q][v] = V::add_pair_products(query, key[v], sums[q][v]);
      }
    }
    const float* scales = reinterpret_cast<const float*>(keys + key_scales_at(key_dim)) + v0 * kLanes;
    for (int line = 0; line < kVectors * kLanes; line += 16) {
      __builtin_prefetch(next + key_scales_at(key_dim) + int64_t{line} * 4, 0, 2);
    }
    F key_scales[kVectors];
    for (int v = 0; v < kVectors; ++v) key_scales[v] = V::keep(V::load(scales + v * kLanes));
    for_each_sum<kQueries, kVectors>([&](int q, int v) {
      V::store(scores + q * kScoreStride + (v0 + v) * kLanes, to_float(sums[q][v]) * (key_scales[v] * query_scales[q]));
    });
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

  static float pair_weights(float* weights, const std::byte* const* values, int32_t value_dim, int32_t lo, int32_t hi,
                            int32_t page_begin, int32_t page_end) {
    const I numbers = V::lane_numbers();
    F sums[kPageVectors] = {}, most[kPageVectors] = {};  // one of each would be waited for
    for (int32_t page = page_begin; page < page_end; ++page) {
      const auto* scales = reinterpret_cast<const float*>(values[page] + value_scales_at(value_dim));
#pragma GCC unroll 4
      for (int v = 0; v < kPageVectors; ++v) {
        const int32_t t = page * kAttentionPage + v * kLanes;
        F weight = V::load(weights + t) * V::load(scales + v * kLanes);
        if (t < lo || t + kLanes > hi) {
          weight = Math::select((numbers >= lo - t) & (numbers < hi - t), weight, V::set(0));
        }
        V::store(weights + t, weight);
        sums[v] = sums[v] + weight;
        most[v] = Math::larger(weight, most[v]);
      }
    }
    for (int v = 1; v < kPageVectors; ++v) {
      sums[0] = sums[0] + sums[v];
      most[0] = Math::larger(most[0], most[v]);
    }
    const F of_sum = V::set(Math::joined_lanes(sums[0], [](F a, F b) { return a + b; }) * (1 / kInt16WeightSum));
    const F of_most = V::set(Math::joined_lanes(most[0], Math::larger) * (1 / kInt16Weight));
    const F scale = Math::larger(of_most, of_sum);  // a NaN in the sum stays
    const F factor = Rows::inverse(scale);
    auto* pairs = reinterpret_cast<int32_t*>(weights);
    for (int32_t page = page_begin; page < page_end; ++page) {
      for (int32_t i = 0; i < kPagePairs; i += kLanes) {
        const float* low = weights + page * kAttentionPage + i;
        const I first = Rows::rounded(V::load(low), factor);
        Rows::store(pairs + page * kPagePairs + i, Rows::pair(first, Rows::rounded(V::load(low + kPagePairs), factor)));
      }
    }
    return scale[0];
  }

  // A function of its own, so that the compiler keeps its few pointers in registers. A row's last elements, fewer than
  // a vector, stand alone.
  template <int kQueries, int kVectors>
  [[gnu::noinline]] static void sum_block(const std::byte* const* values, int32_t value_dim, int32_t d,
                                          const float* weights, const float* scales, int32_t page_begin,
                                          int32_t page_end, float* sums) {
    const int32_t n = value_dim - d;
    I acc[kQueries][kVectors];
    for_each_sum<kQueries, kVectors>([&](int q, int v) { acc[q][v] = broadcast(0); });
    for (int32_t page = page_begin; page < page_end; ++page) {
      const int32_t* row = reinterpret_cast<const int32_t*>(values[page]) + d;
      const int32_t* next = reinterpret_cast<const int32_t*>(values[page + kPagesAhead]) + d;
      const float* pairs = weights + page * kPagePairs;
      for (int32_t t = 0; t < kPagePairs; ++t, row += value_dim, next += value_dim) {
        I value[kVectors];
        for (int v = 0; v < kVectors; ++v) {
          value[v] =
              kVectors == 1 ? (I)Rows::load_up_to(reinterpret_cast<const float*>(row), n) : load(row + v * kLanes);
        }
        for (int line = 0; line < kVectors * kLanes; line += 16) __builtin_prefetch(next + line, 0, 2);
        for (int q = 0; q < kQueries; ++q) {
          const I weight = (I)V::set(pairs[q * kScoreStride + t]);
          for (int v = 0; v < kVectors; ++v) acc[q][v] = V::add_pair_products(weight, value[v], acc[q][v]);
        }
      }
    }
    for_each_sum<kQueries, kVectors>([&](int q, int v) {
      const F sum = to_float(acc[q][v]) * scales[q];
      float* to = sums + q * value_dim + d + v * kLanes;
      if (kVectors == 1 && n < kLanes) {
        V::store_some(to, sum, n);
      } else {
        V::store(to, sum);
      }
    });
  }

  static void sum_values(const std::byte* const* values, int32_t value_dim, const float* weights, const float* scales,
                         int32_t page_begin, int32_t page_end, int32_t n, float* sums) {
    Tiles::in_tiles(n, [&]<int kQueries>(int32_t q) {
      constexpr int kVectors = kQueries > 4 || V::kRegisters == 16 ? Tiles::kTileVectors : 4;
      const auto block = [&]<int kAtOnce>(int32_t d) {
        sum_block<kQueries, kAtOnce>(values, value_dim, d, weights + q * kScoreStride, scales + q, page_begin, page_end,
                                     sums + q * value_dim);
      };
      int32_t d = 0;
      for (; d + kVectors * kLanes <= value_dim; d += kVectors * kLanes) block.template operator()<kVectors>(d);
      for (; d < value_dim; d += kLanes) block.template operator()<1>(d);
    });
  }
};

template <class V>
constexpr Int16Attention make_int16_attention() {
  using Ops = Int16Ops<V>;
  using Rows = Int16Rows<V>;
  return {
      .key_scale = Rows::key_scale,
      .value_scale = Rows::value_scale,
      .round = Rows::round,
      .pair_queries = Rows::pair_queries,
      .scores = Ops::scores,
      .pair_weights = Ops::pair_weights,
      .sum_values = Ops::sum_values,
  };
}

}  // namespace
}  // namespace cairn::cpu
