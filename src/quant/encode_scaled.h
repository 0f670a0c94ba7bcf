/// Private to quant: the search for the scale of a group of elements, x ~ scale * level, where levels are small
/// integers or a codebook; and for the integer scales of the groups of a block. A `Levels` type has
///   nearest(t)       the level nearest to each of four numbers
///   kLow, kHigh      the least and the largest level
///   kTries           how the element of largest magnitude is placed relative to those (see Tries)
#pragma once

#include <cmath>
#include <cstdint>

#include "quant/blocks.h"
#include "quant/encode.h"

namespace cairn::quant {

/// The element of largest magnitude is put at `count` places from `first` to `last` times an outermost level. Beyond 1
/// it is cut off, and the others gain. 1 itself is always among the places.
struct Tries {
  int count;
  float first;
  float last;
};

template <int kFrom, int kTo>
struct IntegerLevels {
  static constexpr float kLow = kFrom;
  static constexpr float kHigh = kTo;
  static Vec4 nearest(Vec4 t) { return round4(clamp4(t, kLow, kHigh)); }
};

/// The levels of IQ4_NL and IQ4_XS.
struct Iq4Levels {
  static constexpr float kLow = kIq4Values[0];
  static constexpr float kHigh = kIq4Values[15];
  static constexpr Tries kTries = {10, 0.82f, 1.32f};
  static Vec4 nearest(Vec4 t) {
    Vec4 level = splat4(kLow);
    for (int i = 0; i < 15; ++i) {
      const int sum = kIq4Values[i] + kIq4Values[i + 1];
      const auto step = static_cast<float>(kIq4Values[i + 1] - kIq4Values[i]);
      level += t > splat4(0.5f * static_cast<float>(sum)) ? splat4(step) : splat4(0.0f);
    }
    return level;
  }
};

/// Sums over a group whose elements have the levels nearest to them at some scale.
struct Fit {
  float error = 0.0f;  ///< weighted squares of what is left
  float xq = 0.0f;     ///< weighted sums of element times level, and of level squared
  float qq = 0.0f;
  /// The scale that suits these levels best.
  float scale() const { return qq > 0.0f ? clamp_to(xq / qq, -3e38f, 3e38f) : 0.0f; }
  /// The amount by which that scale lowers the weighted sum of squares.
  float gain() const { return qq > 0.0f ? xq / qq * xq : 0.0f; }
};

template <class Levels, int kElements>
Fit fit_levels(const float* x, const float* w, float scale) {
  const float inverse = inverse_or_zero(scale);
  Sum8 error;
  Sum8 xq;
  Sum8 qq;
  const auto add = [&](int j, Vec4 Sum8::* lane) {
    const Vec4 value = load4(x + j);
    const Vec4 q = Levels::nearest(value * inverse);
    const Vec4 wq = load4(w + j) * q;
    const Vec4 off = value - q * scale;
    error.*lane += load4(w + j) * off * off;
    xq.*lane += wq * value;
    qq.*lane += wq * q;
  };
  for (int j = 0; j < kElements; j += 8) {
    add(j, &Sum8::even);
    add(j + 4, &Sum8::odd);
  }
  return {error.total(), xq.total(), qq.total()};
}

/// Sets levels to the nearest at that scale.
template <class Levels, int kElements>
void write_levels(const float* x, float scale, float* levels) {
  const float inverse = inverse_or_zero(scale);
  for (int j = 0; j < kElements; j += 4) store4(levels + j, Levels::nearest(load4(x + j) * inverse));
}

/// The fit of a group with the least error, whose scale can be any number.
template <class Levels, int kElements>
Fit search_scale(const float* x, const float* w) {
  constexpr Tries kTries = Levels::kTries;
  constexpr float kStep = (kTries.last - kTries.first) / static_cast<float>(kTries.count - 1);
  const float extreme = extreme_of(x, kElements);
  Fit best;
  if (extreme == 0.0f) return best;
  const auto attempt = [&](float scale) {
    const Fit fit = fit_levels<Levels, kElements>(x, w, scale);
    const bool better = fit.gain() > best.gain();
    if (better) best = fit;
    return better;
  };
  attempt(extreme / Levels::kLow);
  for (int i = 0; i < kTries.count; ++i) {
    const float place = kTries.first + kStep * static_cast<float>(i);
    attempt(extreme / (Levels::kLow * place));
    if (Levels::kLow != -Levels::kHigh) attempt(extreme / (Levels::kHigh * place));
  }
  for (int again = 0; again < 3 && attempt(best.scale()); ++again) {
  }
  return best;
}

/// The half nearest to a scale.
inline uint16_t half_scale(float scale) { return float_to_half(clamp_to(scale, -kHalfMax, kHalfMax)); }

/// The half that is the best scale of a block with one scale only.
template <class Levels, int kElements>
uint16_t search_half(const float* x, const float* w) {
  uint16_t best = half_scale(search_scale<Levels, kElements>(x, w).scale());
  Fit fit = fit_levels<Levels, kElements>(x, w, half_to_float(best));
  for (int again = 0; again < 3; ++again) {
    const uint16_t next = half_scale(fit.scale());
    const Fit refit = fit_levels<Levels, kElements>(x, w, half_to_float(next));
    if (!(refit.error < fit.error)) break;
    best = next;
    fit = refit;
  }
  return best;
}

/// A block of 256 elements: a half times an integer code for each group of kGroup.
template <class Levels, int kGroup, int kCodeLow, int kCodeHigh>
class ScaledBlock {
 public:
  static constexpr int kGroups = 256 / kGroup;

