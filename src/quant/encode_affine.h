/// Private to quant: the search for scale and lowest value of a group of elements, x ~ low + scale * q, q in 0..kMost;
/// and for the integer scales and minima of the groups of a block.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quant/blocks.h"
#include "quant/encode.h"

namespace cairn::quant {

/// Weighted sums over a group that do not depend on the levels.
struct GroupSums {
  float w = 0.0f;
  float x = 0.0f;
  float xx = 0.0f;
};

template <int kElements>
GroupSums sum_group(const float* x, const float* w) {
  Sum8 sum_w;
  Sum8 sum_x;
  Sum8 sum_xx;
  const auto add = [&](int j, Vec4 Sum8::* lane) {
    const Vec4 value = load4(x + j);
    const Vec4 wx = load4(w + j) * value;
    sum_w.*lane += load4(w + j);
    sum_x.*lane += wx;
    sum_xx.*lane += wx * value;
  };
  for (int j = 0; j < kElements; j += 8) {
    add(j, &Sum8::even);
    add(j + 4, &Sum8::odd);
  }
  return {sum_w.total(), sum_x.total(), sum_xx.total()};
}

/// Weighted sums over levels, and over the error that they leave at the scale and the lowest value they were made with.
struct LevelSums {
  float error = 0.0f;
  float q = 0.0f;
  float qq = 0.0f;
  float xq = 0.0f;
};

template <int kMost, int kElements>
LevelSums level_sums(const float* x, const float* w, float scale, float low) {
  const float inverse = inverse_or_zero(scale);
  Sum8 error;
  Sum8 sum_q;
  Sum8 sum_qq;
  Sum8 sum_xq;
  const auto add = [&](int j, Vec4 Sum8::* lane) {
    const Vec4 above = load4(x + j) - low;
    const Vec4 q = round4(clamp4(above * inverse, 0.0f, kMost));
    const Vec4 wq = load4(w + j) * q;
    const Vec4 off = above - q * scale;
    error.*lane += load4(w + j) * off * off;
    sum_q.*lane += wq;
    sum_qq.*lane += wq * q;
    sum_xq.*lane += wq * load4(x + j);
  };
  for (int j = 0; j < kElements; j += 8) {
    add(j, &Sum8::even);
    add(j + 4, &Sum8::odd);
  }
  return {error.total(), sum_q.total(), sum_qq.total(), sum_xq.total()};
}

struct Affine {
  float scale = 0.0f;
  float low = 0.0f;
  float error = 0.0f;
};

/// Scale and lowest value by least squares for given levels. Where `any_low` is false, the latter is not above 0.
inline Affine solve(const GroupSums& group, const LevelSums& level, bool any_low) {
  const float determinant = group.w * level.qq - level.q * level.q;
  if (determinant > 0.0f) {
    const float scale = (group.w * level.xq - group.x * level.q) / determinant;
    const float low = (level.qq * group.x - level.q * level.xq) / determinant;
    if (scale >= 0.0f && (any_low || low < 0.0f)) return {scale, low, group.xx - scale * level.xq - low * group.x};
  }
  if (any_low && group.w > 0.0f && level.q <= 0.0f) {  // one level only
    const float low = group.x / group.w;
    return {0.0f, low, group.xx - low * group.x};
  }
  const float scale = level.qq > 0.0f && level.xq > 0.0f ? level.xq / level.qq : 0.0f;
  return {scale, 0.0f, group.xx - scale * level.xq};
}

/// How far the span of the levels is varied: `count` sizes from `first` to `last` times that of the group's span, each
/// at `shifts` places.
struct SpanTries {
  int count;
  float first;
  float last;
  int shifts;
};

/// The fit with the least error.
template <int kMost, int kElements>
Affine search_affine(const float* x, const float* w, const GroupSums& group, SpanTries tries, bool any_low) {
  float low = any_low ? x[0] : 0.0f;  // positive elements are spanned from 0 if the lowest value cannot be positive
  float high = x[0];
  for (int j = 0; j < kElements; ++j) {
    low = x[j] < low ? x[j] : low;
    high = x[j] > high ? x[j] : high;
  }
  if (high <= low) return {0.0f, low, 0.0f};
  Affine best = {0.0f, 0.0f, group.xx};
  const auto attempt = [&](float scale, float from) {
    const Affine fit = solve(group, level_sums<kMost, kElements>(x, w, scale, from), any_low);
    const bool better = fit.error < best.error;
    if (better) best = fit;
    return better;
  };
  const float span = high - low;
  attempt(span / kMost, low);
  for (int i = 0; i < tries.count; ++i) {
    const float size =
        span * (tries.first + (tries.last - tries.first) * static_cast<float>(i) / static_cast<float>(tries.count - 1));
    for (int shift = 0; shift < tries.shifts; ++shift) {
      const float place = tries.shifts == 1 ? 0.0f : static_cast<float>(shift) / static_cast<float>(tries.shifts - 1);
      attempt(size / kMost, low + (span - size) * place);
    }
  }
  for (int again = 0; again < 3 && attempt(best.scale, best.low); ++again) {
  }
  return best;
}

/// A block of 256 elements: two halves, and integer codes for the scale and the minimum (what is subtracted) of each
/// group of kGroup.
template <int kMost, int kGroup, int kCodeMost>
class AffineBlock {
 public:
  static constexpr int kGroups = 256 / kGroup;

