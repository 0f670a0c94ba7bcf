// Ternary formats, formats of one and two bits, and four-bit float formats.
#include <algorithm>
#include <cmath>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/encode.h"
#include "quant/encode_scaled.h"

namespace cairn::quant {
namespace {

// With few levels, most elements of a block are far below the largest one, and the best scale too.
struct TernaryLevels : IntegerLevels<-1, 1> {
  static constexpr Tries kTries = {32, 1.0f, 8.0f};
};
struct Q2Levels : IntegerLevels<-1, 2> {
  static constexpr Tries kTries = {24, 0.75f, 5.0f};
};

// Twice the values of an E2M1 float, as in kFp4Values.
struct Fp4Levels {
  static Vec4 nearest(Vec4 t) {
    const Vec4 size = abs4(t);
    const Vec4 none = splat4(0.0f);
    Vec4 level = size > splat4(0.5f) ? splat4(1.0f) : none;
    for (int i = 1; i < 7; ++i) {
      const auto low = static_cast<float>(kFp4Values[i]);
      const auto high = static_cast<float>(kFp4Values[i + 1]);
      level += size > splat4(0.5f * (low + high)) ? splat4(high - low) : none;
    }
    return t < none ? -level : level;
  }
  static int code(float level) {
    int code = 0;
    while (code < 7 && static_cast<float>(kFp4Values[code]) < std::fabs(level)) ++code;
    return level < 0.0f ? code + 8 : code;
  }
};

// Five digits of base 3, first digit on top, as a fraction in units of 1/256, rounded up: see ternary_digit.
uint8_t ternary_byte(const int (&digits)[5]) {
  int value = 0;
  for (const int digit : digits) value = 3 * value + digit;
  return static_cast<uint8_t>((value * 256 + 242) / 243);
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockTQ1_0& b) {
  b.d = search_half<TernaryLevels, 256>(x, w);
  float levels[256];
  write_levels<TernaryLevels, 256>(x, half_to_float(b.d), levels);
  // Writes a run of bytes whose digits of one place follow each other.
  const auto run = [](const float* from, int bytes, int places, uint8_t* to) {
    for (int l = 0; l < bytes; ++l) {
      int digits[5] = {};
      for (int n = 0; n < places; ++n) digits[n] = static_cast<int>(from[bytes * n + l]) + 1;
      to[l] = ternary_byte(digits);
    }
  };
  run(levels, 32, 5, b.qs);
  run(levels + 160, 16, 5, b.qs + 32);
  run(levels + 240, 4, 4, b.qh);
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockTQ2_0& b) {
  b.d = search_half<TernaryLevels, 256>(x, w);
  float levels[256];
  write_levels<TernaryLevels, 256>(x, half_to_float(b.d), levels);
  std::fill_n(b.qs, 64, uint8_t{0});
  for (int j = 0; j < 256; ++j) {
    uint8_t& byte = b.qs[j / 128 * 32 + j % 32];
    byte = static_cast<uint8_t>(byte | (static_cast<int>(levels[j]) + 1) << (j % 128 / 32 * 2));
  }
}

void encode_block(const float (&x)[64], const float (&w)[64], BlockQ2_0& b) {
  b.d = search_half<Q2Levels, 64>(x, w);
  float levels[64];
  write_levels<Q2Levels, 64>(x, half_to_float(b.d), levels);
  std::fill_n(b.qs, 16, uint8_t{0});
  for (int j = 0; j < 64; ++j) {
    b.qs[j / 4] = static_cast<uint8_t>(b.qs[j / 4] | (static_cast<int>(levels[j]) + 1) << (j % 4 * 2));
  }
}

// The signs are the levels, and the best scale is the mean magnitude.
void encode_block(const float (&x)[128], const float (&w)[128], BlockQ1_0& b) {
  Sum8 sum_w;
  Sum8 sum_wx;
  for (int j = 0; j < 128; j += 8) {
    sum_w.even += load4(w + j);
    sum_w.odd += load4(w + j + 4);
    sum_wx.even += load4(w + j) * abs4(load4(x + j));
    sum_wx.odd += load4(w + j + 4) * abs4(load4(x + j + 4));
  }
  b.d = half_scale(sum_wx.total() * inverse_or_zero(sum_w.total()));
  std::fill_n(b.qs, 16, uint8_t{0});
  for (int j = 0; j < 128; ++j) b.qs[j / 8] = static_cast<uint8_t>(b.qs[j / 8] | (x[j] >= 0.0f ? 1 : 0) << (j % 8));
}

// Low nibbles, then high.
template <int kElements>
void write_fp4(const float* x, float scale, uint8_t* qs) {
  float levels[kElements];
  write_levels<Fp4Levels, kElements>(x, scale, levels);
  constexpr int kHalf = kElements / 2;
  for (int j = 0; j < kHalf; ++j) {
    qs[j] = static_cast<uint8_t>(Fp4Levels::code(levels[j]) | Fp4Levels::code(levels[j + kHalf]) << 4);
  }
}

// The scale is a power of two. Elements are brought to the size of 1 first: squares of those at the ends of the range
// would not be numbers.
void encode_block(const float (&x)[32], const float (&w)[32], BlockMXFP4& b) {
  b = {};
  const float extreme = extreme_of(x, 32);
  if (extreme == 0.0f) return;
  const int exponent = std::ilogb(extreme);
  float sized[32];
  for (int j = 0; j < 32; ++j) sized[j] = std::ldexp(x[j], -exponent);
  int best = 0;
  float best_error = 0.0f;
  for (int shift = -5; shift <= -1; ++shift) {  // of 1 to 2, the largest level, 12, makes 12/32 to 6
    const int code = exponent + shift + 128;
    if (code < 0 || code > 255) continue;
    const float error = fit_levels<Fp4Levels, 32>(sized, w, std::ldexp(1.0f, shift)).error;
    if (best_error > 0.0f && !(error < best_error)) continue;
    best = shift;
    best_error = error;
    b.e = static_cast<uint8_t>(code);
    if (error == 0.0f) break;
  }
  if (best != 0) write_fp4<32>(sized, std::ldexp(1.0f, best), b.qs);
}

void encode_block(const float (&x)[64], const float (&w)[64], BlockNVFP4& b) {
  constexpr int kCodeMost = 126;  // 127 is no number
  for (int g = 0; g < 4; ++g) {
    const float* from = x + 16 * g;
    const float wanted = std::fabs(extreme_of(from, 16)) / 12.0f;
    int code = 0;
    while (code < kCodeMost && ue4m3_half_to_float(static_cast<uint8_t>(code)) < wanted) ++code;
    float best_error = 0.0f;
    const int first = std::max(code - 8, 0);
    for (int c = first; c <= std::min(code + 7, kCodeMost); ++c) {
      const float scale = ue4m3_half_to_float(static_cast<uint8_t>(c));
      const float error = fit_levels<Fp4Levels, 16>(from, w + 16 * g, scale).error;
      if (c != first && !(error < best_error)) continue;
      best_error = error;
      b.d[g] = static_cast<uint8_t>(c);
    }
    write_fp4<16>(from, ue4m3_half_to_float(b.d[g]), b.qs + 8 * g);
  }
}

template <class Block, int kElements, Weights kWeights = Weights::kImportanceAndSize>
void encode_small(TensorType type, std::span<const float> in, const float* importance, std::byte* blocks) {
  each_block_of<Block, kElements, kWeights>(
      in, importance, blocks, encodable_max(type),
      [](const float(&x)[kElements], const float(&w)[kElements], Block& b) { encode_block(x, w, b); });
}

}  // namespace

void encode_tq1_0(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_small<BlockTQ1_0, 256>(TensorType::kTQ1_0, in, importance, blocks);
}

void encode_tq2_0(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_small<BlockTQ2_0, 256>(TensorType::kTQ2_0, in, importance, blocks);
}

void encode_mxfp4(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_small<BlockMXFP4, 32>(TensorType::kMXFP4, in, importance, blocks);
}

void encode_nvfp4(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_small<BlockNVFP4, 64>(TensorType::kNVFP4, in, importance, blocks);
}

void encode_q1_0(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_small<BlockQ1_0, 128, Weights::kImportance>(TensorType::kQ1_0, in, importance, blocks);
}

void encode_q2_0(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_small<BlockQ2_0, 64>(TensorType::kQ2_0, in, importance, blocks);
}

}  // namespace cairn::quant
