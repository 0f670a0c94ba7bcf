// Float rows and the formats of 32 elements with one scale.
#include <algorithm>
#include <cmath>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/encode.h"

namespace cairn::quant {
namespace {

// The element of largest magnitude, with its sign; of two equal magnitudes the positive element.
float extreme(const float (&x)[32]) {
  Vec4 low = load4(x);
  Vec4 high = low;
  for (int j = 4; j < 32; j += 4) {
    low = min4(low, load4(x + j));
    high = max4(high, load4(x + j));
  }
  const float least = std::min(std::min(low[0], low[1]), std::min(low[2], low[3]));
  const float most = std::max(std::max(high[0], high[1]), std::max(high[2], high[3]));
  return -least > most ? least : most;
}

struct Fit {
  uint16_t d;    // half
  float error;   // sum of squares
  float better;  // least-squares scale for the same levels
  float levels[32];
};

// Rounds x to levels -8..7 for one scale.
Fit fit_q4_0(const float (&x)[32], float scale) {
  Fit fit;
  fit.d = float_to_half(scale);
  const float d = half_to_float(fit.d);
  const float inverse = inverse_or_zero(d);
  Sum8 error;
  Sum8 xq;
  Sum8 qq;
  const auto add = [&](int j, Vec4 Sum8::* lane) {
    const Vec4 value = load4(x + j);
    const Vec4 q = round4(clamp4(value * inverse, -8.0f, 7.0f));
    const Vec4 off = value - q * d;
    store4(fit.levels + j, q);
    error.*lane += off * off;
    xq.*lane += value * q;
    qq.*lane += q * q;
  };
  for (int j = 0; j < 32; j += 8) {
    add(j, &Sum8::even);
    add(j + 4, &Sum8::odd);
  }
  fit.error = error.total();
  const float norm = qq.total();
  fit.better = norm > 0.0f ? clamp_to(xq.total() / norm, -kHalfMax, kHalfMax) : 0.0f;
  return fit;
}

}  // namespace

void encode_f32(std::span<const float> in, std::byte* blocks) {
  if (!in.empty()) std::memcpy(blocks, in.data(), in.size_bytes());
}

void encode_f16(std::span<const float> in, std::byte* blocks) {
  for (size_t i = 0; i < in.size(); ++i) {
    const uint16_t half = float_to_half(in[i]);
    std::memcpy(blocks + 2 * i, &half, 2);
  }
}

void encode_bf16(std::span<const float> in, std::byte* blocks) {
  for (size_t i = 0; i < in.size(); ++i) {
    const uint16_t bf16 = float_to_bf16(in[i]);
    std::memcpy(blocks + 2 * i, &bf16, 2);
  }
}

void encode_q8_0(std::span<const float> in, std::byte* blocks) {
  each_block_of<BlockQ8_0, 32>(in, blocks, encodable_max(TensorType::kQ8_0), [](const float(&x)[32], BlockQ8_0& b) {
    b.d = float_to_half(std::fabs(extreme(x)) / 127.0f);
    const float inverse = inverse_or_zero(half_to_float(b.d));
    float levels[32];
    for (int j = 0; j < 32; j += 4) store4(levels + j, round4(clamp4(load4(x + j) * inverse, -127.0f, 127.0f)));
    for (int j = 0; j < 32; ++j) b.qs[j] = static_cast<int8_t>(static_cast<int>(levels[j]));
  });
}

// The element of largest magnitude is put on level -8, whichever its sign; then the scale is fitted to the resulting
// levels and used if that lowers the error.
void encode_q4_0(std::span<const float> in, std::byte* blocks) {
  each_block_of<BlockQ4_0, 32>(in, blocks, encodable_max(TensorType::kQ4_0), [](const float(&x)[32], BlockQ4_0& b) {
    const Fit first = fit_q4_0(x, extreme(x) / -8.0f);
    const Fit second = fit_q4_0(x, first.better);
    const Fit& best = second.error < first.error ? second : first;
    b.d = best.d;
    for (int j = 0; j < 16; ++j) {
      const int low = static_cast<int>(best.levels[j]) + 8;
      const int high = static_cast<int>(best.levels[j + 16]) + 8;
      b.qs[j] = static_cast<uint8_t>(low | high << 4);
    }
  });
}

}  // namespace cairn::quant
