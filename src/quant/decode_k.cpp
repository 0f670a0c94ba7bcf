// The K formats: 256 elements in groups of 16 or 32, whose integer scales (and minima) share one float scale.
#include "quant/blocks.h"
#include "quant/decode.h"

namespace cairn::quant {

void decode_q2_k(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ2_K, 256>(blocks, out, [](const BlockQ2_K& b, float* y) {
    const float d = half_to_float(b.d);
    const float dmin = half_to_float(b.dmin);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(b.scales[group] & 15);
      const float min = dmin * static_cast<float>(b.scales[group] >> 4);
      const uint8_t* qs = b.qs + group / 8 * 32 + group % 2 * 16;
      const int shift = group % 8 / 2 * 2;
      for (int l = 0; l < 16; ++l) y[16 * group + l] = scale * static_cast<float>((qs[l] >> shift) & 3) - min;
    }
  });
}

void decode_q3_k(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ3_K, 256>(blocks, out, [](const BlockQ3_K& b, float* y) {
    const float d = half_to_float(b.d);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(q3_k_scale(b.scales, group));
      const uint8_t* qs = b.qs + group / 8 * 32 + group % 2 * 16;
      const uint8_t* high = b.hmask + group % 2 * 16;
      const int shift = group % 8 / 2 * 2;
      for (int l = 0; l < 16; ++l) {
        const int q = ((qs[l] >> shift) & 3) | ((high[l] >> (group / 2)) & 1) << 2;
        y[16 * group + l] = scale * static_cast<float>(q - 4);
      }
    }
  });
}

void decode_q4_k(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ4_K, 256>(blocks, out, [](const BlockQ4_K& b, float* y) {
    const float d = half_to_float(b.d);
    const float dmin = half_to_float(b.dmin);
    for (int group = 0; group < 8; ++group) {
      const ScaleMin sm = k4_scale_min(b.scales, group);
      const float scale = d * static_cast<float>(sm.scale);
      const float min = dmin * static_cast<float>(sm.min);
      const uint8_t* qs = b.qs + group / 2 * 32;
      const int shift = group % 2 * 4;
      for (int l = 0; l < 32; ++l) y[32 * group + l] = scale * static_cast<float>((qs[l] >> shift) & 15) - min;
    }
  });
}

void decode_q5_k(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ5_K, 256>(blocks, out, [](const BlockQ5_K& b, float* y) {
    const float d = half_to_float(b.d);
    const float dmin = half_to_float(b.dmin);
    for (int group = 0; group < 8; ++group) {
      const ScaleMin sm = k4_scale_min(b.scales, group);
      const float scale = d * static_cast<float>(sm.scale);
      const float min = dmin * static_cast<float>(sm.min);
      const uint8_t* qs = b.qs + group / 2 * 32;
      const int shift = group % 2 * 4;
      for (int l = 0; l < 32; ++l) {
        const int q = ((qs[l] >> shift) & 15) | ((b.qh[l] >> group) & 1) << 4;
        y[32 * group + l] = scale * static_cast<float>(q) - min;
      }
    }
  });
}

void decode_q6_k(const std::byte* blocks, std::span<float> out) {
  each_block<BlockQ6_K, 256>(blocks, out, [](const BlockQ6_K& b, float* y) {
    const float d = half_to_float(b.d);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(b.scales[group]);
      const int set = group % 8 / 2;  // number of the 32 elements within the 128
      const uint8_t* low = b.ql + group / 8 * 64 + set % 2 * 32 + group % 2 * 16;
      const uint8_t* high = b.qh + group / 8 * 32 + group % 2 * 16;
      for (int l = 0; l < 16; ++l) {
        const int q = ((low[l] >> (set / 2 * 4)) & 15) | ((high[l] >> (2 * set)) & 3) << 4;
        y[16 * group + l] = scale * static_cast<float>(q - 32);
      }
    }
  });
}

}  // namespace cairn::quant
