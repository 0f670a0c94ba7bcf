/// Row operations over a whole row or over several, written once over an ISA's `Vector`: see row_ops.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/vector_math.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct RowMap {
  using F = typename V::F;
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
};

template <class V>
struct RowReductions : RowMap<V> {
  using F = typename V::F;
  using Math = VectorMath<V>;
  using RowMap<V>::kLanes;
  using RowMap<V>::map;

  static void rms_norm(const float* x, const float* weight, float epsilon, int64_t cols, float* out) {
    // Four accumulators hide the latency of the additions.
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

  // The sum of f(x) over a row; the last elements (fewer than a vector) are added one by one.
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

  static void steer(float* x, const float* direction, int64_t n, float scale) {
    F sums[2] = {V::set(0), V::set(0)};
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      for (int k = 0; k < 2; ++k) {
        sums[k] = V::fma(V::load(x + i + k * kLanes), V::load(direction + i + k * kLanes), sums[k]);
      }
    }
    double dot = Math::sum_of_lanes(sums[0] + sums[1]);
    for (; i < n; ++i) dot += static_cast<double>(x[i]) * static_cast<double>(direction[i]);
    const F factor = V::set(static_cast<float>(-static_cast<double>(scale) * dot));
    map(x, direction, n, x, [factor](F a, F b) { return V::fma(factor, b, a); });
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

  static void softmax_pool(const float* const* values, const float* const* scores, const float* const* biases,
                           int32_t count, int64_t n, float* out) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const int64_t some = n - i;
      const auto at = [&](const float* row) { return some >= kLanes ? V::load(row + i) : V::load_some(row + i, some); };
      F largest = at(scores[0]) + at(biases[0]);
      for (int32_t j = 1; j < count; ++j) largest = Math::larger(at(scores[j]) + at(biases[j]), largest);
      F sum = V::set(0), total = V::set(0);
      for (int32_t j = 0; j < count; ++j) {
        const F weight = Math::exp(at(scores[j]) + at(biases[j]) - largest);
        total = total + weight;
        sum = V::fma(weight, at(values[j]), sum);
      }
      const F mean = sum / total;
      if (some >= kLanes) {
        V::store(out + i, mean);
      } else {
        V::store_some(out + i, mean, some);
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
};

}  // namespace
}  // namespace cairn::kernels::cpu
