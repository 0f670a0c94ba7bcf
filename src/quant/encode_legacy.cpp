// The first block formats: 32 elements with one scale, or a scale and a minimum.
#include <algorithm>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/encode.h"
#include "quant/encode_affine.h"
#include "quant/encode_scaled.h"

namespace cairn::quant {
namespace {

struct Q4Levels : IntegerLevels<-8, 7> {
  static constexpr Tries kTries = {12, 0.85f, 1.3f};
};
struct Q5Levels : IntegerLevels<-16, 15> {
  static constexpr Tries kTries = {10, 0.93f, 1.12f};
};
struct Q8Levels : IntegerLevels<-127, 127> {
  static constexpr Tries kTries = {16, 0.97f, 1.0f};
};

constexpr SpanTries kSpans4Legacy = {8, 0.8f, 1.04f, 3};
constexpr SpanTries kSpans5Legacy = {8, 0.9f, 1.02f, 3};

// Low nibbles, then high.
void write_nibbles(const uint8_t (&levels)[32], uint8_t (&qs)[16]) {
  for (int j = 0; j < 16; ++j) qs[j] = static_cast<uint8_t>((levels[j] & 15) | (levels[j + 16] & 15) << 4);
}

void write_fifth_bits(const uint8_t (&levels)[32], uint8_t (&qh)[4]) {
  std::fill_n(qh, 4, uint8_t{0});
  for (int j = 0; j < 32; ++j) qh[j / 8] = static_cast<uint8_t>(qh[j / 8] | (levels[j] >> 4) << (j % 8));
}

// Sets the half, and returns the levels as unsigned numbers.
template <class Levels>
void fit_scale(const float (&x)[32], const float (&w)[32], uint16_t& d, uint8_t (&levels)[32]) {
  d = search_half<Levels, 32>(x, w);
  float q[32];
  write_levels<Levels, 32>(x, half_to_float(d), q);
  for (int j = 0; j < 32; ++j) levels[j] = static_cast<uint8_t>(static_cast<int>(q[j] - Levels::kLow));
}

// Sets the halves of scale and minimum, and the levels.
template <int kMost>
void fit_scale_and_min(const float (&x)[32], const float (&w)[32], SpanTries tries, uint16_t& d, uint16_t& m,
                       uint8_t (&levels)[32]) {
  const GroupSums group = sum_group<32>(x, w);
  Affine fit = search_affine<kMost, 32>(x, w, group, tries, true);
  d = half_scale(fit.scale);
  m = half_scale(fit.low);
  LevelSums sums = level_sums<kMost, 32>(x, w, half_to_float(d), half_to_float(m));
  for (int again = 0; again < 2; ++again) {
    fit = solve(group, sums, true);
    const uint16_t next_d = half_scale(fit.scale);
    const uint16_t next_m = half_scale(fit.low);
    const LevelSums next = level_sums<kMost, 32>(x, w, half_to_float(next_d), half_to_float(next_m));
    if (!(next.error < sums.error)) break;
    d = next_d;
    m = next_m;
    sums = next;
  }
  const float inverse = inverse_or_zero(half_to_float(d));
  float q[32];
  for (int j = 0; j < 32; j += 4) {
    store4(q + j, round4(clamp4((load4(x + j) - half_to_float(m)) * inverse, 0.0f, kMost)));
  }
  for (int j = 0; j < 32; ++j) levels[j] = static_cast<uint8_t>(static_cast<int>(q[j]));
}

void encode_block(const float (&x)[32], const float (&w)[32], BlockQ4_0& b) {
  uint8_t levels[32];
  fit_scale<Q4Levels>(x, w, b.d, levels);
  write_nibbles(levels, b.qs);
}

void encode_block(const float (&x)[32], const float (&w)[32], BlockQ5_0& b) {
  uint8_t levels[32];
  fit_scale<Q5Levels>(x, w, b.d, levels);
  write_nibbles(levels, b.qs);
  write_fifth_bits(levels, b.qh);
}

void encode_block(const float (&x)[32], const float (&w)[32], BlockQ4_1& b) {
  uint8_t levels[32];
  fit_scale_and_min<15>(x, w, kSpans4Legacy, b.d, b.m, levels);
  write_nibbles(levels, b.qs);
}

void encode_block(const float (&x)[32], const float (&w)[32], BlockQ5_1& b) {
  uint8_t levels[32];
  fit_scale_and_min<31>(x, w, kSpans5Legacy, b.d, b.m, levels);
  write_nibbles(levels, b.qs);
  write_fifth_bits(levels, b.qh);
}

void encode_block(const float (&x)[32], const float (&w)[32], BlockQ8_0& b) {
  b.d = search_half<Q8Levels, 32>(x, w);
  float q[32];
  write_levels<Q8Levels, 32>(x, half_to_float(b.d), q);
  for (int j = 0; j < 32; ++j) b.qs[j] = static_cast<int8_t>(static_cast<int>(q[j]));
}

template <class Block>
void encode_legacy(TensorType type, std::span<const float> in, const float* importance, std::byte* blocks) {
  each_block_of<Block, 32>(in, importance, blocks, encodable_max(type),
                           [](const float(&x)[32], const float(&w)[32], Block& b) { encode_block(x, w, b); });
}

}  // namespace

void encode_q4_0(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_legacy<BlockQ4_0>(TensorType::kQ4_0, in, importance, blocks);
}

void encode_q4_1(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_legacy<BlockQ4_1>(TensorType::kQ4_1, in, importance, blocks);
}

void encode_q5_0(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_legacy<BlockQ5_0>(TensorType::kQ5_0, in, importance, blocks);
}

void encode_q5_1(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_legacy<BlockQ5_1>(TensorType::kQ5_1, in, importance, blocks);
}

void encode_q8_0(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_legacy<BlockQ8_0>(TensorType::kQ8_0, in, importance, blocks);
}

}  // namespace cairn::quant
