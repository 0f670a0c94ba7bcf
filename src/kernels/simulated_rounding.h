/// Numbers of few bits with a scale of a power of two for each block of them, as CompressorOperations simulates them.
/// For host and device: all of it is exact, so that both give the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"

namespace cairn {

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

/// To the nearest number of `fraction_bits` bits after the leading one, whose exponents begin at `exponent_min`: those
/// below have the spacing of the smallest. Ties to even. x is an element of a block with this scale.
CAIRN_HOST_DEVICE inline float simulated_rounded(const SimulatedFormat& format, float scale, float x) {
  float reduced = x / scale;
  reduced = reduced < -format.top ? -format.top : reduced;
  reduced = reduced > format.top ? format.top : reduced;
  if (reduced == 0) return reduced * scale;
  const int leading = std::ilogb(reduced);
  const int exponent = (leading < format.exponent_min ? format.exponent_min : leading) - format.fraction_bits;
  return std::ldexp(std::nearbyint(std::ldexp(reduced, -exponent)), exponent) * scale;
}

}  // namespace cairn
