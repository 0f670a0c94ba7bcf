/// Private to quant: one encoder per type, and the functions they share. Each reads in.size() elements, a multiple of
/// the type's block. The order of every sum is written out in lanes, so that a row's bytes do not depend on how the
/// compiler vectorises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace cairn::quant {

void encode_f32(std::span<const float> in, std::byte* blocks);
void encode_f16(std::span<const float> in, std::byte* blocks);
void encode_bf16(std::span<const float> in, std::byte* blocks);
void encode_q8_0(std::span<const float> in, std::byte* blocks);
void encode_q4_0(std::span<const float> in, std::byte* blocks);
void encode_q4_k(std::span<const float> in, std::byte* blocks);
void encode_q6_k(std::span<const float> in, std::byte* blocks);

inline constexpr float kHalfMax = 65504.0f;

/// Clamps a value; NaN becomes `high`.
inline float clamp_to(float value, float low, float high) {
  const float below = value < high ? value : high;
  return below > low ? below : low;
}

/// Rounds to the nearest integer, ties to even, for |value| < 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
inline float round_small(float value) { return (value + 12582912.0f) - 12582912.0f; }

/// 1 / value, and 0 for 0: a block whose scale is 0 has only zeros.
inline float inverse_or_zero(float value) { return value == 0.0f ? 0.0f : 1.0f / value; }

/// Four floats that the compiler keeps in one vector register of the baseline instruction set (or four scalars).
using Vec4 = float __attribute__((vector_size(16)));

inline Vec4 load4(const float* from) {
  Vec4 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void store4(float* to, Vec4 value) { std::memcpy(to, &value, sizeof value); }
inline Vec4 splat4(float value) { return Vec4{value, value, value, value}; }
inline Vec4 min4(Vec4 a, Vec4 b) { return a < b ? a : b; }
inline Vec4 max4(Vec4 a, Vec4 b) { return a > b ? a : b; }
inline Vec4 abs4(Vec4 value) { return max4(value, -value); }
/// clamp_to and round_small for four floats.
inline Vec4 clamp4(Vec4 value, float low, float high) { return max4(min4(value, splat4(high)), splat4(low)); }
inline Vec4 round4(Vec4 value) { return (value + 12582912.0f) - 12582912.0f; }

/// A sum in a fixed order that suits two vector registers: element j goes to lane j % 8.
struct Sum8 {
  Vec4 even = {};
  Vec4 odd = {};
  float total() const {
    const Vec4 lanes = even + odd;
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  }
};

/// Calls encode(x, block) for each block of kElements: x is a copy, limited to +-limit.
template <class Block, int kElements, class Encode>
void each_block_of(std::span<const float> in, std::byte* blocks, float limit, Encode encode) {
  const float* from = in.data();
  for (size_t i = 0; i < in.size() / kElements; ++i, from += kElements) {
    float x[kElements];
    for (int j = 0; j < kElements; j += 4) store4(x + j, clamp4(load4(from + j), -limit, limit));
    Block block;
    encode(x, block);
    std::memcpy(blocks + i * sizeof(Block), &block, sizeof(Block));
  }
}

}  // namespace cairn::quant
