/// Numbers of few bits with a scale for each block of them, as CompressorOperations and Deepseek41Operations simulate
/// them. For host and device: all of it is exact, so that both give the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/deepseek41_operations.h"
#include "kernels/host_device.h"

namespace cairn::kernels {

struct SimulatedFormat {
  int32_t block;  ///< elements with one scale
  float top;      ///< largest number
  float least;    ///< magnitude that the scale is made for, at least
  int32_t fraction_bits;
  int32_t exponent_min;
};
inline constexpr SimulatedFormat kSimulatedE4m3 = {64, 448, 1e-4F, 3, -6};
inline constexpr SimulatedFormat kSimulatedE2m1 = {32, 6, 6 * 0x1p-126F, 1, 0};

/// The least power of two that brings a block's largest magnitude down to `top`.
CAIRN_HOST_DEVICE inline float simulated_scale(const SimulatedFormat& format, float largest) {
  int exponent = 0;
  const float fraction = std::frexp((largest < format.least ? format.least : largest) / format.top, &exponent);
  return std::ldexp(1.0F, fraction > 0.5F ? exponent : exponent - 1);
}

/// Rounds x to the nearest number of `fraction_bits` bits after the leading one, whose exponents begin at
/// `exponent_min`: those below have the spacing of the smallest. Ties to even. x is an element of a block with this
/// scale.
CAIRN_HOST_DEVICE inline float simulated_rounded(const SimulatedFormat& format, float scale, float x) {
  float reduced = x / scale;
  reduced = reduced < -format.top ? -format.top : reduced;
  reduced = reduced > format.top ? format.top : reduced;
  if (reduced == 0) return reduced * scale;
  const int leading = std::ilogb(reduced);
  const int exponent = (leading < format.exponent_min ? format.exponent_min : leading) - format.fraction_bits;
  return std::ldexp(std::nearbyint(std::ldexp(reduced, -exponent)), exponent) * scale;
}

/// What a SimulatedRounding consists of.
struct BlockRounding {
  SimulatedFormat numbers;
  SimulatedFormat scales = kSimulatedE4m3;  ///< that scales are rounded to, where they are
  bool rounds_scales = false;               ///< scales are powers of two otherwise
};

/// For the host, which hands it to kernels.
constexpr BlockRounding block_rounding(SimulatedRounding rounding) {
  SimulatedFormat fp8 = kSimulatedE4m3;
  fp8.block = 32;
  SimulatedFormat fp4 = kSimulatedE2m1;
  switch (rounding) {
    case SimulatedRounding::kFp8Blocks32:
      return {.numbers = fp8};
    case SimulatedRounding::kFp4Blocks32:
      return {.numbers = fp4};
    case SimulatedRounding::kFp4Blocks16:
      fp4.block = 16;
      fp4.least = 6 * 0x1p-9F;  // of the smallest scale
      return {.numbers = fp4, .rounds_scales = true};
  }
  return {.numbers = fp8};
}

/// The scale of a block with this largest magnitude.
CAIRN_HOST_DEVICE inline float block_scale(const BlockRounding& rounding, float largest) {
  const SimulatedFormat& numbers = rounding.numbers;
  if (!rounding.rounds_scales) return simulated_scale(numbers, largest);
  return simulated_rounded(rounding.scales, 1, (largest < numbers.least ? numbers.least : largest) / numbers.top);
}

}  // namespace cairn::kernels
