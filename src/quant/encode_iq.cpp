// The IQ formats with rows of a codebook: the scale of each group by search, with the nearest rows at each scale, then
// integer scales that share one float scale, with the nearest rows again.
#include <algorithm>
#include <bit>
#include <cmath>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/encode.h"
#include "quant/encode_grid.h"
#include "quant/encode_scaled.h"

namespace cairn::quant {
namespace {

// The rows of 8 elements.
struct Unit {
  uint16_t rows[2] = {};  // the second one only in formats with rows of 4
  uint8_t signs = 0;      // bit j: element j is negative
  bool minus = false;     // IQ1: levels are shifted down, not up
};

constexpr float kIq1Shift = 0.125f;

// A `Grid` type says what a format is made of:
//   kRows, kWidth    rows of the codebook and elements of each
//   kEven            whether the signs of 8 elements must have an even number of ones
//   kGroup           elements with one scale
//   kCodes           number of scale codes, and multiplier(code)
//   kTries           as for Levels
//   levels[]         the levels of a codebook's element
//   lists()          the codebook
template <class Grid>
constexpr float kTop = static_cast<float>(Grid::kLevels[std::size(Grid::kLevels) - 1]);

// The levels at a scale, with a number of vectors' worth of elements; levels that do not exist are out of reach.
template <class Grid>
struct ScaledLevels {
  static constexpr int kCount = RowErrors<Grid::kWidth>::kLevels;
  float levels[kCount];

  explicit ScaledLevels(float scale) {
    for (int i = 0; i < kCount; ++i) {
      levels[i] = i < static_cast<int>(std::size(Grid::kLevels)) ? scale * static_cast<float>(Grid::kLevels[i]) : 1e18f;
    }
  }

