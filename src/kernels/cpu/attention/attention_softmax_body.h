/// Softmax of attention in parts that are merged, written once over an ISA's `Vector`.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/vector_math.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct AttentionSoftmax {
  using F = typename V::F;
  using I = typename V::I;
  using Math = VectorMath<V>;
  static constexpr int32_t kLanes = V::kLanes;
  // Vectors whose exponentials are computed together, each with a sum of its own: additions to a single sum would wait
  // for each other.
  static constexpr int kAtOnce = 4;

  // Calls part<N>(t, whole) for N vectors from position t on until all of [lo, hi) are covered, starting at the vector
  // that holds lo; `whole` is false for a vector that also has other positions.
  template <class Part>
  [[gnu::always_inline]] static void in_vectors(int32_t lo, int32_t hi, const Part& part) {
    int32_t t = lo / kLanes * kLanes;
    if (t < lo) {
      part.template operator()<1>(t, false);
      t += kLanes;
    }
    for (; t + kAtOnce * kLanes <= hi; t += kAtOnce * kLanes) part.template operator()<kAtOnce>(t, true);
    for (; t + kLanes <= hi; t += kLanes) part.template operator()<1>(t, true);
    if (t < hi) part.template operator()<1>(t, false);
  }

  template <class Join>
  static float joined(const F (&lanes)[kAtOnce], const Join& join) {
    return Math::joined_lanes(join(join(lanes[0], lanes[1]), join(lanes[2], lanes[3])), join);
  }

  static void exponentials(float* scores, int32_t lo, int32_t hi, float scale, float cap, float* largest, float* sum) {
    const I numbers = V::lane_numbers();
    const auto inside = [&](F value, int32_t t, float outside) {
      return Math::select((numbers >= lo - t) & (numbers < hi - t), value, V::set(outside));
    };
    if (cap > 0) {
      for (int32_t t = lo / kLanes * kLanes; t < hi; t += kLanes) {
        V::store(scores + t, Math::tanh(V::load(scores + t) * (scale / cap)) * cap);
      }
      scale = 1;
    }
    constexpr float kNothing = -__builtin_inff();
    F most[kAtOnce];
    for (F& lanes : most) lanes = V::set(kNothing);
    in_vectors(lo, hi, [&]<int N>(int32_t t, bool whole) {
      for (int i = 0; i < N; ++i) {
        const F score = V::load(scores + t + i * kLanes);
        most[i] = Math::larger(whole ? score : inside(score, t, kNothing), most[i]);
      }
    });
    const float factor = scale * kLog2OfE;
    const float top = joined(most, Math::larger) * factor;
    F total[kAtOnce] = {};
    in_vectors(lo, hi, [&]<int N>(int32_t t, bool whole) {
      F e[N];
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) e[i] = V::fma(V::load(scores + t + i * kLanes), V::set(factor), V::set(-top));
      Math::template exp2_of_negative<N>(e);
      if (!whole) e[0] = inside(e[0], t, 0);
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) {
        V::store(scores + t + i * kLanes, e[i]);
        total[i] = total[i] + e[i];
      }
    });
    *largest = top;
    *sum = joined(total, [](F a, F b) { return a + b; });
  }

  // out = a * x + b * y, [n].
  static void blend(F a, const float* x, F b, const float* y, int32_t n, float* out) {
    int32_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::store(out + i, V::fma(a, V::load(x + i), b * V::load(y + i)));
    if (i < n) V::store_some(out + i, V::fma(a, V::load_some(x + i, n - i), b * V::load_some(y + i, n - i)), n - i);
  }

  // 2^x for x <= 0; 0 below the range of exp2_of_negative.
  static F power(float x) { return Math::select(V::set(x) < -124.0f, V::set(0), Math::exp2_of_negative(V::set(x))); }

  static void merge(float* largest, float* sum, float* values, float other_largest, float other_sum,
                    const float* other_values, int32_t value_dim) {
    const float most = other_largest > *largest ? other_largest : *largest;
    const F here = power(*largest - most);
    const F there = power(other_largest - most);
    blend(here, values, there, other_values, value_dim, values);
    *sum = here[0] * *sum + there[0] * other_sum;
    *largest = most;
  }

  static void finish(float largest, float sum, const float* values, float sink, int32_t value_dim, float* out) {
    // Relative to the larger of the two, as one of the exponentials could otherwise be infinite.
    sink *= kLog2OfE;
    const float most = sink > largest ? sink : largest;
    const F here = power(largest - most);
    const F there = power(sink - most);
    const F factor = here / (here * sum + there);
    int32_t i = 0;
    for (; i + kLanes <= value_dim; i += kLanes) V::store(out + i, V::load(values + i) * factor);
    if (i < value_dim) V::store_some(out + i, V::load_some(values + i, value_dim - i) * factor, value_dim - i);
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
