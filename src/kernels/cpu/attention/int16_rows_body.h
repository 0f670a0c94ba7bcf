/// Rows of keys, queries and values as int16 (Int16Attention), written once over an ISA's `Vector`.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/vector_math.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct Int16Rows {
  using F = typename V::F;
  using I = typename V::I;
  using Math = VectorMath<V>;
  static constexpr int32_t kLanes = V::kLanes;

  // x * factor rounded to an integer, by adding 1.5 * 2^23, which puts the integer into the low bits of the sum.
  static I rounded(F x, F factor) { return (I)V::fma(x, factor, V::set(12582912.0f)); }
  static I pair(I low, I high) { return (low & 0xffff) | high << 16; }
  static void store(int32_t* to, I x) { V::store(reinterpret_cast<float*>(to), (F)x); }

  // 1 / scale; 0 for a scale of 0 or NaN, since multiplying by the scale later makes the product 0 or NaN again.
  static F inverse(F scale) { return Math::select(scale > 1e-30f, 1.0f / scale, V::set(0)); }

  static F load_up_to(const float* from, int32_t n) { return n < kLanes ? V::load_some(from, n) : V::load(from); }

  static void round(const float* x, int32_t n, float scale, int16_t* out) {
    const F factor = inverse(V::set(scale));
    for (int32_t i = 0; i < n; i += kLanes) {
      int32_t some[V::kLanes];
      store(some, rounded(load_up_to(x + i, n - i), factor));
      for (int32_t k = 0; k < kLanes && i + k < n; ++k) out[i + k] = static_cast<int16_t>(some[k] & 0xffff);
    }
  }

  static F norm_scale(const float* x, int32_t dim) {
    F squares = V::set(0);
    for (int32_t i = 0; i < dim; i += kLanes) {
      const F some = load_up_to(x + i, dim - i);
      squares = V::fma(some, some, squares);
    }
    return V::sqrt(V::set(Math::joined_lanes(squares, [](F a, F b) { return a + b; }))) * (1 / kInt16Norm);
  }

  static float key_scale(const float* x, int32_t dim) { return norm_scale(x, dim)[0]; }

  // Magnitudes compare as integers; NaN is larger than all numbers.
  static I larger(I a, I b) { return a > b ? a : b; }

  static float value_scale(const float* x, int32_t dim) {
    I most = {};
    for (int32_t i = 0; i < dim; i += kLanes) most = larger((I)load_up_to(x + i, dim - i) & 0x7fffffff, most);
    return Math::joined_lanes((F)most, [](F a, F b) { return (F)larger((I)a, (I)b); }) * (1 / kInt16Value);
  }

  // Writes pairs in the order of this kind of pages (pair_pages.h).
  template <class Pages>
  static void pair_queries(const float* const* queries, int32_t n, int32_t key_dim, int32_t* out, float* scales) {
    const int32_t dims = Pages::piece_dims(key_dim), half = key_pairs(dims);
    for (int32_t q = 0; q < n; ++q) {
      const F scale = norm_scale(queries[q], key_dim);
      const F factor = inverse(scale);
      scales[q] = scale[0];
      // In a piece, the first numbers of the pairs are x[i], the second ones x[half + i].
      for (int32_t begin = 0; begin < key_dim; begin += dims) {
        const float* x = queries[q] + begin;
        const int32_t there = key_dim - begin < dims ? key_dim - begin : dims;
        const int32_t lows = there < half ? there : half, highs = there - half;
        for (int32_t i = 0; i < query_pairs(dims); i += kLanes) {
          const I low = i < lows ? rounded(load_up_to(x + i, lows - i), factor) : I{};
          const I high = i < highs ? rounded(load_up_to(x + half + i, highs - i), factor) : I{};
          store(out + i, pair(low, high));
        }
        out += query_pairs(dims);
      }
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