  // The errors of elements at each level, or at its negative if the sign is -1.
  void errors(const float* x, const float* w, float sign, LevelErrors<Grid::kWidth>& to) const {
    for (int j = 0; j < Grid::kWidth; ++j) {
      for (int i = 0; i < kCount; i += 4) {
        const Vec4 off = sign * x[j] - load4(levels + i);
        store4(to[j] + i, w[j] * off * off);
      }
    }
  }
};

// The row whose levels are nearest to each element by itself, if there is one: then it is the nearest by any weights.
template <class Grid>
int rounded_row(const float* x, float inverse) {
  constexpr int kCount = static_cast<int>(std::size(Grid::kLevels));
  Vec4 indices[Grid::kWidth / 4];
  for (int j = 0; j < Grid::kWidth / 4; ++j) {
    const Vec4 t = load4(x + 4 * j) * inverse;
    indices[j] = splat4(0.0f);
    for (int i = 1; i < kCount; ++i) {
      const float middle = 0.5f * static_cast<float>(Grid::kLevels[i - 1] + Grid::kLevels[i]);
      indices[j] += t > splat4(middle) ? splat4(1.0f) : splat4(0.0f);
    }
  }
  return Grid::lists().find(indices);
}

// Sums of a unit of elements x, without sign, whose rows have been chosen. `flip` is the bit of a turned sign, or 0.
template <class Grid>
Fit unit_fit(const float (&x)[8], const float* w, float scale, const Unit& unit, uint32_t flip, float shift) {
  Sum8 error;
  Sum8 xq;
  Sum8 qq;
  float q[8];
  for (int j = 0; j < 8; j += 4) {
    store4(q + j, load4(Grid::lists().values(unit.rows[j / Grid::kWidth]) + j % Grid::kWidth) + shift);
  }
  if (flip != 0) q[std::countr_zero(flip)] *= -1.0f;
  const auto sum = [&](int j, Vec4 Sum8::* lane) {
    const Vec4 wq = load4(w + j) * load4(q + j);
    const Vec4 off = load4(x + j) - scale * load4(q + j);
    error.*lane = load4(w + j) * off * off;
    xq.*lane = wq * load4(x + j);
    qq.*lane = wq * load4(q + j);
  };
  sum(0, &Sum8::even);
  sum(4, &Sum8::odd);
  return {error.total(), xq.total(), qq.total()};
}

// The element whose sign costs least to get wrong at the chosen levels.
template <class Grid>
int cheapest_flip(const float (&x)[8], const float* w, const Unit& unit) {
  int best = 0;
  float least = kNoRow;
  for (int j = 0; j < 8; ++j) {
    const float cost = w[j] * x[j] * Grid::lists().values(unit.rows[j / Grid::kWidth])[j % Grid::kWidth];
    if (cost < least) {
      least = cost;
      best = j;
    }
  }
  return best;
}

// Finds the rows of 8 elements without sign, where every sign is right.
template <class Grid>
void find_rows(const float* size, const float* w, float scale, Unit& unit) {
  const ScaledLevels<Grid> levels(scale);
  const float inverse = inverse_or_zero(scale);
  for (int part = 0; part < 8 / Grid::kWidth; ++part) {
    const float* x = size + Grid::kWidth * part;
    if (const int row = rounded_row<Grid>(x, inverse); row >= 0) {
      unit.rows[part] = static_cast<uint16_t>(row);
      continue;
    }
    LevelErrors<Grid::kWidth> errors;
    levels.errors(x, w + Grid::kWidth * part, 1.0f, errors);
    RowErrors<Grid::kWidth> sums;
    sum_rows(errors, sums);
    Grid::lists().nearest(sums, unit.rows[part]);
  }
}

// The same where exactly one sign is wrong, whichever costs least.
template <class Grid>
void find_rows_flipped(const float* size, const float* w, float scale, Unit& unit) {
  const ScaledLevels<Grid> levels(scale);
  float right_error = 0.0f;      // of the parts so far, with every sign right
  float flipped_error = kNoRow;  // with one wrong
  uint16_t flipped_rows[2] = {};
  for (int part = 0; part < 8 / Grid::kWidth; ++part) {
    LevelErrors<Grid::kWidth> right;
    LevelErrors<Grid::kWidth> wrong;
    levels.errors(size + Grid::kWidth * part, w + Grid::kWidth * part, 1.0f, right);
    levels.errors(size + Grid::kWidth * part, w + Grid::kWidth * part, -1.0f, wrong);
    RowErrors<Grid::kWidth> sums;
    RowErrors<Grid::kWidth> flipped;
    sum_rows(right, sums);
    sum_flipped_rows(right, wrong, flipped);
    uint16_t row = unit.rows[part];
    const float here = right_error + Grid::lists().nearest_flipped(sums, flipped, row);
    float error = 0.0f;
    if (Grid::kWidth == 4) error = Grid::lists().nearest(sums, unit.rows[part]);
    if (part == 0 || here < flipped_error + error) {  // else the part before has the wrong sign
      flipped_error = here;
      flipped_rows[0] = part == 0 ? row : unit.rows[0];
      flipped_rows[1] = row;
    } else {
      flipped_rows[1] = unit.rows[1];
    }
    right_error += error;
  }
  std::copy_n(flipped_rows, 8 / Grid::kWidth, unit.rows);
}

// Finds the rows and signs of 8 elements at a scale. Rows in `unit` are likely ones before. With `any_signs` all are
// right, which is quicker and enough to compare scales.
template <class Grid>
Fit fit_unit(const float* x, const float* w, float scale, bool any_signs, Unit& unit)
  requires(Grid::kSigned)
{
  float size[8];
  uint32_t signs = 0;
  for (int j = 0; j < 8; ++j) {
    size[j] = std::fabs(x[j]);
    signs |= (x[j] < 0.0f ? 1u : 0u) << j;
  }
  uint32_t flip = 0;
  if (Grid::kEven && !any_signs && std::popcount(signs) % 2 != 0) {
    find_rows_flipped<Grid>(size, w, scale, unit);
    flip = 1u << cheapest_flip<Grid>(size, w, unit);
  } else {
    find_rows<Grid>(size, w, scale, unit);
  }
  unit.signs = static_cast<uint8_t>(signs ^ flip);
  return unit_fit<Grid>(size, w, scale, unit, flip, 0.0f);
}

// IQ1: levels have signs of their own, and are shifted.
template <class Grid>
Fit fit_shifted(const float* x, const float* w, float scale, bool minus, Unit& unit) {
  const float shift = minus ? -kIq1Shift : kIq1Shift;
  float plain[8];
  float moved[8];
  for (int j = 0; j < 8; ++j) {
    plain[j] = x[j];
    moved[j] = x[j] - scale * shift;
  }
  find_rows<Grid>(moved, w, scale, unit);
  unit.minus = minus;
  return unit_fit<Grid>(plain, w, scale, unit, 0, shift);
}

void add(const Fit& fit, Fit& to) {
  to.error += fit.error;
  to.xq += fit.xq;
  to.qq += fit.qq;
}

template <class Grid>
constexpr int kUnits = Grid::kGroup / 8;

// The elements of one scale.
template <class Grid>
Fit fit_group(const float* x, const float* w, float scale, bool any_signs, Unit* units)
  requires(Grid::kSigned)
{
  Fit fit;
  for (int u = 0; u < kUnits<Grid>; ++u) add(fit_unit<Grid>(x + 8 * u, w + 8 * u, scale, any_signs, units[u]), fit);
  return fit;
}

// IQ1: kShifted is the number of elements whose levels are shifted the same way.
template <class Grid>
Fit fit_group(const float* x, const float* w, float scale, bool /*any_signs*/, Unit* units)
  requires(!Grid::kSigned)
{
  Fit all;
  constexpr int kTogether = Grid::kShifted / 8;
  for (int first = 0; first < kUnits<Grid>; first += kTogether) {
    Fit up;
    Fit down;
    Unit low[kTogether];
    for (int u = 0; u < kTogether; ++u) {
      const int at = first + u;
      low[u] = units[at];
      add(fit_shifted<Grid>(x + 8 * at, w + 8 * at, scale, false, units[at]), up);
      add(fit_shifted<Grid>(x + 8 * at, w + 8 * at, scale, true, low[u]), down);
    }
    if (down.error < up.error) std::copy_n(low, kTogether, units + first);
    add(down.error < up.error ? down : up, all);
  }
  return all;
}

// A block of 256 elements.
template <class Grid>
class GridBlock {
 public:
  static constexpr int kGroups = 256 / Grid::kGroup;

