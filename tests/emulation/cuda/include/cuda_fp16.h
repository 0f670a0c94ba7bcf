/// The part of CUDA's binary16 functions that kernels use.
#pragma once

#include "emulation/cuda/include/vector_types.h"
#include "quant/float_formats.h"

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
struct __half {
  uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half a) { return a.bits; }
inline float __half2float(__half a) { return cairn::quant::half_to_float(a.bits); }
inline float2 __half22float2(__half2 a) { return {__half2float(a.x), __half2float(a.y)}; }
inline __half __float2half_rn(float a) { return {cairn::quant::float_to_half(a)}; }
inline __half2 __floats2half2_rn(float low, float high) { return {__float2half_rn(low), __float2half_rn(high)}; }
// NOLINTEND(readability-identifier-naming)
