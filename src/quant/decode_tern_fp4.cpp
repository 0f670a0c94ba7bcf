// Ternary formats, formats of one and two bits, and four-bit float formats.
#include "quant/blocks.h"
#include "quant/decode.h"

namespace cairn::quant {
namespace {

constexpr uint8_t kPowersOf3[5] = {1, 3, 9, 27, 81};

// Digit n of a byte that holds a base 3 fraction in units of 1/256: multiplying shifts out the digits before it, then
// the integer part of three times the rest is the digit.
int ternary_digit(uint8_t fraction, int n) {
  const auto rest = static_cast<uint8_t>(fraction * kPowersOf3[n]);
  return (rest * 3) >> 8;
}

// Decodes `digits` digits of each of `bytes` bytes, digit by digit: the elements of digit n of all bytes follow each
// other.
float* ternary_run(const uint8_t* from, int bytes, int digits, float d, float* y) {
  for (int n = 0; n < digits; ++n) {
    for (int l = 0; l < bytes; ++l) *y++ = static_cast<float>(ternary_digit(from[l], n) - 1) * d;
  }
  return y;
}

}  // namespace

void decode_tq1_0(const std::byte* blocks, std::span<float> out) {
  each_block<BlockTQ1_0, 256>(blocks, out, [](const BlockTQ1_0& b, float* y) {
    const float d = half_to_float(b.d);
    y = ternary_run(b.qs, 32, 5, d, y);
    y = ternary_run(b.qs + 32, 16, 5, d, y);
    ternary_run(b.qh, 4, 4, d, y);
  });
}

void decode_tq2_0(const std::byte* blocks, std::span<float> out) {
  each_block<BlockTQ2_0, 256>(blocks, out, [](const BlockTQ2_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int group = 0; group < 8; ++group) {
      const uint8_t* qs = b.qs + group / 4 * 32;
      const int shift = group % 4 * 2;
      for (int l = 0; l < 32; ++l) y[32 * group + l] = static_cast<float>(((qs[l] >> shift) & 3) - 1) * d;
    }
  });
}

void decode_mxfp4(const std::byte* blocks, std::span<float> out) {
  each_block<BlockMXFP4, 32>(blocks, out, [](const BlockMXFP4& b, float* y) {
    const float d = e8m0_half_to_float(b.e);
    for (int j = 0; j < 16; ++j) {
      y[j] = static_cast<float>(kFp4Values[b.qs[j] & 15]) * d;
      y[j + 16] = static_cast<float>(kFp4Values[b.qs[j] >> 4]) * d;
    }
  });
}

void decode_nvfp4(const std::byte* blocks, std::span<float> out) {
  each_block<BlockNVFP4, 64>(blocks, out, [](const BlockNVFP4& b, float* y) {
    for (int group = 0; group < 4; ++group) {
      const float d = ue4m3_half_to_float(b.d[group]);
      const uint8_t* qs = b.qs + 8 * group;
      for (int j = 0; j < 8; ++j) {
        y[16 * group + j] = static_cast<float>(kFp4Values[qs[j] & 15]) * d;
        y[16 * group + j + 8] = static_cast<float>(kFp4Values[qs[j] >> 4]) * d;
      }
    }
  });
}

void decode_q1_0(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ1_0, 128>(blocks, out, [](const BlockQ1_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 128; ++j) y[j] = ((b.qs[j / 8] >> (j % 8)) & 1) != 0 ? d : -d;
  });
}

void decode_q2_0(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ2_0, 64>(blocks, out, [](const BlockQ2_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 64; ++j) y[j] = static_cast<float>(((b.qs[j / 4] >> (j % 4 * 2)) & 3) - 1) * d;
  });
}

}  // namespace cairn::quant