  GridBlock(const float* x, const float* w) {
    Fit fits[kGroups];
    float most = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      fits[g] = search(x + Grid::kGroup * g, w + Grid::kGroup * g, units_ + kUnits<Grid> * g);
      most = std::max(most, fits[g].scale());
    }
    if (most == 0.0f) return;
    const float error = choose_codes(x, w, choose_d(fits, most), fits, true);
    GridBlock next = *this;
    if (next.choose_codes(x, w, refit_, fits, false) < error) *this = next;
  }

  uint16_t d() const { return d_; }
  int code(int group) const { return codes_[group]; }
  const Unit& unit(int index) const { return units_[index]; }

 private:
  // The fit of a group with any scale.
  static Fit search(const float* x, const float* w, Unit* units) {
    const float extreme = std::fabs(extreme_of(x, Grid::kGroup));
    Fit best;
    if (extreme == 0.0f) return best;
    Unit now[kUnits<Grid>];
    const auto attempt = [&](float scale) {
      const Fit fit = fit_group<Grid>(x, w, scale, true, now);
      const bool better = fit.xq > 0.0f && fit.gain() > best.gain();
      if (better) {
        best = fit;
        std::copy_n(now, kUnits<Grid>, units);
      }
      return better;
    };
    constexpr Tries kTries = Grid::kTries;
    for (int i = 0; i < kTries.count; ++i) {
      const float place =
          kTries.first + (kTries.last - kTries.first) * static_cast<float>(i) / static_cast<float>(kTries.count - 1);
      attempt(extreme / (kTop<Grid> * place));
    }
    if (least_size(x) > 0.5f * extreme) {  // the codebook may have rows of equal lower levels only
      for (const int level : Grid::kLevels) {
        if (level > 0) attempt(extreme / static_cast<float>(level));
      }
    }
    attempt(best.scale());
    return best;
  }

  static float least_size(const float* x) {
    float least = std::fabs(x[0]);
    for (int j = 1; j < Grid::kGroup; ++j) least = std::min(least, std::fabs(x[j]));
    return least;
  }

