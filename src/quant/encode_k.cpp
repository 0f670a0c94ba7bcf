// Q4_K and Q6_K: the scale of each group by search, then the groups' scales as integers of one float scale.
//
// Errors are weighted: an element that is large for its group counts more, because large weights are worth more to a
// model's output than their share of the squares.
#include <algorithm>
#include <cmath>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/encode.h"

namespace cairn::quant {
namespace {

// ---- Q4_K: x ~ scale * q - min, q in 0..15, scale >= 0, min >= 0 ----

constexpr int kGroup4 = 32;

struct Affine {
  float scale = 0.0f;
  float min = 0.0f;
};

// Sums over a group that do not depend on the levels.
struct Weighted {
  float w[kGroup4];
  float sum_w = 0.0f;
  float sum_x = 0.0f;
  float sum_xx = 0.0f;
};

Weighted weigh(const float* x) {
  Sum8 squares;
  for (int j = 0; j < kGroup4; j += 8) {
    squares.even += load4(x + j) * load4(x + j);
    squares.odd += load4(x + j + 4) * load4(x + j + 4);
  }
  const float mean = std::sqrt(squares.total() / kGroup4);
  Weighted weighted;
  Sum8 w;
  Sum8 wx;
  Sum8 wxx;
  const auto add = [&](int j, Vec4 Sum8::* lane) {
    const Vec4 value = load4(x + j);
    const Vec4 weight = mean + abs4(value);
    store4(weighted.w + j, weight);
    w.*lane += weight;
    wx.*lane += weight * value;
    wxx.*lane += weight * value * value;
  };
  for (int j = 0; j < kGroup4; j += 8) {
    add(j, &Sum8::even);
    add(j + 4, &Sum8::odd);
  }
  weighted.sum_w = w.total();
  weighted.sum_x = wx.total();
  weighted.sum_xx = wxx.total();
  return weighted;
}

struct Sums4 {
  float q = 0.0f;
  float qq = 0.0f;
  float xq = 0.0f;
};

// Weighted sums over the levels to which (x - low) * inverse is rounded.
Sums4 level_sums(const float* x, const Weighted& weighted, float low, float inverse) {
  Sum8 q_sum;
  Sum8 qq_sum;
  Sum8 xq_sum;
  const auto add = [&](int j, Vec4 Sum8::* lane) {
    const Vec4 value = load4(x + j);
    const Vec4 q = round4(clamp4((value - low) * inverse, 0.0f, 15.0f));
    const Vec4 wq = load4(weighted.w + j) * q;
    q_sum.*lane += wq;
    qq_sum.*lane += wq * q;
    xq_sum.*lane += wq * value;
  };
  for (int j = 0; j < kGroup4; j += 8) {
    add(j, &Sum8::even);
    add(j + 4, &Sum8::odd);
  }
  return {q_sum.total(), qq_sum.total(), xq_sum.total()};
}

// Finds scale and minimum for given levels by least squares, where min does not become negative. Returns the weighted
// error.
float solve(const Weighted& weighted, const Sums4& sums, Affine& fit) {
  const float determinant = weighted.sum_w * sums.qq - sums.q * sums.q;
  if (determinant > 0.0f) {
    fit.scale = (weighted.sum_w * sums.xq - weighted.sum_x * sums.q) / determinant;
    fit.min = (sums.q * sums.xq - sums.qq * weighted.sum_x) / determinant;
    if (fit.min > 0.0f && fit.scale >= 0.0f) {
      return weighted.sum_xx - fit.scale * sums.xq + fit.min * weighted.sum_x;
    }
  }
  fit.min = 0.0f;
  fit.scale = sums.qq > 0.0f && sums.xq > 0.0f ? sums.xq / sums.qq : 0.0f;
  return weighted.sum_xx - fit.scale * sums.xq;
}

// Tries level spacings around the one that spans the group exactly, and keeps the fit with the least error.
Affine search_affine(const float* x, const Weighted& weighted) {
  float low = 0.0f;  // a group of positive elements is spanned from 0: min cannot be negative
  float high = x[0];
  for (int j = 0; j < kGroup4; ++j) {
    low = x[j] < low ? x[j] : low;
    high = x[j] > high ? x[j] : high;
  }
  if (high <= low) return {0.0f, -low};
  constexpr int kSteps = 14;
  Affine best;
  float best_error = 0.0f;
  for (int step = 0; step <= kSteps; ++step) {
    const float inverse = (14.0f + 0.15f * static_cast<float>(step)) / (high - low);
    Affine fit;
    const float error = solve(weighted, level_sums(x, weighted, low, inverse), fit);
    if (step == 0 || error < best_error) {
      best = fit;
      best_error = error;
    }
  }
  return best;
}

// Weighted error of a group whose scale and minimum have been rounded to what the block stores.
float packed_error(const float* x, const Weighted& weighted, float scale, float min) {
  const float inverse = inverse_or_zero(scale);
  Sum8 error;
  const auto add = [&](int j, Vec4 Sum8::* lane) {
    const Vec4 shifted = load4(x + j) + min;
    const Vec4 off = shifted - round4(clamp4(shifted * inverse, 0.0f, 15.0f)) * scale;
    error.*lane += load4(weighted.w + j) * off * off;
  };
  for (int j = 0; j < kGroup4; j += 8) {
    add(j, &Sum8::even);
    add(j + 4, &Sum8::odd);
  }
  return error.total();
}

struct Packed {
  int scale;
  int min;
};

// Rounds the fit's scale and minimum to 6 bits each. The nearest integers need not be the best pair, so their
// neighbours are tried as well.
Packed pack_fit(const float* x, const Weighted& weighted, const Affine& fit, float d, float dmin) {
  const int scale = static_cast<int>(round_small(clamp_to(fit.scale * inverse_or_zero(d), 0.0f, 63.0f)));
  const int min = static_cast<int>(round_small(clamp_to(fit.min * inverse_or_zero(dmin), 0.0f, 63.0f)));
  Packed best = {scale, min};
  float best_error = packed_error(x, weighted, d * static_cast<float>(scale), dmin * static_cast<float>(min));
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, 63); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, 63); ++m) {
      if (s == scale && m == min) continue;
      const float error = packed_error(x, weighted, d * static_cast<float>(s), dmin * static_cast<float>(m));
      if (error < best_error) {
        best = {s, m};
        best_error = error;
      }
    }
  }
  return best;
}

