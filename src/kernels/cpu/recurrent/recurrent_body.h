/// Operations on recurrent states, written once over an ISA's `Vector`; <isa>/recurrent.cpp makes its table of them.
///
/// A row of a state goes through registers once per token, and a block of rows stays in the first-level cache over all
/// tokens of a step. The output of the delta rule is the product of the query with the state as it then is. Made of
/// products with the state before, decay (S q) + d (k . q), it would need one pass less where rows do not fit
/// registers, but the two parts cancel where a query is like its key.
#pragma once

#include <cstdint>

#include "kernels/cpu/recurrent/recurrent_kernels.h"
#include "kernels/cpu/vector_math.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct Recurrent {
  using F = typename V::F;
  using Math = VectorMath<V>;
  static constexpr int64_t kLanes = V::kLanes;
  // Rows of this many elements are kept in registers, where two vectors beside a row of the state fit.
  static constexpr int32_t kUsualDim = 128;
  static constexpr int kUsualVectors = kUsualDim / static_cast<int>(kLanes);
  static constexpr bool kFitsRegisters = 3 * kUsualVectors + 4 <= V::kRegisters;

  static F load(const float* from, int64_t left) { return left >= kLanes ? V::load(from) : V::load_some(from, left); }
  static void store(float* to, F value, int64_t left) {
    if (left >= kLanes) {
      V::store(to, value);
    } else {
      V::store_some(to, value, left);
    }
  }
  static float sum(F value) {
    return Math::joined_lanes(value, [](F a, F b) { return a + b; });
  }

  static void convolve(const ConvolutionCall& call, int64_t n, float* out) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const int64_t left = n - i;
      F total = call.bias == nullptr ? V::set(0) : load(call.bias + i, left);
      for (int32_t j = 0; j < call.taps; ++j) {
        total = V::fma(load(call.weights + j * call.weight_stride + i, left), load(call.inputs[j] + i, left), total);
      }
      store(out + i, call.silu ? Math::silu(total) : total, left);
    }
  }

  static void multiply(float* x, const float* factors, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) store(x + i, load(x + i, n - i) * load(factors + i, n - i), n - i);
  }

  static void decay(float* x, const float* bias, float rate, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store(x + i, Math::exp(Math::softplus(load(x + i, n - i) + load(bias + i, n - i)) * rate), n - i);
    }
  }

  struct DeltaToken {
    const float* query;
    const float* key;
    const float* value;
    const float* decay;
    float beta;
    float* out;
  };
  static DeltaToken token_of(const DeltaRuleCall& call, int64_t t) {
    const int64_t mixed = t * call.mixed_stride;
    return {.query = call.query + mixed,
            .key = call.key + mixed,
            .value = call.value + mixed,
            .decay = call.decay + t * call.decay_stride,
            .beta = call.beta[t * call.beta_stride],
            .out = call.out + t * call.out_stride};
  }
  // How much of the key is added to a row that predicts so much from it.
  static F change_of(const DeltaToken& token, int32_t row, float prediction) {
    return V::set(token.beta * (token.value[row] - prediction));
  }

  // Factors of a row of the state: one, or one for each element.
  template <bool kChannels>
  struct Decay {
    const float* factors;
    F one = V::set(factors[0]);

    F at(int64_t i) const {
      if constexpr (kChannels) return V::load(factors + i);
      return one;
    }
    F at(int64_t i, int64_t left) const {
      if constexpr (kChannels) return load(factors + i, left);
      return one;
    }
  };

  template <bool kChannels>
  static void delta_in_registers(const DeltaToken& token, const DeltaRuleCall& call) {
    F key[kUsualVectors], query[kUsualVectors];
    for (int i = 0; i < kUsualVectors; ++i) {
      key[i] = V::keep(V::load(token.key + i * kLanes));
      query[i] = V::keep(V::load(token.query + i * kLanes));
    }
    const Decay<kChannels> decay{token.decay};
    for (int32_t row = 0; row < call.rows; ++row) {
      float* state = call.state + int64_t{row} * kUsualDim;
      F s[kUsualVectors];
      F predicted[2] = {V::set(0), V::set(0)}, read[2] = {V::set(0), V::set(0)};
#pragma GCC unroll 16
      for (int i = 0; i < kUsualVectors; ++i) {
        s[i] = V::load(state + i * kLanes) * decay.at(i * kLanes);
        predicted[i % 2] = V::fma(s[i], key[i], predicted[i % 2]);
      }
      const F change = change_of(token, row, sum(predicted[0] + predicted[1]));
#pragma GCC unroll 16
      for (int i = 0; i < kUsualVectors; ++i) {
        s[i] = V::fma(change, key[i], s[i]);
        V::store(state + i * kLanes, s[i]);
        read[i % 2] = V::fma(s[i], query[i], read[i % 2]);
      }
      token.out[row] = sum(read[0] + read[1]);
    }
  }

  template <bool kChannels>
  static void delta_through_memory(const DeltaToken& token, const DeltaRuleCall& call) {
    const int64_t dim = call.key_dim;
    const Decay<kChannels> decay{token.decay};
    for (int32_t row = 0; row < call.rows; ++row) {
      float* state = call.state + row * dim;
      F predicted[2] = {V::set(0), V::set(0)}, read[2] = {V::set(0), V::set(0)};
      int64_t i = 0;
      for (; i + 2 * kLanes <= dim; i += 2 * kLanes) {
        for (int k = 0; k < 2; ++k) {
          const int64_t at = i + k * kLanes;
          predicted[k] = V::fma(V::load(state + at) * decay.at(at), V::load(token.key + at), predicted[k]);
        }
      }
      for (; i < dim; i += kLanes) {
        const int64_t left = dim - i;
        predicted[0] = V::fma(load(state + i, left) * decay.at(i, left), load(token.key + i, left), predicted[0]);
      }
      const F change = change_of(token, row, sum(predicted[0] + predicted[1]));
      for (i = 0; i + 2 * kLanes <= dim; i += 2 * kLanes) {
        for (int k = 0; k < 2; ++k) {
          const int64_t at = i + k * kLanes;
          const F s = V::fma(change, V::load(token.key + at), V::load(state + at) * decay.at(at));
          V::store(state + at, s);
          read[k] = V::fma(s, V::load(token.query + at), read[k]);
        }
      }
      for (; i < dim; i += kLanes) {
        const int64_t left = dim - i;
        const F s = V::fma(change, load(token.key + i, left), load(state + i, left) * decay.at(i, left));
        store(state + i, s, left);
        read[0] = V::fma(s, load(token.query + i, left), read[0]);
      }
      token.out[row] = sum(read[0] + read[1]);
    }
  }

  template <bool kChannels>
  static void delta_tokens(const DeltaRuleCall& call) {
    const bool usual = kFitsRegisters && call.key_dim == kUsualDim;
    for (int64_t t = 0; t < call.tokens; ++t) {
      if constexpr (kFitsRegisters) {
        if (usual) {
          delta_in_registers<kChannels>(token_of(call, t), call);
          continue;
        }
      }
      delta_through_memory<kChannels>(token_of(call, t), call);
    }
  }
  static void delta_rule(const DeltaRuleCall& call) {
    call.channel_decay ? delta_tokens<true>(call) : delta_tokens<false>(call);
  }

  struct ScanToken {
    const float* x;
    const float* b;
    const float* c;
    float step;
    float decay;
    float* out;
  };

  static void scan_in_registers(const ScanToken& token, const ScanCall& call) {
    F b[kUsualVectors], c[kUsualVectors];
    for (int i = 0; i < kUsualVectors; ++i) {
      b[i] = V::keep(V::load(token.b + i * kLanes));
      c[i] = V::keep(V::load(token.c + i * kLanes));
    }
    const F decay = V::set(token.decay);
    for (int32_t row = 0; row < call.rows; ++row) {
      float* state = call.state + int64_t{row} * kUsualDim;
      const F input = V::set(token.step * token.x[row]);
      F read[2] = {V::set(0), V::set(0)};
#pragma GCC unroll 16
      for (int i = 0; i < kUsualVectors; ++i) {
        const F s = V::fma(input, b[i], V::load(state + i * kLanes) * decay);
        V::store(state + i * kLanes, s);
        read[i % 2] = V::fma(s, c[i], read[i % 2]);
      }
      token.out[row] = sum(read[0] + read[1]) + call.skip * token.x[row];
    }
  }

  static void scan_through_memory(const ScanToken& token, const ScanCall& call) {
    const int64_t dim = call.state_dim;
    const F decay = V::set(token.decay);
    for (int32_t row = 0; row < call.rows; ++row) {
      float* state = call.state + row * dim;
      const F input = V::set(token.step * token.x[row]);
      F read[2] = {V::set(0), V::set(0)};
      int64_t i = 0;
      for (; i + 2 * kLanes <= dim; i += 2 * kLanes) {
        for (int k = 0; k < 2; ++k) {
          const int64_t at = i + k * kLanes;
          const F s = V::fma(input, V::load(token.b + at), V::load(state + at) * decay);
          V::store(state + at, s);
          read[k] = V::fma(s, V::load(token.c + at), read[k]);
        }
      }
      for (; i < dim; i += kLanes) {
        const int64_t left = dim - i;
        const F s = V::fma(input, load(token.b + i, left), load(state + i, left) * decay);
        store(state + i, s, left);
        read[0] = V::fma(s, load(token.c + i, left), read[0]);
      }
      token.out[row] = sum(read[0] + read[1]) + call.skip * token.x[row];
    }
  }

  static void scan(const ScanCall& call) {
    const bool usual = kFitsRegisters && call.state_dim == kUsualDim;
    for (int64_t t = 0; t < call.tokens; ++t) {
      const int64_t mixed = t * call.mixed_stride, gate = t * call.gate_stride;
      const ScanToken token{.x = call.x + mixed,
                            .b = call.b + mixed,
                            .c = call.c + mixed,
                            .step = call.step[gate],
                            .decay = call.decay[gate],
                            .out = call.out + t * call.out_stride};
      if constexpr (kFitsRegisters) {
        if (usual) {
          scan_in_registers(token, call);
          continue;
        }
      }
      scan_through_memory(token, call);
    }
  }
};

template <class V>
constexpr RecurrentKernels make_recurrent_kernels() {
  using Kernels = Recurrent<V>;
  return {.convolve = Kernels::convolve,
          .multiply = Kernels::multiply,
          .decay = Kernels::decay,
          .delta_rule = Kernels::delta_rule,
          .scan = Kernels::scan};
}

}  // namespace
}  // namespace cairn::kernels::cpu