  AffineBlock(const float* x, const float* w, SpanTries tries) {
    float scale_most = 0.0f;
    float min_most = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      sums_[g] = sum_group<kGroup>(x + kGroup * g, w + kGroup * g);
      fits_[g] = search_affine<kMost, kGroup>(x + kGroup * g, w + kGroup * g, sums_[g], tries, false);
      scale_most = std::max(scale_most, fits_[g].scale);
      min_most = std::max(min_most, -fits_[g].low);
    }
    refit_d_ = scale_most / kCodeMost;
    refit_dmin_ = min_most / kCodeMost;
    float error = choose_codes(x, w);
    for (int again = 0; again < 3; ++again) {
      AffineBlock next = *this;
      const float next_error = next.choose_codes(x, w);
      if (!(next_error < error)) break;
      *this = next;
      error = next_error;
    }
  }

  uint16_t d() const { return d_; }
  uint16_t dmin() const { return dmin_; }
  uint8_t scale_code(int group) const { return static_cast<uint8_t>(codes_[group].scale); }
  uint8_t min_code(int group) const { return static_cast<uint8_t>(codes_[group].min); }
  /// The levels of all 256 elements.
  void levels(const float* x, uint8_t* to) const {
    for (int g = 0; g < kGroups; ++g) {
      const float inverse = inverse_or_zero(half_to_float(d_) * static_cast<float>(codes_[g].scale));
      const float min = half_to_float(dmin_) * static_cast<float>(codes_[g].min);
      float q[kGroup];
      for (int j = 0; j < kGroup; j += 4) {
        store4(q + j, round4(clamp4((load4(x + kGroup * g + j) + min) * inverse, 0.0f, kMost)));
      }
      for (int j = 0; j < kGroup; ++j) to[kGroup * g + j] = static_cast<uint8_t>(static_cast<int>(q[j]));
    }
  }

 private:
  struct Codes {
    int scale;
    int min;
  };

  // Takes the refitted halves, and gives each group the codes with the least error near its wanted scale and minimum,
  // then refits the halves to them. Returns the block's error.
  float choose_codes(const float* x, const float* w) {
    d_ = float_to_half(clamp_to(refit_d_, 0.0f, kHalfMax));
    dmin_ = float_to_half(clamp_to(refit_dmin_, 0.0f, kHalfMax));
    const float d = half_to_float(d_);
    const float dmin = half_to_float(dmin_);
    float error = 0.0f;
    // x ~ d a - dmin b, where a = code * level and b = code: the sums of that fit.
    float aa = 0.0f;
    float ab = 0.0f;
    float bb = 0.0f;
    float xa = 0.0f;
    float xb = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      const LevelSums sums = choose_group(x + kGroup * g, w + kGroup * g, d, dmin, fits_[g], codes_[g]);
      const auto a = static_cast<float>(codes_[g].scale);
      const auto b = static_cast<float>(codes_[g].min);
      error += sums.error;
      aa += a * a * sums.qq;
      ab += a * b * sums.q;
      bb += b * b * sums_[g].w;
      xa += a * sums.xq;
      xb += b * sums_[g].x;
    }
    const float determinant = aa * bb - ab * ab;
    if (determinant > 0.0f) {
      refit_d_ = (xa * bb - xb * ab) / determinant;
      refit_dmin_ = (xa * ab - xb * aa) / determinant;
    } else if (aa > 0.0f) {
      refit_d_ = xa / aa;
    }
    return error;
  }

  static LevelSums choose_group(const float* x, const float* w, float d, float dmin, const Affine& wanted,
                                Codes& codes) {
    const auto near = [](float code) { return static_cast<int>(round_small(clamp_to(code, 0.0f, kCodeMost))); };
    const int scale = near(wanted.scale * inverse_or_zero(d));
    const int min = near(-wanted.low * inverse_or_zero(dmin));
    LevelSums best;
    bool found = false;
    for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kCodeMost); ++s) {
      for (int m = std::max(min - 1, 0); m <= std::min(min + 1, kCodeMost); ++m) {
        const LevelSums sums =
            level_sums<kMost, kGroup>(x, w, d * static_cast<float>(s), -(dmin * static_cast<float>(m)));
        if (found && !(sums.error < best.error)) continue;
        best = sums;
        codes = {s, m};
        found = true;
      }
    }
    return best;
  }

  uint16_t d_ = 0;
  uint16_t dmin_ = 0;
  Codes codes_[kGroups] = {};
  GroupSums sums_[kGroups];
  Affine fits_[kGroups];
  float refit_d_ = 0.0f;  // the halves that suit the present codes and levels best
  float refit_dmin_ = 0.0f;
};

}  // namespace cairn::quant