// Packs 6-bit scales and minima into 12 bytes: see k4_scale_min.
void write_scales(const Packed (&groups)[8], uint8_t (&out)[12]) {
  for (int i = 0; i < 4; ++i) {
    const Packed& low = groups[i];
    const Packed& high = groups[i + 4];
    out[i] = static_cast<uint8_t>(low.scale | (high.scale >> 4) << 6);
    out[i + 4] = static_cast<uint8_t>(low.min | (high.min >> 4) << 6);
    out[i + 8] = static_cast<uint8_t>((high.scale & 15) | (high.min & 15) << 4);
  }
}

void write_levels(const float* x, float scale, float min, uint8_t (&levels)[kGroup4]) {
  const float inverse = inverse_or_zero(scale);
  float q[kGroup4];
  for (int j = 0; j < kGroup4; j += 4) store4(q + j, round4(clamp4((load4(x + j) + min) * inverse, 0.0f, 15.0f)));
  for (int j = 0; j < kGroup4; ++j) levels[j] = static_cast<uint8_t>(static_cast<int>(q[j]));
}

void encode_block(const float (&x)[256], BlockQ4_K& b) {
  Weighted weighted[8];
  Affine fits[8];
  float scale_max = 0.0f;
  float min_max = 0.0f;
  for (int group = 0; group < 8; ++group) {
    weighted[group] = weigh(x + kGroup4 * group);
    fits[group] = search_affine(x + kGroup4 * group, weighted[group]);
    scale_max = std::max(scale_max, fits[group].scale);
    min_max = std::max(min_max, fits[group].min);
  }
  b.d = float_to_half(clamp_to(scale_max / 63.0f, 0.0f, kHalfMax));
  b.dmin = float_to_half(clamp_to(min_max / 63.0f, 0.0f, kHalfMax));
  const float d = half_to_float(b.d);
  const float dmin = half_to_float(b.dmin);
  Packed packed[8];
  uint8_t levels[8][kGroup4];
  for (int group = 0; group < 8; ++group) {
    const float* from = x + kGroup4 * group;
    packed[group] = pack_fit(from, weighted[group], fits[group], d, dmin);
    write_levels(from, d * static_cast<float>(packed[group].scale), dmin * static_cast<float>(packed[group].min),
                 levels[group]);
  }
  write_scales(packed, b.scales);
  for (int byte = 0; byte < 128; ++byte) {
    const int pair = byte / kGroup4;
    const int j = byte % kGroup4;
    b.qs[byte] = static_cast<uint8_t>(levels[2 * pair][j] | levels[2 * pair + 1][j] << 4);
  }
}

