// The K formats: the scale (and the minimum) of each group by search, as integers of one float scale for the block.
#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/encode.h"
#include "quant/encode_affine.h"
#include "quant/encode_scaled.h"

namespace cairn::quant {
namespace {

struct Q3Levels : IntegerLevels<-4, 3> {
  static constexpr Tries kTries = {10, 0.75f, 1.45f};
};
struct Q6Levels : IntegerLevels<-32, 31> {
  static constexpr Tries kTries = {10, 0.97f, 1.06f};
};

constexpr SpanTries kSpans2 = {9, 0.5f, 1.1f, 3};
constexpr SpanTries kSpans4 = {8, 0.8f, 1.04f, 3};
constexpr SpanTries kSpans5 = {8, 0.9f, 1.02f, 3};

// Packs 6-bit scales and minima into 12 bytes: see k4_scale_min.
template <class Block>
void write_k4_scales(const Block& fitted, uint8_t (&out)[12]) {
  for (int i = 0; i < 4; ++i) {
    const int scale = fitted.scale_code(i + 4);
    const int min = fitted.min_code(i + 4);
    out[i] = static_cast<uint8_t>(fitted.scale_code(i) | (scale >> 4) << 6);
    out[i + 4] = static_cast<uint8_t>(fitted.min_code(i) | (min >> 4) << 6);
    out[i + 8] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
  }
}

// Levels of 4 bits: per 64 elements 32 bytes, low nibbles, then high.
void write_k4_nibbles(const uint8_t (&levels)[256], uint8_t (&qs)[128]) {
  for (int byte = 0; byte < 128; ++byte) {
    const uint8_t* low = levels + byte / 32 * 64 + byte % 32;
    qs[byte] = static_cast<uint8_t>((low[0] & 15) | (low[32] & 15) << 4);
  }
}

// The two low bits of levels, as in Q2_K and Q3_K: per 128 elements 32 bytes with four elements each.
void write_k2_bits(const uint8_t (&levels)[256], uint8_t (&qs)[64]) {
  for (int byte = 0; byte < 64; ++byte) {
    const uint8_t* from = levels + byte / 32 * 128 + byte % 32;
    qs[byte] = static_cast<uint8_t>((from[0] & 3) | (from[32] & 3) << 2 | (from[64] & 3) << 4 | (from[96] & 3) << 6);
  }
}

// Levels as unsigned numbers.
template <class Block>
void raised_levels(const Block& fitted, const float (&x)[256], int by, uint8_t (&to)[256]) {
  float levels[256];
  fitted.levels(x, levels);
  for (int j = 0; j < 256; ++j) to[j] = static_cast<uint8_t>(static_cast<int>(levels[j]) + by);
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockQ2_K& b) {
  const AffineBlock<3, 16, 15> fitted(x, w, kSpans2);
  b.d = fitted.d();
  b.dmin = fitted.dmin();
  for (int g = 0; g < 16; ++g) b.scales[g] = static_cast<uint8_t>(fitted.scale_code(g) | fitted.min_code(g) << 4);
  uint8_t levels[256];
  fitted.levels(x, levels);
  write_k2_bits(levels, b.qs);
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockQ4_K& b) {
  const AffineBlock<15, 32, 63> fitted(x, w, kSpans4);
  b.d = fitted.d();
  b.dmin = fitted.dmin();
  write_k4_scales(fitted, b.scales);
  uint8_t levels[256];
  fitted.levels(x, levels);
  write_k4_nibbles(levels, b.qs);
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockQ5_K& b) {
  const AffineBlock<31, 32, 63> fitted(x, w, kSpans5);
  b.d = fitted.d();
  b.dmin = fitted.dmin();
  write_k4_scales(fitted, b.scales);
  uint8_t levels[256];
  fitted.levels(x, levels);
  write_k4_nibbles(levels, b.qs);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int j = 0; j < 256; ++j) b.qh[j % 32] = static_cast<uint8_t>(b.qh[j % 32] | (levels[j] >> 4) << (j / 32));
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockQ3_K& b) {
  const ScaledBlock<Q3Levels, 16, -32, 31> fitted(x, w);
  b.d = fitted.d();
  std::memset(b.scales, 0, sizeof b.scales);
  for (int g = 0; g < 16; ++g) {  // see q3_k_scale
    const int code = fitted.code(g) + 32;
    b.scales[g % 8] = static_cast<uint8_t>(b.scales[g % 8] | (code & 15) << (g / 8 * 4));
    b.scales[8 + g % 4] = static_cast<uint8_t>(b.scales[8 + g % 4] | (code >> 4) << (g / 4 * 2));
  }
  uint8_t levels[256];
  raised_levels(fitted, x, 4, levels);
  write_k2_bits(levels, b.qs);
  std::memset(b.hmask, 0, sizeof b.hmask);
  for (int j = 0; j < 256; ++j) b.hmask[j % 32] = static_cast<uint8_t>(b.hmask[j % 32] | (levels[j] >> 2) << (j / 32));
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockQ6_K& b) {
  const ScaledBlock<Q6Levels, 16, -128, 127> fitted(x, w);
  b.d = fitted.d();
  for (int g = 0; g < 16; ++g) b.scales[g] = static_cast<int8_t>(fitted.code(g));
  uint8_t levels[256];
  raised_levels(fitted, x, 32, levels);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* from = levels + 128 * half;
    for (int l = 0; l < 32; ++l) {
      const uint8_t a = from[l];
      const uint8_t c = from[l + 32];
      const uint8_t e = from[l + 64];
      const uint8_t g = from[l + 96];
      b.ql[64 * half + l] = static_cast<uint8_t>((a & 15) | (e & 15) << 4);
      b.ql[64 * half + l + 32] = static_cast<uint8_t>((c & 15) | (g & 15) << 4);
      b.qh[32 * half + l] = static_cast<uint8_t>(a >> 4 | (c >> 4) << 2 | (e >> 4) << 4 | (g >> 4) << 6);
    }
  }
}

template <class Block>
void encode_k(TensorType type, std::span<const float> in, const float* importance, std::byte* blocks) {
  each_block_of<Block, 256>(in, importance, blocks, encodable_max(type),
                            [](const float(&x)[256], const float(&w)[256], Block& b) { encode_block(x, w, b); });
}

}  // namespace

void encode_q2_k(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_k<BlockQ2_K>(TensorType::kQ2_K, in, importance, blocks);
}

void encode_q3_k(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_k<BlockQ3_K>(TensorType::kQ3_K, in, importance, blocks);
}

void encode_q4_k(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_k<BlockQ4_K>(TensorType::kQ4_K, in, importance, blocks);
}

void encode_q5_k(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_k<BlockQ5_K>(TensorType::kQ5_K, in, importance, blocks);
}

void encode_q6_k(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_k<BlockQ6_K>(TensorType::kQ6_K, in, importance, blocks);
}

}  // namespace cairn::quant