  static int nearest_code(float multiple) {
    int best = 0;
    float least = kNoRow;
    for (int code = 0; code < Grid::kCodes; ++code) {
      const float off = std::fabs(multiple - Grid::multiplier(code));
      if (off < least) {
        least = off;
        best = code;
      }
    }
    return best;
  }

  // The codes on both sides of a multiple.
  struct Choices {
    int first;
    int last;
  };
  static Choices codes_near(float multiple) {
    const int code = nearest_code(multiple);
    const int other = multiple < Grid::multiplier(code) ? code - 1 : code + 1;
    if (other < 0 || other >= Grid::kCodes) return {code, code};
    return {std::min(code, other), std::max(code, other)};
  }

  // The common scale that lets the groups have scales nearest to the ones they want.
  static float choose_d(const Fit* fits, float most) {
    float best = most / Grid::multiplier(Grid::kCodes - 1);
    float least = kNoRow;
    for (int i = 0; i < 32; ++i) {
      const float d = most / (Grid::multiplier(Grid::kCodes - 1) * (1.04f - 0.015f * static_cast<float>(i)));
      float error = 0.0f;
      for (int g = 0; g < kGroups; ++g) {
        const float wanted = fits[g].scale();
        const float off = wanted - d * Grid::multiplier(nearest_code(wanted / d));
        error += fits[g].qq * off * off;
      }
      if (error < least) {
        least = error;
        best = d;
      }
    }
    return best;
  }

  // Gives each group the code with the least error near its wanted scale. Returns the block's error.
  float choose_codes(const float* x, const float* w, float wanted_d, const Fit* fits, bool search_codes) {
    d_ = half_scale(wanted_d);
    const float d = half_to_float(d_);
    float error = 0.0f;
    float xq = 0.0f;
    float qq = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      Unit* units = units_ + kUnits<Grid> * g;
      Unit now[kUnits<Grid>];
      std::copy_n(units, kUnits<Grid>, now);
      const Choices choices =
          search_codes ? codes_near(fits[g].scale() * inverse_or_zero(d)) : Choices{codes_[g], codes_[g]};
      Fit best;
      best.error = kNoRow;
      for (int code = choices.first; code <= choices.last; ++code) {
        const Fit fit =
            fit_group<Grid>(x + Grid::kGroup * g, w + Grid::kGroup * g, d * Grid::multiplier(code), false, now);
        if (!(fit.error < best.error)) continue;
        best = fit;
        codes_[g] = code;
        std::copy_n(now, kUnits<Grid>, units);
      }
      const float multiplier = Grid::multiplier(codes_[g]);
      error += best.error;
      xq += best.xq * multiplier;
      qq += best.qq * multiplier * multiplier;
    }
    refit_ = qq > 0.0f ? xq / qq : 0.0f;
    return error;
  }

  uint16_t d_ = 0;
  int codes_[kGroups] = {};
  Unit units_[32];
  float refit_ = 0.0f;  // the d that suits the present codes and rows best
};

template <int kRows, int kWidth, size_t kLevels>
const RowLists<kRows, kWidth>& lists_of(const GridCodes<kRows>& codes, const int8_t (&levels)[kLevels]) {
  static const RowLists<kRows, kWidth> lists(codes, levels);
  return lists;
}

struct Iq2Scales {
  static constexpr int kWidth = 8;
  static constexpr bool kSigned = true;
  static constexpr const auto& kLevels = kIq2Levels;
  static constexpr int kCodes = 16;
  static constexpr Tries kTries = {4, 0.9f, 1.8f};
  static float multiplier(int code) { return (0.5f + static_cast<float>(code)) * 0.25f; }
};

struct Iq2XxsGrid : Iq2Scales {
  static constexpr bool kEven = true;
  static constexpr int kGroup = 32;
  static const auto& lists() { return lists_of<256, 8>(kIq2XxsCodes, kLevels); }
};

struct Iq2XsGrid : Iq2Scales {
  static constexpr bool kEven = true;
  static constexpr int kGroup = 16;
  static const auto& lists() { return lists_of<512, 8>(kIq2XsCodes, kLevels); }
};

struct Iq2SGrid : Iq2Scales {
  static constexpr bool kEven = false;
  static constexpr int kGroup = 16;
  static const auto& lists() { return lists_of<1024, 8>(kIq2SCodes, kLevels); }
};

