/// Four float lanes in the compiler's own vectors: works on any processor.
#pragma once

#include <cstdint>

#include "quant/blocks.h"

namespace cairn::kernels::cpu {
namespace {

struct Vector {
  static constexpr int kLanes = 4;
  static constexpr int kRegisters = 16;
  typedef float F __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));

  static F set(float value) { return F{value, value, value, value}; }
  static I lane_numbers() { return I{0, 1, 2, 3}; }
  static F load(const float* from) {
    F value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }
  static void store(float* to, F value) { __builtin_memcpy(to, &value, sizeof value); }
  // Loads the first n < kLanes elements; the other lanes are 0.
  static F load_some(const float* from, int64_t n) {
    F value = {};
    for (int64_t i = 0; i < n; ++i) value[i] = from[i];
    return value;
  }
  static void store_some(float* to, F value, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = value[i];
  }
  static F load(const uint16_t* half) {
    return F{quant::half_to_float(half[0]), quant::half_to_float(half[1]), quant::half_to_float(half[2]),
             quant::half_to_float(half[3])};
  }
  // Loads bfloat16 numbers, the upper halves of floats.
  static F load_uppers(const uint16_t* from) {
    return F{quant::bf16_to_float(from[0]), quant::bf16_to_float(from[1]), quant::bf16_to_float(from[2]),
             quant::bf16_to_float(from[3])};
  }
  static F load(const int8_t* from) {
    return F{static_cast<float>(from[0]), static_cast<float>(from[1]), static_cast<float>(from[2]),
             static_cast<float>(from[3])};
  }
  static void store(uint16_t* half, F value) {
    for (int i = 0; i < kLanes; ++i) half[i] = quant::float_to_half(value[i]);
  }
  static F keep(F value) { return value; }
  static F fma(F a, F b, F c) { return a * b + c; }
};

}  // namespace
}  // namespace cairn::kernels::cpu
