/// Private to quant: one encoder per type, and the functions they share. Each reads in.size() elements, a multiple of
/// the type's block; `importance` is as for encode_row, or null. The order of every sum is written out in lanes, so
/// that a row's bytes do not depend on how the compiler vectorises.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace cairn::quant {

void encode_f32(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_f16(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_bf16(std::span<const float> in, const float* importance, std::byte* blocks);

void encode_q4_0(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q4_1(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q5_0(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q5_1(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q8_0(std::span<const float> in, const float* importance, std::byte* blocks);

void encode_q2_k(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q3_k(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q4_k(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q5_k(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q6_k(std::span<const float> in, const float* importance, std::byte* blocks);

void encode_iq1_s(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_iq1_m(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_iq2_xxs(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_iq2_xs(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_iq2_s(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_iq3_xxs(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_iq3_s(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_iq4_nl(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_iq4_xs(std::span<const float> in, const float* importance, std::byte* blocks);

void encode_tq1_0(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_tq2_0(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_mxfp4(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_nvfp4(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q1_0(std::span<const float> in, const float* importance, std::byte* blocks);
void encode_q2_0(std::span<const float> in, const float* importance, std::byte* blocks);

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
/// The second if either is NaN. Compilers do not recognise the instruction when an operand is constant.
#ifdef __SSE__
inline Vec4 min4(Vec4 a, Vec4 b) { return _mm_min_ps(a, b); }
inline Vec4 max4(Vec4 a, Vec4 b) { return _mm_max_ps(a, b); }
#else
inline Vec4 min4(Vec4 a, Vec4 b) { return a < b ? a : b; }
inline Vec4 max4(Vec4 a, Vec4 b) { return a > b ? a : b; }
#endif
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

/// The element of largest magnitude, with its sign; of two equal magnitudes the positive element. `count` is a multiple
/// of 4.
inline float extreme_of(const float* x, int count) {
  Vec4 low = load4(x);
  Vec4 high = low;
  for (int j = 4; j < count; j += 4) {
    low = min4(low, load4(x + j));
    high = max4(high, load4(x + j));
  }
  const float least = std::fmin(std::fmin(low[0], low[1]), std::fmin(low[2], low[3]));
  const float most = std::fmax(std::fmax(high[0], high[1]), std::fmax(high[2], high[3]));
  return -least > most ? least : most;
}

/// What the squared error of an element weighs: its importance, or that times sqrt(mean square of the block + x^2),
/// because elements that are large matter more than their importance says.
enum class Weights : uint8_t { kImportance, kImportanceAndSize };

/// Sets w to the weights of a block's elements. Columns that no activation has reached still count a little, so that
/// their elements are not arbitrary. Only the proportions mean anything: all are between 0 and 2.
inline void weigh(std::span<const float> x, const float* importance, Weights weights, float* w) {
  const float inverse = 1.0f / std::fmax(std::fabs(extreme_of(x.data(), static_cast<int>(x.size()))), 1e-37f);
  Sum8 squares;
  for (size_t j = 0; j < x.size(); j += 8) {
    const Vec4 even = load4(&x[j]) * inverse;
    const Vec4 odd = load4(&x[j + 4]) * inverse;
    squares.even += even * even;
    squares.odd += odd * odd;
  }
  const float mean = squares.total() / static_cast<float>(x.size());
  float most = 0.0f;
  for (size_t j = 0; importance != nullptr && j < x.size(); ++j) most = importance[j] > most ? importance[j] : most;
  const float relative = most > 1e-30f ? 1.0f / most : 0.0f;
  constexpr float kLeast = 1e-6f;
  for (size_t j = 0; j < x.size(); ++j) {
    const float size = x[j] * inverse;
    w[j] = weights == Weights::kImportanceAndSize ? std::sqrt(mean + size * size) : 1.0f;
    if (relative > 0.0f) w[j] *= importance[j] * relative + kLeast;
  }
}

/// Calls encode(x, w, block) for each block of kElements: x is a copy, limited to +-limit, w its weights.
template <class Block, int kElements, Weights kWeights = Weights::kImportanceAndSize, class Encode>
void each_block_of(std::span<const float> in, const float* importance, std::byte* blocks, float limit, Encode encode) {
  const float* from = in.data();
  for (size_t i = 0; i < in.size() / kElements; ++i, from += kElements) {
    float x[kElements];
    float w[kElements];
    for (int j = 0; j < kElements; j += 4) store4(x + j, clamp4(load4(from + j), -limit, limit));
    weigh(x, importance == nullptr ? nullptr : importance + i * kElements, kWeights, w);
    Block block;
    encode(x, w, block);
    std::memcpy(blocks + i * sizeof(Block), &block, sizeof(Block));
  }
}

}  // namespace cairn::quant
