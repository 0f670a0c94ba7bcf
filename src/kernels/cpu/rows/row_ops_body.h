/// The row operations, written once over an ISA's `Vector`; <isa>/row_ops.cpp makes its table of them.
#pragma once

#include <cstdint>

#include "kernels/cpu/rows/kv_rounding_body.h"
#include "kernels/cpu/rows/row_ops.h"
#include "kernels/cpu/rows/row_reductions_body.h"
#include "kernels/cpu/vector_math.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct RowOps : RowMap<V> {
  using F = typename V::F;
  using I = typename V::I;
  using Math = VectorMath<V>;
  using RowMap<V>::kLanes;
  using RowMap<V>::map;

  template <F (*kActivation)(F)>
  static void gate(const float* gate, const float* up, int64_t n, float* out) {
    if (up == nullptr) return map(gate, n, out, kActivation);
    map(gate, up, n, out, [](F g, F u) { return kActivation(g) * u; });
  }

  static void gate_clamped_swiglu(const float* gate, const float* up, int64_t n, float* out) {
    if (up == nullptr) return map(gate, n, out, [](F g) { return Math::clamped_swiglu(g, V::set(1)); });
    map(gate, up, n, out, [](F g, F u) { return Math::clamped_swiglu(g, u); });
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

  static void scale_and_softcap(float* x, int64_t n, float scale, float cap) {
    if (cap > 0) {
      map(x, n, x, [scale, cap](F value) { return Math::tanh(value * scale / cap) * cap; });
    } else {
      map(x, n, x, [scale](F value) { return value * scale; });
    }
  }

  static void clamp(float* x, int64_t n, float least, float most) {
    const F low = V::set(least), high = V::set(most);
    map(x, n, x, [low, high](F value) {
      value = value < low ? low : value;
      return value > high ? high : value;
    });
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
  using Reductions = RowReductions<V>;
  using Math = VectorMath<V>;
  using Rounding = KvRounding<V>;
  return {
      .rms_norm = Reductions::rms_norm,
      .layer_norm = Reductions::layer_norm,
      .gate = {Ops::template gate<Math::silu>, Ops::template gate<Math::gelu_tanh>, Ops::template gate<Math::gelu_erf>,
               Ops::template gate<Math::relu>, Ops::template gate<Math::relu_squared>,
               Ops::template gate<Math::sigmoid>, Ops::gate_clamped_swiglu},
      .add = Ops::add,
      .scale = Ops::scale,
      .sigmoid_scale = Ops::sigmoid_scale,
      .scale_and_softcap = Ops::scale_and_softcap,
      .steer = Reductions::steer,
      .clamp = Ops::clamp,
      .weighted_sum = Reductions::weighted_sum,
      .softmax_pool = Reductions::softmax_pool,
      .softmax = Reductions::softmax,
      .rope_adjacent = Ops::rope_adjacent,
      .rope_halves = Ops::rope_halves,
      .to_half = Rounding::to_half,
      .to_bf16 = Rounding::to_bf16,
      .to_q8_0 = Rounding::to_q8_0,
  };
}

}  // namespace
}  // namespace cairn::kernels::cpu
