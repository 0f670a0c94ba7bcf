/// Memory layout of a row of int8 activations. Per block of 32 columns: 32 values, their scale, and sums of the values
/// with which the offsets of unsigned weights are subtracted from a product: sum((q - 8) y) = sum(q y) - 8 sum(y).
///
/// Kernels keep partial sums in int16 lanes, two to four columns: the even lane has columns 4k and 4k+1, the odd one
/// 4k+2 and 4k+3. So the offsets are stored per lane, as the initial value of the lane's sum.
///
/// ISA files include this header under their own flags, hence `static inline` (see quant/blocks.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cpu {

/// The arrays of one row, each with one entry per block.
struct Int8Row {
  int8_t* values;      ///< [cols], in [-127, 127]
  float* scales;       ///< column c is values[c] * scales[c / 32]
  float* scaled_sums;  ///< scales[b] times the sum of the block's values
  int16_t* offsets8;   ///< [blocks][2]: -8 times the sum of the even lane's columns, of the odd lane's
  int16_t* offsets32;  ///< [blocks][2][2]: -32 times the same, per half of 16 columns
};

static inline Int8Row int8_row(std::byte* row, int64_t cols) {
  const int64_t blocks = cols / 32;
  std::byte* arrays = row + cols;
  return {reinterpret_cast<int8_t*>(row), reinterpret_cast<float*>(arrays),
          reinterpret_cast<float*>(arrays + 4 * blocks), reinterpret_cast<int16_t*>(arrays + 8 * blocks),
          reinterpret_cast<int16_t*>(arrays + 12 * blocks)};
}

/// For reading only: kernels get rows as pointers to const bytes.
static inline Int8Row int8_row(const std::byte* row, int64_t cols) {
  return int8_row(const_cast<std::byte*>(row), cols);
}

/// Bytes of values and arrays, unrounded.
static inline constexpr int64_t int8_row_bytes_used(int64_t cols) { return cols + 20 * (cols / 32); }

// What follows is in an unnamed namespace: a member function is inline, and would be shared between ISA files.
namespace {

/// Offsets of a block's entries in an int8 row, in bytes from its start; the same for all tokens.
struct Places {
  int64_t values;
  int64_t scales;
  int64_t scaled_sums;
  int64_t offsets8;
  int64_t offsets32;
  /// Prepared data of the first token (int8_prepared.h); the next token's is kPreparedRow further on.
  const int32_t* prepared = nullptr;

  void advance() {
    values += 32;
    scales += 4;
    scaled_sums += 4;
    offsets8 += 4;
    offsets32 += 8;
  }
};

inline Places places(const std::byte* input, int64_t cols, int64_t block) {
  const Int8Row row = int8_row(input, cols);
  const auto at = [input](const void* pointer) { return static_cast<const std::byte*>(pointer) - input; };
  return {at(row.values) + 32 * block, at(row.scales) + 4 * block, at(row.scaled_sums) + 4 * block,
          at(row.offsets8) + 4 * block, at(row.offsets32) + 8 * block};
}

}  // namespace

/// A block whose absolute maximum is below this is all zeros: 127 / maximum would overflow.
static constexpr float kInt8MaximumMin = 1e-30f;
/// The scale that maps `maximum`, which is at least kInt8MaximumMin, to 127.
static inline float int8_scale(float maximum) { return maximum / 127.0f; }

}  // namespace cairn::kernels::cpu