// ---- Q6_K: x ~ scale * q, q in -32..31, scale of either sign ----

constexpr int kGroup6 = 16;

// The scale of one group with the least error, weighted by x^2.
float search_scale(const float* x) {
  float extreme = 0.0f;
  for (int j = 0; j < kGroup6; ++j) extreme = std::fabs(x[j]) > std::fabs(extreme) ? x[j] : extreme;
  if (extreme == 0.0f) return 0.0f;
  float best_scale = 0.0f;
  float best_gain = 0.0f;  // by how much the fit lowers the sum of w x^2
  for (int step = -9; step <= 9; ++step) {
    // The extreme element is put near level -32, whichever its sign, because the negative side has one level more.
    const float inverse = -(32.0f + 0.1f * static_cast<float>(step)) / extreme;
    Sum8 xq;
    Sum8 qq;
    const auto add = [&](int j, Vec4 Sum8::* lane) {
      const Vec4 value = load4(x + j);
      const Vec4 q = round4(clamp4(value * inverse, -32.0f, 31.0f));
      const Vec4 wq = value * value * q;
      xq.*lane += wq * value;
      qq.*lane += wq * q;
    };
    for (int j = 0; j < kGroup6; j += 8) {
      add(j, &Sum8::even);
      add(j + 4, &Sum8::odd);
    }
    const float norm = qq.total();
    if (norm <= 0.0f) continue;
    const float scale = xq.total() / norm;
    const float gain = scale * xq.total();
    if (gain > best_gain) {
      best_gain = gain;
      best_scale = scale;
    }
  }
  return best_scale;
}

void encode_block(const float (&x)[256], BlockQ6_K& b) {
  float scales[16];
  float extreme = 0.0f;
  for (int group = 0; group < 16; ++group) {
    scales[group] = search_scale(x + kGroup6 * group);
    extreme = std::fabs(scales[group]) > std::fabs(extreme) ? scales[group] : extreme;
  }
  b.d = float_to_half(clamp_to(extreme / -128.0f, -kHalfMax, kHalfMax));
  const float d = half_to_float(b.d);
  const float inverse_d = inverse_or_zero(d);
  uint8_t levels[256];
  for (int group = 0; group < 16; ++group) {
    const float scale = round_small(clamp_to(scales[group] * inverse_d, -128.0f, 127.0f));
    b.scales[group] = static_cast<int8_t>(static_cast<int>(scale));
    const float inverse = inverse_or_zero(d * scale);
    for (int j = kGroup6 * group; j < kGroup6 * (group + 1); ++j) {
      const float q = round_small(clamp_to(x[j] * inverse, -32.0f, 31.0f));
      levels[j] = static_cast<uint8_t>(static_cast<int>(q) + 32);
    }
  }
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

}  // namespace

void encode_q4_k(std::span<const float> in, std::byte* blocks) {
  each_block_of<BlockQ4_K, 256>(in, blocks, encodable_max(TensorType::kQ4_K),
                                [](const float(&x)[256], BlockQ4_K& b) { encode_block(x, b); });
}

void encode_q6_k(std::span<const float> in, std::byte* blocks) {
  each_block_of<BlockQ6_K, 256>(in, blocks, encodable_max(TensorType::kQ6_K),
                                [](const float(&x)[256], BlockQ6_K& b) { encode_block(x, b); });
}

}  // namespace cairn::quant