  ScaledBlock(const float* x, const float* w) {
    float scales[kGroups];
    float extreme = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      scales[g] = search_scale<Levels, kGroup>(x + kGroup * g, w + kGroup * g).scale();
      extreme = std::fabs(scales[g]) > std::fabs(extreme) ? scales[g] : extreme;
    }
    // The largest scale gets the code of largest magnitude, whichever its sign.
    float error = choose_codes(x, w, half_scale(extreme / kCodeLow), scales);
    for (int again = 0; again < 2; ++again) {
      ScaledBlock next = *this;
      const float next_error = next.choose_codes(x, w, half_scale(refit_), scales);
      if (!(next_error < error)) break;
      *this = next;
      error = next_error;
    }
  }

  uint16_t d() const { return d_; }
  int code(int group) const { return codes_[group]; }
  float scale(int group) const { return half_to_float(d_) * static_cast<float>(codes_[group]); }
  /// The levels of all 256 elements.
  void levels(const float* x, float* to) const {
    for (int g = 0; g < kGroups; ++g) write_levels<Levels, kGroup>(x + kGroup * g, scale(g), to + kGroup * g);
  }

 private:
  // Gives each group the code with the least error near its wanted scale. Returns the block's error.
  float choose_codes(const float* x, const float* w, uint16_t half, const float* scales) {
    d_ = half;
    const float d = half_to_float(half);
    float error = 0.0f;
    float xq = 0.0f;
    float qq = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      const float wanted = round_small(clamp_to(scales[g] * inverse_or_zero(d), kCodeLow, kCodeHigh));
      const int middle = static_cast<int>(wanted);
      Fit best;
      bool found = false;
      for (int code = middle - 1; code <= middle + 1; ++code) {
        if (code < kCodeLow || code > kCodeHigh) continue;
        const Fit fit = fit_levels<Levels, kGroup>(x + kGroup * g, w + kGroup * g, d * static_cast<float>(code));
        if (found && !(fit.error < best.error)) continue;
        best = fit;
        codes_[g] = code;
        found = true;
      }
      const auto code = static_cast<float>(codes_[g]);
      error += best.error;
      xq += best.xq * code;
      qq += best.qq * code * code;
    }
    refit_ = qq > 0.0f ? xq / qq : 0.0f;
    return error;
  }

  uint16_t d_ = 0;
  int codes_[kGroups] = {};
  float refit_ = 0.0f;  // the d that suits the present codes and levels best
};

}  // namespace cairn::quant