struct Iq3XxsGrid {
  static constexpr int kWidth = 4;
  static constexpr bool kSigned = true;
  static constexpr bool kEven = true;
  static constexpr int kGroup = 32;
  static constexpr const auto& kLevels = kIq3XxsLevels;
  static constexpr int kCodes = 16;
  static constexpr Tries kTries = {3, 0.95f, 1.35f};
  static float multiplier(int code) { return (0.5f + static_cast<float>(code)) * 0.5f; }
  static const auto& lists() { return lists_of<256, 4>(kIq3XxsCodes, kLevels); }
};

struct Iq3SGrid {
  static constexpr int kWidth = 4;
  static constexpr bool kSigned = true;
  static constexpr bool kEven = false;
  static constexpr int kGroup = 32;
  static constexpr const auto& kLevels = kIq3SLevels;
  static constexpr int kCodes = 16;
  static constexpr Tries kTries = {3, 0.95f, 1.35f};
  static float multiplier(int code) { return static_cast<float>(1 + 2 * code); }
  static const auto& lists() { return lists_of<512, 4>(kIq3SCodes, kLevels); }
};

struct Iq1Scales {
  static constexpr int kWidth = 8;
  static constexpr bool kSigned = false;
  static constexpr const auto& kLevels = kIq1Levels;
  static constexpr int kCodes = 8;
  static constexpr Tries kTries = {2, 1.3f, 2.0f};
  static float multiplier(int code) { return static_cast<float>(1 + 2 * code); }
  static const auto& lists() { return lists_of<2048, 8>(kIq1Codes, kLevels); }
};

struct Iq1SGrid : Iq1Scales {
  static constexpr int kGroup = 32;
  static constexpr int kShifted = 32;
};

struct Iq1MGrid : Iq1Scales {
  static constexpr int kGroup = 16;
  static constexpr int kShifted = 8;
};

void encode_block(const float (&x)[256], const float (&w)[256], BlockIQ2_XXS& b) {
  const GridBlock<Iq2XxsGrid> fitted(x, w);
  b.d = fitted.d();
  for (int group = 0; group < 8; ++group) {
    auto packed = static_cast<uint32_t>(fitted.code(group)) << 28;
    for (int l = 0; l < 4; ++l) {
      const Unit& unit = fitted.unit(4 * group + l);
      b.qs[8 * group + l] = static_cast<uint8_t>(unit.rows[0]);
      packed |= (unit.signs & 127u) << (7 * l);
    }
    std::memcpy(b.qs + 8 * group + 4, &packed, sizeof packed);
  }
}

