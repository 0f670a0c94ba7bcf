/// Private to quant: the row of a codebook (iq_grids.h) that is nearest to some elements by weighted squares. The
/// search is exact. The error of a row is a sum over its elements, so it is split into two parts that are sums of a few
/// numbers (a row's first half), and one number from a table (its second half). Rows are listed by first half; lists
/// whose two parts alone are too much, together with the least second half, are skipped.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "quant/encode.h"
#include "quant/iq_grid_codes.h"

namespace cairn::quant {

/// More than any row's error.
inline constexpr float kNoRow = 3e38f;

/// Errors of the elements of a row at each level. Rows of 8 have three levels: a part is the sums of two elements, the
/// table those of four. Rows of 4 have eight levels: a part is one element, the table the sums of two. Levels beyond
/// those that exist cost kNoRow.
template <int kWidth>
struct RowErrors {
  static constexpr int kLevels = kWidth == 8 ? 4 : 8;  ///< of one element, padded to a whole vector
  static constexpr int kParts = kWidth == 8 ? 12 : 8;  ///< of a part: index + kLevels * index of the second element
  float u[kParts];
  float v[kParts];
  float table[kParts * kParts];
  float u_least, v_least, table_least;
};

/// The errors of each element at each level.
template <int kWidth>
using LevelErrors = float[kWidth][RowErrors<kWidth>::kLevels];

inline float least_of(const float* from, int count) {
  Vec4 least = load4(from);
  for (int i = 4; i < count; i += 4) least = min4(least, load4(from + i));
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

/// All sums of two lists: to[a_count * j + i] = a[i] + b[j].
template <int a_count, int b_count>
void sum_all(const float* a, const float* b, float* to) {
  for (int j = 0; j < b_count; ++j) {
    for (int i = 0; i < a_count; i += 4) store4(to + a_count * j + i, load4(a + i) + b[j]);
  }
}

/// The same with exactly one of the two numbers exchanged for that of another list, whichever makes the sum smaller.
template <int a_count, int b_count>
void sum_all_flipped(const float* a, const float* b, const float* other_a, const float* other_b, float* to) {
  for (int j = 0; j < b_count; ++j) {
    for (int i = 0; i < a_count; i += 4) {
      store4(to + a_count * j + i, min4(load4(other_a + i) + b[j], load4(a + i) + other_b[j]));
    }
  }
}

inline void sum_rows(const LevelErrors<8>& errors, RowErrors<8>& rows) {
  float a[12];
  float b[12];
  sum_all<4, 3>(errors[0], errors[1], rows.u);
  sum_all<4, 3>(errors[2], errors[3], rows.v);
  sum_all<4, 3>(errors[4], errors[5], a);
  sum_all<4, 3>(errors[6], errors[7], b);
  sum_all<12, 12>(a, b, rows.table);
  rows.u_least = least_of(rows.u, 12);
  rows.v_least = least_of(rows.v, 12);
  rows.table_least = least_of(a, 12) + least_of(b, 12);
}

inline void sum_rows(const LevelErrors<4>& errors, RowErrors<4>& rows) {
  std::memcpy(rows.u, errors[0], sizeof rows.u);
  std::memcpy(rows.v, errors[1], sizeof rows.v);
  sum_all<8, 8>(errors[2], errors[3], rows.table);
  rows.u_least = least_of(rows.u, 8);
  rows.v_least = least_of(rows.v, 8);
  rows.table_least = least_of(errors[2], 8) + least_of(errors[3], 8);
}

/// The sums of `errors` with exactly one element of each part, or of the table's, at its error in `wrong` instead.
inline void sum_flipped_rows(const LevelErrors<8>& errors, const LevelErrors<8>& wrong, RowErrors<8>& rows) {
  float a[12];
  float b[12];
  float wrong_a[12];
  float wrong_b[12];
  sum_all_flipped<4, 3>(errors[0], errors[1], wrong[0], wrong[1], rows.u);
  sum_all_flipped<4, 3>(errors[2], errors[3], wrong[2], wrong[3], rows.v);
  sum_all<4, 3>(errors[4], errors[5], a);
  sum_all<4, 3>(errors[6], errors[7], b);
  sum_all_flipped<4, 3>(errors[4], errors[5], wrong[4], wrong[5], wrong_a);
  sum_all_flipped<4, 3>(errors[6], errors[7], wrong[6], wrong[7], wrong_b);
  sum_all_flipped<12, 12>(a, b, wrong_a, wrong_b, rows.table);
  rows.u_least = least_of(rows.u, 12);
  rows.v_least = least_of(rows.v, 12);
  rows.table_least = std::min(least_of(wrong_a, 12) + least_of(b, 12), least_of(a, 12) + least_of(wrong_b, 12));
}

inline void sum_flipped_rows(const LevelErrors<4>& errors, const LevelErrors<4>& wrong, RowErrors<4>& rows) {
  std::memcpy(rows.u, wrong[0], sizeof rows.u);
  std::memcpy(rows.v, wrong[1], sizeof rows.v);
  sum_all_flipped<8, 8>(errors[2], errors[3], wrong[2], wrong[3], rows.table);
  rows.u_least = least_of(rows.u, 8);
  rows.v_least = least_of(rows.v, 8);
  rows.table_least =
      std::min(least_of(wrong[2], 8) + least_of(errors[3], 8), least_of(errors[2], 8) + least_of(wrong[3], 8));
}

/// The rows of a codebook by their first halves.
template <int kRows, int kWidth>
class RowLists {
 public:
  static constexpr int kLevels = RowErrors<kWidth>::kLevels;
  static constexpr int kParts = RowErrors<kWidth>::kParts;

  template <size_t kCount>
  RowLists(const GridCodes<kRows>& codes, const int8_t (&levels)[kCount]) {
    std::ranges::fill(whole_, int16_t{-1});
    for (int row = 0; row < kRows; ++row) {
      int pattern = 0;
      for (int i = kWidth - 1; i >= 0; --i) {
        const int index = level_index(codes.rows[row], i);
        values_[row][i] = levels[index];
        pattern = kBase * pattern + index;
      }
      whole_[pattern] = static_cast<int16_t>(row);
    }
    int next = 0;
    for (int list = 0; list < kParts * kParts; ++list) {
      begin_[list] = static_cast<uint16_t>(next);
      for (int row = 0; row < kRows; ++row) {
        for (int i = 0; i < kWidth; ++i) levels_[row][i] = level_index(codes.rows[row], i);
        const auto& level = levels_[row];
        const int first = part(level, 0) + kParts * part(level, kWidth / 4);
        if (first != list) continue;
        const int second = part(level, kWidth / 2) + kParts * part(level, 3 * kWidth / 4);
        entries_[next++] = {static_cast<uint16_t>(row), static_cast<uint16_t>(second)};
      }
    }
    begin_[kParts * kParts] = static_cast<uint16_t>(next);
  }

  /// The levels of a row.
  const float* values(int row) const { return values_[row]; }

  /// The row whose elements have those level indices, whole numbers, or -1.
  int find(const Vec4 (&indices)[kWidth / 4]) const {
    Vec4 sum = indices[0] * Vec4{1.0f, kBase, kBase * kBase, kBase * kBase * kBase};
    if constexpr (kWidth == 8) sum += indices[1] * Vec4{81.0f, 243.0f, 729.0f, 2187.0f};
    return whole_[static_cast<int>((sum[0] + sum[1]) + (sum[2] + sum[3]))];
  }

  /// The error of one row.
  static float error_of(const std::array<uint8_t, kWidth>& level, const RowErrors<kWidth>& errors) {
    return errors.u[part(level, 0)] + errors.v[part(level, kWidth / 4)] +
           errors.table[part(level, kWidth / 2) + kParts * part(level, 3 * kWidth / 4)];
  }

  /// The same with exactly one element of the row at its error in `flipped`.
  static float flipped_error_of(const std::array<uint8_t, kWidth>& level, const RowErrors<kWidth>& errors,
                                const RowErrors<kWidth>& flipped) {
    const int i = part(level, 0);
    const int j = part(level, kWidth / 4);
    const int second = part(level, kWidth / 2) + kParts * part(level, 3 * kWidth / 4);
    const float wrong = std::min(flipped.u[i] + errors.v[j], errors.u[i] + flipped.v[j]);
    return std::min(errors.u[i] + errors.v[j] + flipped.table[second], wrong + errors.table[second]);
  }

  /// Sets `row`, which holds a likely row before, to the row with the least error, and returns that.
  float nearest(const RowErrors<kWidth>& errors, uint16_t& row) const {
    float best = error_of(levels_[row], errors);
    const float rest = errors.u_least + errors.table_least;
    for (int j = 0; j < kParts; ++j) {
      if (!(errors.v[j] + rest < best)) continue;
      for (int i = 0; i < kParts; ++i) {
        const float first = errors.u[i] + errors.v[j];
        if (!(first + errors.table_least < best)) continue;
        const int list = kParts * j + i;
        for (int e = begin_[list]; e < begin_[list + 1]; ++e) {
          const float error = first + errors.table[entries_[e].second];
          if (error < best) {
            best = error;
            row = entries_[e].row;
          }
        }
      }
    }
    return best;
  }

  /// Finds the row likewise, where `flipped` are the sums with the errors of exactly one element of the part exchanged
  /// for those that it has with the wrong sign, and one element of the row must have that.
  float nearest_flipped(const RowErrors<kWidth>& errors, const RowErrors<kWidth>& flipped, uint16_t& row) const {
    float best = flipped_error_of(levels_[row], errors, flipped);
    const float u = std::min(errors.u_least, flipped.u_least);
    for (int j = 0; j < kParts; ++j) {
      if (!(errors.v[j] + u + errors.table_least < best)) continue;
      for (int i = 0; i < kParts; ++i) {
        const float right = errors.u[i] + errors.v[j];
        const float wrong = std::min(flipped.u[i] + errors.v[j], errors.u[i] + flipped.v[j]);
        if (!(std::min(right + flipped.table_least, wrong + errors.table_least) < best)) continue;
        const int list = kParts * j + i;
        for (int e = begin_[list]; e < begin_[list + 1]; ++e) {
          const int second = entries_[e].second;
          const float error = std::min(right + flipped.table[second], wrong + errors.table[second]);
          if (error < best) {
            best = error;
            row = entries_[e].row;
          }
        }
      }
    }
    return best;
  }

 private:
  static uint8_t level_index(uint16_t code, int element) {
    constexpr int kBits = 16 / kWidth;
    return static_cast<uint8_t>((code >> (element * kBits)) & ((1 << kBits) - 1));
  }
  // The part that begins at that element: one element, or two with three levels.
  static int part(const std::array<uint8_t, kWidth>& level, int element) {
    return kWidth == 8 ? level[element] + kLevels * level[element + 1] : level[element];
  }

  struct Entry {
    uint16_t row;
    uint16_t second;
  };
  static constexpr int kBase = kWidth == 8 ? 3 : 8;  // number of levels
  int16_t whole_[kWidth == 8 ? 6561 : 4096];         // rows by their level indices, first element lowest
  alignas(16) float values_[kRows][kWidth];
  uint16_t begin_[kParts * kParts + 1];
  Entry entries_[kRows];
  std::array<uint8_t, kWidth> levels_[kRows];
};

}  // namespace cairn::quant
