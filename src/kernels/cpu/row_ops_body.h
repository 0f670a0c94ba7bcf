/// The row operations, written once over an ISA's `Vector`; <isa>/row_ops.cpp makes its table of them.
#pragma once

#include <cstdint>

#include "kernels/cpu/kv_rounding_body.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/vector_math.h"

namespace cairn::cpu {
namespace {

template <class V>
struct RowOps {
  using F = typename V::F;
  using I = typename V::I;
  using Math = VectorMath<V>;
  static constexpr int64_t kLanes = V::kLanes;

  // out[i] = f(a[i]), and out[i] = f(a[i], b[i]).
  template <class Function>
  static void map(const float* a, int64_t n, float* out, Function f) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::store(out + i, f(V::load(a + i)));
    if (i < n) V::store_some(out + i, f(V::load_some(a + i, n - i)), n - i);
  }
  template <class Function>
  static void map(const float* a, const float* b, int64_t n, float* out, Function f) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::store(out + i, f(V::load(a + i), V::load(b + i)));
    if (i < n) V::store_some(out + i, f(V::load_some(a + i, n - i), V::load_some(b + i, n - i)), n - i);
  }

  static void rms_norm(const float* x, const float* weight, float epsilon, int64_t cols, float* out) {
    // Four sums hide the latency of the additions.
    F sums[4] = {V::set(0), V::set(0), V::set(0), V::set(0)};
    int64_t i = 0;
    for (; i + 4 * kLanes <= cols; i += 4 * kLanes) {
      for (int k = 0; k < 4; ++k) {
        const F value = V::load(x + i + k * kLanes);
        sums[k] = V::fma(value, value, sums[k]);
      }
    }
    for (; i < cols; i += kLanes) {
      const F value = i + kLanes <= cols ? V::load(x + i) : V::load_some(x + i, cols - i);
      sums[0] = V::fma(value, value, sums[0]);
    }
    const double sum = Math::sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
    const double mean = sum / static_cast<double>(cols);
    const F factor = V::set(static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(epsilon))));
    if (weight == nullptr) {
      map(x, cols, out, [factor](F value) { return value * factor; });
    } else {
      map(x, weight, cols, out, [factor](F value, F w) { return value * factor * w; });
    }
  }

  // The sum over a row of f(x), of which the last elements (fewer than a vector) are added one by one.
  template <class Function, class Scalar>
  static double sum_of(const float* x, int64_t cols, Function f, Scalar of_one) {
    F sums[4] = {V::set(0), V::set(0), V::set(0), V::set(0)};
    int64_t i = 0;
    for (; i + 4 * kLanes <= cols; i += 4 * kLanes) {
      for (int k = 0; k < 4; ++k) sums[k] = sums[k] + f(V::load(x + i + k * kLanes));
    }
    for (; i + kLanes <= cols; i += kLanes) sums[0] = sums[0] + f(V::load(x + i));
    double sum = Math::sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < cols; ++i) sum += of_one(x[i]);
    return sum;
  }

  static void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int64_t cols,
                         float* out) {
    const auto count = static_cast<double>(cols);
    const auto mean = static_cast<float>(
        sum_of(x, cols, [](F value) { return value; }, [](float value) { return static_cast<double>(value); }) / count);
    const F centre = V::set(mean);
    const double squares = sum_of(
        x, cols, [centre](F value) { return (value - centre) * (value - centre); },
        [mean](float value) { return static_cast<double>((value - mean) * (value - mean)); });
    const F factor = V::set(static_cast<float>(1.0 / __builtin_sqrt(squares / count + static_cast<double>(epsilon))));
    map(x, weight, cols, out, [centre, factor](F value, F w) { return (value - centre) * factor * w; });
    if (bias != nullptr) map(out, bias, cols, out, [](F value, F b) { return value + b; });
  }

  template <F (*kActivation)(F)>
  static void gate(const float* gate, const float* up, int64_t n, float* out) {
    if (up == nullptr) return map(gate, n, out, kActivation);
    map(gate, up, n, out, [](F g, F u) { return kActivation(g) * u; });
  }

  static void add(float* x, const float* y, int64_t n, float scale) {
    const F factor = V::set(scale);
    map(x, y, n, x, [factor](F a, F b) { return V::fma(factor, b, a); });
  }

  static void scale(float* x, int64_t n, float factor) {
    map(x, n, x, [factor](F value) { return value * factor; });
  }

  static void sigmoid_scale(float* x, int64_t n, float gate) {
    const F factor = Math::sigmoid(V::set(gate));
    map(x, n, x, [factor](F value) { return value * factor; });
  }

  static void scale_and_cap(float* x, int64_t n, float scale, float cap) {
    if (cap > 0) {
      map(x, n, x, [scale, cap](F value) { return Math::tanh(value * scale / cap) * cap; });
    } else {
      map(x, n, x, [scale](F value) { return value * scale; });
    }
  }

  static void weighted_sum(const float* y, const float* weights, int32_t used, int64_t cols, float* out) {
    for (int64_t i = 0; i < cols; i += kLanes) {
      const int64_t n = cols - i;
      F sum = V::set(0);
      for (int32_t j = 0; j < used; ++j) {
        const float* from = y + j * cols + i;
        sum = V::fma(V::set(weights[j]), n >= kLanes ? V::load(from) : V::load_some(from, n), sum);
      }
      if (n >= kLanes) {
        V::store(out + i, sum);
      } else {
        V::store_some(out + i, sum, n);
      }
    }
  }

  static void softmax(const float* x, int64_t n, float* out) {
    float largest = x[0];
    for (int64_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    map(x, n, out, [largest](F value) { return Math::exp(value - largest); });
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += out[i];
    const auto total = static_cast<float>(sum);
    map(out, n, out, [total](F value) { return value / total; });
  }

  static void rope_adjacent(const float* table, int32_t dims, float* x, int32_t heads, int32_t head_dim) {
    for (int32_t h = 0; h < heads; ++h) {
      float* head = x + static_cast<int64_t>(h) * head_dim;
      for (int32_t i = 0; i + 1 < dims; i += 2) {
        const float a = head[i], b = head[i + 1], c = table[i], s = table[i + 1];
        head[i] = a * c - b * s;
        head[i + 1] = a * s + b * c;
      }
    }
  }

  static void rope_halves(const float* table, int32_t dims, float* x, int32_t heads, int32_t head_dim) {
    const int32_t half = dims / 2;
    for (int32_t h = 0; h < heads; ++h) {
      float* head = x + static_cast<int64_t>(h) * head_dim;
      for (int32_t i = 0; i < half; ++i) {
        const float a = head[i], b = head[half + i], c = table[2 * i], s = table[2 * i + 1];
        head[i] = a * c - b * s;
        head[half + i] = a * s + b * c;
      }
    }
  }
};

template <class V>
constexpr RowKernels make_row_kernels() {
  using Ops = RowOps<V>;
  using Math = VectorMath<V>;
  using Rounding = KvRounding<V>;
  return {
      .rms_norm = Ops::rms_norm,
      .layer_norm = Ops::layer_norm,
      .gate = {Ops::template gate<Math::silu>, Ops::template gate<Math::gelu_tanh>, Ops::template gate<Math::gelu_erf>,
               Ops::template gate<Math::relu>, Ops::template gate<Math::relu_squared>},
      .add = Ops::add,
      .scale = Ops::scale,
      .sigmoid_scale = Ops::sigmoid_scale,
      .scale_and_cap = Ops::scale_and_cap,
      .weighted_sum = Ops::weighted_sum,
      .softmax = Ops::softmax,
      .rope_adjacent = Ops::rope_adjacent,
      .rope_halves = Ops::rope_halves,
      .to_half = Rounding::to_half,
      .to_q8_0 = Rounding::to_q8_0,
  };
}

}  // namespace
}  // namespace cairn::cpu