// Scales of 4 bits, low nibble first.
template <class Block, int kBytes>
void write_scale_nibbles(const Block& fitted, uint8_t (&scales)[kBytes]) {
  for (int i = 0; i < kBytes; ++i) scales[i] = static_cast<uint8_t>(fitted.code(2 * i) | fitted.code(2 * i + 1) << 4);
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockIQ2_XS& b) {
  const GridBlock<Iq2XsGrid> fitted(x, w);
  b.d = fitted.d();
  write_scale_nibbles(fitted, b.scales);
  for (int row = 0; row < 32; ++row) {
    const Unit& unit = fitted.unit(row);
    b.qs[row] = static_cast<uint16_t>(unit.rows[0] | (unit.signs & 127) << 9);
  }
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockIQ2_S& b) {
  const GridBlock<Iq2SGrid> fitted(x, w);
  b.d = fitted.d();
  write_scale_nibbles(fitted, b.scales);
  std::fill_n(b.qh, 8, uint8_t{0});
  for (int row = 0; row < 32; ++row) {
    const Unit& unit = fitted.unit(row);
    b.qs[row] = static_cast<uint8_t>(unit.rows[0] & 255);
    b.qh[row / 4] = static_cast<uint8_t>(b.qh[row / 4] | (unit.rows[0] >> 8) << (2 * (row % 4)));
    b.signs[row] = unit.signs;
  }
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockIQ3_XXS& b) {
  const GridBlock<Iq3XxsGrid> fitted(x, w);
  b.d = fitted.d();
  for (int group = 0; group < 8; ++group) {
    auto packed = static_cast<uint32_t>(fitted.code(group)) << 28;
    for (int l = 0; l < 4; ++l) {
      const Unit& unit = fitted.unit(4 * group + l);
      b.qs[8 * group + 2 * l] = static_cast<uint8_t>(unit.rows[0]);
      b.qs[8 * group + 2 * l + 1] = static_cast<uint8_t>(unit.rows[1]);
      packed |= (unit.signs & 127u) << (7 * l);
    }
    std::memcpy(b.scales_and_signs + 4 * group, &packed, sizeof packed);
  }
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockIQ3_S& b) {
  const GridBlock<Iq3SGrid> fitted(x, w);
  b.d = fitted.d();
  write_scale_nibbles(fitted, b.scales);
  std::fill_n(b.qh, 8, uint8_t{0});
  for (int row = 0; row < 64; ++row) {
    const uint16_t index = fitted.unit(row / 2).rows[row % 2];
    b.qs[row] = static_cast<uint8_t>(index & 255);
    b.qh[row / 8] = static_cast<uint8_t>(b.qh[row / 8] | (index >> 8) << (row % 8));
  }
  for (int i = 0; i < 32; ++i) b.signs[i] = fitted.unit(i).signs;
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockIQ1_S& b) {
  const GridBlock<Iq1SGrid> fitted(x, w);
  b.d = fitted.d();
  for (int group = 0; group < 8; ++group) {
    int high = fitted.code(group) << 12 | (fitted.unit(4 * group).minus ? 0x8000 : 0);
    for (int l = 0; l < 4; ++l) {
      const int index = fitted.unit(4 * group + l).rows[0];
      b.qs[4 * group + l] = static_cast<uint8_t>(index & 255);
      high |= (index >> 8) << (3 * l);
    }
    b.qh[group] = static_cast<uint16_t>(high);
  }
}

void encode_block(const float (&x)[256], const float (&w)[256], BlockIQ1_M& b) {
  const GridBlock<Iq1MGrid> fitted(x, w);
  for (int i = 0; i < 4; ++i) b.scales[i] = static_cast<uint16_t>((fitted.d() >> (4 * i) & 15) << 12);
  for (int pair = 0; pair < 16; ++pair) {
    b.scales[pair / 4] = static_cast<uint16_t>(b.scales[pair / 4] | fitted.code(pair) << (3 * (pair % 4)));
    int high = 0;
    for (int l = 0; l < 2; ++l) {
      const Unit& unit = fitted.unit(2 * pair + l);
      b.qs[2 * pair + l] = static_cast<uint8_t>(unit.rows[0] & 255);
      high |= (unit.rows[0] >> 8 | (unit.minus ? 8 : 0)) << (4 * l);
    }
    b.qh[pair] = static_cast<uint8_t>(high);
  }
}

template <class Block>
void encode_grid(TensorType type, std::span<const float> in, const float* importance, std::byte* blocks) {
  each_block_of<Block, 256>(in, importance, blocks, encodable_max(type),
                            [](const float(&x)[256], const float(&w)[256], Block& b) { encode_block(x, w, b); });
}

}  // namespace

void encode_iq1_s(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_grid<BlockIQ1_S>(TensorType::kIQ1_S, in, importance, blocks);
}

void encode_iq1_m(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_grid<BlockIQ1_M>(TensorType::kIQ1_M, in, importance, blocks);
}

void encode_iq2_xxs(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_grid<BlockIQ2_XXS>(TensorType::kIQ2_XXS, in, importance, blocks);
}

void encode_iq2_xs(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_grid<BlockIQ2_XS>(TensorType::kIQ2_XS, in, importance, blocks);
}

void encode_iq2_s(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_grid<BlockIQ2_S>(TensorType::kIQ2_S, in, importance, blocks);
}

void encode_iq3_xxs(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_grid<BlockIQ3_XXS>(TensorType::kIQ3_XXS, in, importance, blocks);
}

void encode_iq3_s(std::span<const float> in, const float* importance, std::byte* blocks) {
  encode_grid<BlockIQ3_S>(TensorType::kIQ3_S, in, importance, blocks);
}

}  // namespace cairn::quant
