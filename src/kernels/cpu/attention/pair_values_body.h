/// Weighted sums of values that lie in pairs (PairAttention), structured as pair_scores_body.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_tiles.h"
#include "kernels/cpu/attention/int16_rows_body.h"
#include "kernels/cpu/attention/pair_pages.h"
#include "kernels/cpu/vector_math.h"

namespace cairn::kernels::cpu {
namespace {

template <class V, class Pages>
struct PairValues : PairVectors<V> {
  using F = typename V::F;
  using I = typename V::I;
  using Vectors = PairVectors<V>;
  using Tiles = AttentionTiles<V>;
  using Math = VectorMath<V>;
  using Rows = Int16Rows<V>;
  using Vectors::ask_for, Vectors::broadcast, Vectors::to_float;
  using Vectors::kLanes, Vectors::kPagePairs, Vectors::kPageVectors;

  // Multiplies a segment's weights[t] by the values' scales of a piece and rounds them to int16 with one common scale,
  // for t in `seen`, with zeros elsewhere, as pairs of tokens. Returns that scale. `at`: offset of the piece in a page.
  static float pair_weights(const float* weights, const std::byte* const* values, int64_t at, int32_t value_dim,
                            TokenRange seen, int32_t page_begin, int32_t page_end, float* out) {
    const I numbers = V::lane_numbers();
    // One for each vector, as operations on a single one would wait for each other.
    F sums[kPageVectors] = {}, most[kPageVectors] = {};
    for (int32_t page = page_begin; page < page_end; ++page) {
#pragma GCC unroll 4
      for (int v = 0; v < kPageVectors; ++v) {
        const int32_t t = page * kAttentionPage + v * kLanes;
        F weight = V::load(weights + t) * Pages::value_scales(values[page] + at, value_dim, v * kLanes);
        if (t < seen.lo || t + kLanes > seen.hi) {
          weight = Math::select((numbers >= seen.lo - t) & (numbers < seen.hi - t), weight, V::set(0));
        }
        V::store(out + t, weight);
        sums[v] = sums[v] + weight;
        most[v] = Math::larger(weight, most[v]);
      }
    }
    for (int v = 1; v < kPageVectors; ++v) {
      sums[0] = sums[0] + sums[v];
      most[0] = Math::larger(most[0], most[v]);
    }
    const F of_sum = V::set(Math::joined_lanes(sums[0], [](F a, F b) { return a + b; }) * (1 / Pages::kWeightSum));
    const F of_most = V::set(Math::joined_lanes(most[0], Math::larger) * (1 / kInt16Weight));
    const F scale = Math::larger(of_most, of_sum);  // a NaN in the sum is kept
    const F factor = Rows::inverse(scale);
    auto* pairs = reinterpret_cast<int32_t*>(out);
    for (int32_t page = page_begin; page < page_end; ++page) {
      for (int32_t i = 0; i < kPagePairs; i += kLanes) {
        const float* low = out + page * kAttentionPage + i;
        const I first = Rows::rounded(V::load(low), factor);
        Rows::store(pairs + page * kPagePairs + i, Rows::pair(first, Rows::rounded(V::load(low + kPagePairs), factor)));
      }
    }
    return scale[0];
  }

  // Sums the first n numbers from an offset on in each page: as many as the vectors have, or fewer with one vector. A
  // function of its own, so that the compiler keeps its few pointers in registers.
  template <int kQueries, int kVectors>
  [[gnu::noinline]] static void sum_block(const std::byte* const* values, int64_t at, int64_t stride, int32_t n,
                                          const float* weights, const float* scales, int32_t page_begin,
                                          int32_t page_end, int32_t sums_stride, float* sums) {
    constexpr int kBytes = kLanes * Pages::kPairBytes;
    I acc[kQueries][kVectors];
    Vectors::template for_each_sum<kQueries, kVectors>([&](int q, int v) { acc[q][v] = broadcast(0); });
    for (int32_t page = page_begin; page < page_end; ++page) {
      const std::byte* row = values[page] + at;
      const std::byte* next = values[page + kPagesAhead] + at;
      const float* pairs = weights + page * kPagePairs;
      for (int32_t t = 0; t < kPagePairs; ++t, row += stride, next += stride) {
        I value[kVectors];
        for (int v = 0; v < kVectors; ++v) {
          value[v] = kVectors == 1 ? Pages::some_pairs(row, n) : Pages::pairs(row + v * kBytes);
        }
        ask_for(next, kVectors * kBytes);
        for (int q = 0; q < kQueries; ++q) {
          const I weight = (I)V::set(pairs[q * kScoreStride + t]);
          for (int v = 0; v < kVectors; ++v) acc[q][v] = V::add_pair_products(weight, value[v], acc[q][v]);
        }
      }
    }
    Vectors::template for_each_sum<kQueries, kVectors>([&](int q, int v) {
      const F sum = to_float(acc[q][v]) * scales[q];
      float* to = sums + q * sums_stride + v * kLanes;
      if (kVectors == 1 && n < kLanes) {
        V::store_some(to, sum, n);
      } else {
        V::store(to, sum);
      }
    });
  }

  template <int kQueries>
  static void sum_piece(const std::byte* const* values, int32_t value_dim, int32_t piece, const float* pairs,
                        const float* scales, int32_t page_begin, int32_t page_end, float* sums) {
    constexpr int kMost = kQueries > 4 || V::kRegisters == 16 ? Tiles::kTileVectors : 4;
    constexpr int kVectors = kMost * kLanes > Pages::kDimsTogether ? Pages::kDimsTogether / kLanes : kMost;
    const int32_t dims = Pages::piece_dims(value_dim), begin = piece * dims;
    const int32_t end = begin + dims < value_dim ? begin + dims : value_dim;
    int32_t d = begin;
    const auto block = [&]<int kAtOnce>() {
      const int64_t at = piece * Pages::kPieceBytes + (d - begin) * Pages::kPairBytes;
      sum_block<kQueries, kAtOnce>(values, at, int64_t{dims} * Pages::kPairBytes, end - d, pairs, scales, page_begin,
                                   page_end, value_dim, sums + d);
    };
    for (; d + kVectors * kLanes <= end; d += kVectors * kLanes) block.template operator()<kVectors>();
    for (; d < end; d += kLanes) block.template operator()<1>();
  }

  static void sum_values(const std::byte* const* values, int32_t value_dim, float* weights, const TokenRange* seen,
                         int32_t page_begin, int32_t page_end, int32_t n, float* sums) {
    Tiles::in_tiles(n, [&]<int kQueries>(int32_t q) {
      float* own = weights + q * kScoreStride;
      // If there is only one piece, the pairs overwrite the weights that they are made of.
      alignas(64) float memory[Pages::kPieceBytes == 0 ? 1 : kQueries * kScoreStride];
      float* pairs = Pages::kPieceBytes == 0 ? own : memory;
      float scales[kQueries];
      for (int32_t piece = 0; piece < Pages::pieces(value_dim); ++piece) {
        const int64_t at = piece * Pages::kPieceBytes;
        for (int i = 0; i < kQueries; ++i) {
          scales[i] = pair_weights(own + i * kScoreStride, values, at, value_dim, seen[q + i], page_begin, page_end,
                                   pairs + i * kScoreStride);
        }
        sum_piece<kQueries>(values, value_dim, piece, pairs, scales, page_begin, page_end, sums + q * value_dim);
      }
    });
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
