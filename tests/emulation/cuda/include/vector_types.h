/// CUDA's small vector structs, with their alignment.
#pragma once

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1) : x(of_x), y(of_y), z(of_z) {}
};
struct alignas(2) char2 {
  signed char x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
// NOLINTEND(readability-identifier-naming)
