/// Four float lanes of NEON.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace cairn::kernels::cpu {
namespace {

struct Vector {
  static constexpr int kLanes = 4;
  static constexpr int kRegisters = 32;
  using F = float32x4_t;
  using I = int32x4_t;

  static F set(float value) { return vdupq_n_f32(value); }
  static I lane_numbers() { return I{0, 1, 2, 3}; }
  static F load(const float* from) { return vld1q_f32(from); }
  static void store(float* to, F value) { vst1q_f32(to, value); }
  // Loads the first n < kLanes elements; the other lanes are 0.
  static F load_some(const float* from, int64_t n) {
    F value = {};
    for (int64_t i = 0; i < n; ++i) value[i] = from[i];
    return value;
  }
  static void store_some(float* to, F value, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = value[i];
  }
  static F load(const uint16_t* half) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(half))); }
  // Loads bfloat16 numbers, the upper halves of floats.
  static F load_uppers(const uint16_t* from) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16)); }
  static F load(const int8_t* from) {
    int32_t four;
    __builtin_memcpy(&four, from, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
  }
  static void store(uint16_t* half, F value) { vst1_u16(half, vreinterpret_u16_f16(vcvt_f16_f32(value))); }
  // Keeps the value in a register: otherwise the compiler loads it again wherever it is used, and loads limit a loop of
  // multiply-adds.
  static F keep(F value) {
    asm("" : "+w"(value));
    return value;
  }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
};

}  // namespace
}  // namespace cairn::kernels::cpu
