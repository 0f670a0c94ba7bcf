/// Scalar conversions of the small float formats, and levels and packed scales of the block formats. Widening is exact;
/// narrowing rounds to nearest, ties to even. `static inline` for the reason that blocks.h gives.
#pragma once

#include <cstdint>

namespace cairn::quant {

/// Converts IEEE binary16 to binary32 exactly; NaN payloads are kept.
static inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {
    // Zero or subnormal: fraction * 2^-24, which float32 holds exactly.
    const float magnitude = static_cast<float>(fraction) * 5.9604644775390625e-8f;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, magnitude) | sign);
  }
  const uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return __builtin_bit_cast(float, sign | (wide << 23) | (fraction << 13));
}

/// Converts to binary16: values of 65520 and above become infinite; NaN stays NaN.
static inline uint16_t float_to_half(float value) {
  const uint32_t all = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = (all >> 16) & 0x8000u;
  const uint32_t bits = all & 0x7fffffffu;
  if (bits > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x3ffu));
  if (bits >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and above
  if (bits < 0x38800000u) {
    // Below 2^-14 the half is subnormal, a multiple of 2^-24: the last place of a float32 in [0.5, 1), so the addition
    // rounds there.
    const float shifted = __builtin_bit_cast(float, bits) + 0.5f;
    return static_cast<uint16_t>(sign | (__builtin_bit_cast(uint32_t, shifted) - 0x3f000000u));
  }
  const uint32_t rounded = bits - (112u << 23) + 0xfffu + ((bits >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

static inline float bf16_to_float(uint16_t bf16) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bf16) << 16);
}

/// Converts to bfloat16: NaN stays NaN (made quiet).
static inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// 2^(e - 128): half the E8M0 scale, because kFp4Values are doubled. All 256 codes are numbers, as the field reads
/// them.
static inline float e8m0_half_to_float(uint8_t e) {
  return __builtin_bit_cast(float, e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

/// Half the value of an unsigned E4M3 scale (bias 7; 0x7f, which would be NaN, counts as 0; the sign bit is ignored).
static inline float ue4m3_half_to_float(uint8_t code) {
  const uint32_t exponent = (code >> 3) & 15u;
  const uint32_t fraction = code & 7u;
  if ((code & 0x7fu) == 0x7fu) return 0.0f;
  if (exponent == 0) return static_cast<float>(fraction) * 0.0009765625f;  // 2^-9 / 2
  return __builtin_bit_cast(float, ((exponent + 119u) << 23) | (fraction << 20));
}

/// The 16 levels of IQ4_NL and IQ4_XS.
static constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// Twice the 16 values of an E2M1 float.
static constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct ScaleMin {
  uint8_t scale;
  uint8_t min;
};

/// Scale and minimum of group `group` (0..7) of a Q4_K or Q5_K block: groups 0-3 in the low 6 bits of bytes 0-3 and
/// 4-7, groups 4-7 with their low nibbles in bytes 8-11 and their high 2 bits on top of the former.
static inline ScaleMin k4_scale_min(const uint8_t* scales, int group) {
  if (group < 4) return {static_cast<uint8_t>(scales[group] & 63), static_cast<uint8_t>(scales[group + 4] & 63)};
  const uint8_t low = scales[group + 4];
  return {static_cast<uint8_t>((low & 15) | ((scales[group - 4] >> 6) << 4)),
          static_cast<uint8_t>((low >> 4) | ((scales[group] >> 6) << 4))};
}

/// Scale of group `group` (0..15) of a Q3_K block, offset removed: low nibbles in bytes 0-7 (groups 8-15 in their high
/// half), high 2 bits in bytes 8-11.
static inline int q3_k_scale(const uint8_t* scales, int group) {
  const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
  const int high = (scales[8 + group % 4] >> (2 * (group / 4))) & 3;
  return (low | (high << 4)) - 32;
}

/// The sign byte of a 7-bit sign set: bit 7 makes the number of ones even.
static inline uint8_t even_signs(uint32_t set) {
  return static_cast<uint8_t>(set | static_cast<uint32_t>(__builtin_parity(set)) << 7);
}

}  // namespace cairn::quant
