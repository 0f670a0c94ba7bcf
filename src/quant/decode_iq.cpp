// The IQ formats: an index selects a codebook row of several levels, and sign bits are stored separately. The codebook
// of IQ4 has single levels.
#include "quant/blocks.h"
#include "quant/decode.h"
#include "quant/iq_grids.h"

namespace cairn::quant {
namespace {

// A row of levels with signs: bit j negates element j.
template <int kWidth>
void signed_row(const int8_t (&levels)[kWidth], uint32_t signs, float scale, float* y) {
  for (int j = 0; j < kWidth; ++j) {
    const float magnitude = scale * static_cast<float>(levels[j]);
    y[j] = ((signs >> j) & 1u) != 0 ? -magnitude : magnitude;
  }
}

void shifted_row(const int8_t (&levels)[8], float delta, float scale, float* y) {
  for (int j = 0; j < 8; ++j) y[j] = scale * (static_cast<float>(levels[j]) + delta);
}

uint32_t read_u32(const uint8_t* bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

constexpr float kIq1Delta = 0.125f;

}  // namespace

void decode_iq1_s(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ1_S, 256>(blocks, out, [](const BlockIQ1_S& b, float* y) {
    const float d = half_to_float(b.d);
    for (int group = 0; group < 8; ++group) {
      const uint32_t qh = b.qh[group];
      const float scale = d * static_cast<float>(2 * ((qh >> 12) & 7u) + 1);
      const float delta = (qh & 0x8000u) != 0 ? -kIq1Delta : kIq1Delta;
      for (int l = 0; l < 4; ++l) {
        const uint32_t index = b.qs[4 * group + l] | ((qh >> (3 * l)) & 7u) << 8;
        shifted_row(kIq1Grid.rows[index], delta, scale, y + 32 * group + 8 * l);
      }
    }
  });
}

void decode_iq1_m(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ1_M, 256>(blocks, out, [](const BlockIQ1_M& b, float* y) {
    const uint32_t half = (b.scales[0] >> 12) | ((b.scales[1] >> 12) << 4) | ((b.scales[2] >> 12) << 8) |
                          (static_cast<uint32_t>(b.scales[3] >> 12) << 12);
    const float d = half_to_float(static_cast<uint16_t>(half));
    for (int row = 0; row < 32; ++row) {
      const int pair = row / 2;  // pair of grid rows: 16 elements, one scale, one byte of qh
      const uint32_t code = (b.scales[pair / 4] >> (3 * (pair % 4))) & 7u;
      const float scale = d * static_cast<float>(2 * code + 1);
      const uint32_t high = (static_cast<uint32_t>(b.qh[pair]) >> (row % 2 * 4)) & 15u;
      const float delta = (high & 8u) != 0 ? -kIq1Delta : kIq1Delta;
      shifted_row(kIq1Grid.rows[b.qs[row] | (high & 7u) << 8], delta, scale, y + 8 * row);
    }
  });
}

void decode_iq2_xxs(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ2_XXS, 256>(blocks, out, [](const BlockIQ2_XXS& b, float* y) {
    const float d = half_to_float(b.d);
    for (int group = 0; group < 8; ++group) {
      const uint8_t* indices = b.qs + 8 * group;
      const uint32_t signs = read_u32(indices + 4);
      const float scale = d * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
      for (int l = 0; l < 4; ++l) {
        signed_row(kIq2XxsGrid.rows[indices[l]], even_signs((signs >> (7 * l)) & 127u), scale, y + 32 * group + 8 * l);
      }
    }
  });
}

void decode_iq2_xs(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ2_XS, 256>(blocks, out, [](const BlockIQ2_XS& b, float* y) {
    const float d = half_to_float(b.d);
    for (int row = 0; row < 32; ++row) {
      const int code = (b.scales[row / 4] >> (row % 4 / 2 * 4)) & 15;
      const float scale = d * (0.5f + static_cast<float>(code)) * 0.25f;
      const uint32_t q = b.qs[row];
      signed_row(kIq2XsGrid.rows[q & 511u], even_signs(q >> 9), scale, y + 8 * row);
    }
  });
}

void decode_iq2_s(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ2_S, 256>(blocks, out, [](const BlockIQ2_S& b, float* y) {
    const float d = half_to_float(b.d);
    for (int row = 0; row < 32; ++row) {
      const int code = (b.scales[row / 4] >> (row % 4 / 2 * 4)) & 15;
      const float scale = d * (0.5f + static_cast<float>(code)) * 0.25f;
      const uint32_t high = (static_cast<uint32_t>(b.qh[row / 4]) >> (2 * (row % 4))) & 3u;
      signed_row(kIq2SGrid.rows[b.qs[row] | high << 8], b.signs[row], scale, y + 8 * row);
    }
  });
}

void decode_iq3_xxs(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ3_XXS, 256>(blocks, out, [](const BlockIQ3_XXS& b, float* y) {
    const float d = half_to_float(b.d);
    for (int group = 0; group < 8; ++group) {
      const uint32_t packed = read_u32(b.scales_and_signs + 4 * group);
      const float scale = d * (0.5f + static_cast<float>(packed >> 28)) * 0.5f;
      for (int l = 0; l < 4; ++l) {
        const uint32_t signs = even_signs((packed >> (7 * l)) & 127u);
        const uint8_t* indices = b.qs + 8 * group + 2 * l;
        float* to = y + 32 * group + 8 * l;
        signed_row(kIq3XxsGrid.rows[indices[0]], signs, scale, to);
        signed_row(kIq3XxsGrid.rows[indices[1]], signs >> 4, scale, to + 4);
      }
    }
  });
}

void decode_iq3_s(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ3_S, 256>(blocks, out, [](const BlockIQ3_S& b, float* y) {
    const float d = half_to_float(b.d);
    for (int row = 0; row < 64; ++row) {
      const int group = row / 8;
      const int code = (b.scales[group / 2] >> (group % 2 * 4)) & 15;
      const float scale = d * static_cast<float>(1 + 2 * code);
      const uint32_t high = (static_cast<uint32_t>(b.qh[group]) >> (row % 8)) & 1u;
      const uint32_t signs = static_cast<uint32_t>(b.signs[row / 2]) >> (row % 2 * 4);
      signed_row(kIq3SGrid.rows[b.qs[row] | high << 8], signs, scale, y + 4 * row);
    }
  });
}

void decode_iq4_nl(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ4_NL, 32>(blocks, out, [](const BlockIQ4_NL& b, float* y) {
    const float d = half_to_float(b.d);
    for (int j = 0; j < 16; ++j) {
      y[j] = d * static_cast<float>(kIq4Values[b.qs[j] & 15]);
      y[j + 16] = d * static_cast<float>(kIq4Values[b.qs[j] >> 4]);
    }
  });
}

void decode_iq4_xs(const std::byte* blocks, std::span<float> out) {
  each_block<BlockIQ4_XS, 256>(blocks, out, [](const BlockIQ4_XS& b, float* y) {
    const float d = half_to_float(b.d);
    for (int group = 0; group < 8; ++group) {
      const int low = (b.scales_l[group / 2] >> (group % 2 * 4)) & 15;
      const int high = (b.scales_h >> (2 * group)) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const uint8_t* qs = b.qs + 16 * group;
      for (int j = 0; j < 16; ++j) {
        y[32 * group + j] = scale * static_cast<float>(kIq4Values[qs[j] & 15]);
        y[32 * group + j + 16] = scale * static_cast<float>(kIq4Values[qs[j] >> 4]);
      }
    }
  });
}

}  // namespace cairn::quant
