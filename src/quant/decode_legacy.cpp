// The first block formats: 32 elements with one scale, or a scale and a minimum.
#include "quant/blocks.h"
#include "quant/decode.h"

namespace cairn::quant {
namespace {

// Bit 4 of the two elements whose low bits share byte j.
int fifth_bit_low(const uint8_t* qh, int j) { return ((qh[j / 8] >> (j % 8)) & 1) << 4; }
int fifth_bit_high(const uint8_t* qh, int j) { return fifth_bit_low(qh, j + 16); }

}  // namespace

void decode_q4_0(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ4_0, 32>(blocks, out, [](const BlockQ4_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 16; ++j) {
      y[j] = static_cast<float>((b.qs[j] & 15) - 8) * d;
      y[j + 16] = static_cast<float>((b.qs[j] >> 4) - 8) * d;
    }
  });
}

void decode_q4_1(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ4_1, 32>(blocks, out, [](const BlockQ4_1& b, float* y) {
    const float d = half_to_float(b.d);
    const float m = half_to_float(b.m);
    for (int j = 0; j < 16; ++j) {
      y[j] = static_cast<float>(b.qs[j] & 15) * d + m;
      y[j + 16] = static_cast<float>(b.qs[j] >> 4) * d + m;
    }
  });
}

void decode_q5_0(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ5_0, 32>(blocks, out, [](const BlockQ5_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 16; ++j) {
      y[j] = static_cast<float>(((b.qs[j] & 15) | fifth_bit_low(b.qh, j)) - 16) * d;
      y[j + 16] = static_cast<float>(((b.qs[j] >> 4) | fifth_bit_high(b.qh, j)) - 16) * d;
    }
  });
}

void decode_q5_1(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ5_1, 32>(blocks, out, [](const BlockQ5_1& b, float* y) {
    const float d = half_to_float(b.d);
    const float m = half_to_float(b.m);
    for (int j = 0; j < 16; ++j) {
      y[j] = static_cast<float>((b.qs[j] & 15) | fifth_bit_low(b.qh, j)) * d + m;
      y[j + 16] = static_cast<float>((b.qs[j] >> 4) | fifth_bit_high(b.qh, j)) * d + m;
    }
  });
}

void decode_q8_0(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ8_0, 32>(blocks, out, [](const BlockQ8_0& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(b.qs[j]) * d;
  });
}

}  // namespace cairn::quant
