/// Products on the tensor cores: of matrices of 16-bit floats, whose activations are rounded to the weights' type, and
/// of quantised ones, whose weights are dequantised to float16 and whose activations are float16 too. Sums are float32.
///
/// The columns of a row are cut into steps of 32, each of which is two instructions: a lane has eight neighbouring
/// columns of a row, the first four for the one and the rest for the other. Four steps are a quad. The quads form eight
/// consecutive classes (K-splits) of equal length, except for the last ones (steps_of_class). A class adds its steps in
/// ascending order, from 0; the sums of the classes are added one after the other. So eight warps may compute a few
/// elements together, a class each, or one warp may compute many of them, class after class: both give the same bytes.
#pragma once

#include <cstdint>

#include "kernels/cuda/matmul/f16x2.cuh"
#include "kernels/cuda/matmul/mma.cuh"
#include "kernels/cuda/weights/float_formats.cuh"

namespace cairn::kernels::cuda {

using HalfFormats = FormatList<FormatF16, FormatBF16>;

inline constexpr int kHalfClasses = 8;
inline constexpr int kHalfStep = 32;
static_assert(kHalfStep == kGroupColumns);
/// Columns of a step per lane.
inline constexpr int kHalfColumns = 8;
inline constexpr int kPieces = kHalfStep / kHalfColumns;
inline constexpr int kQuad = 4;  // steps

__device__ __forceinline__ int32_t half_steps(const Product& product) {
  return (product.cols + kHalfStep - 1) / kHalfStep;
}
/// The steps of a class: class c has the steps [c n, (c + 1) n) of those that exist, which are whole quads except for
/// the row's last one.
__device__ __forceinline__ int32_t steps_of_class(const Product& product) {
  constexpr int32_t kColumns = kHalfStep * kQuad * kHalfClasses;
  return (product.cols + kColumns - 1) / kColumns * kQuad;
}

/// Columns [column, column + kHalfColumns) of a row of 16-bit floats, with zeros beyond the end. With kWide, columns
/// are a multiple of kHalfColumns and the row is aligned to 16 bytes.
template <bool kWide>
__device__ __forceinline__ uint4 load_halves(const uint8_t* row, int32_t column, int32_t cols) {
  const uint8_t* at = row + static_cast<int64_t>(column) * 2;
  if constexpr (kWide) return column < cols ? *reinterpret_cast<const uint4*>(at) : uint4{0, 0, 0, 0};
  uint32_t words[4] = {};
#pragma unroll
  for (int k = 0; k < kHalfColumns; ++k) {
    if (column + k < cols) words[k / 2] |= load_half_word(at + 2 * k) << (k % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

/// Whether all rows of products can be read with kWide. It does not change results.
inline bool reads_wide_halves(const Products& products) {
  for (int i = 0; i < products.count; ++i) {
    const Product& each = products.of[i];
    if (each.cols % kHalfColumns != 0 || !aligned16(each.weights)) return false;
  }
  return true;
}

/// Factor on dequantised weights: it keeps the bits of small ones, and still allows any weight below 1023.
inline constexpr float kWeightUnits = 64;

/// The scales of a group's weights as float16: the factor on a code's distance from the format's centre, and the
/// summand (the weight of that centre, so that the rounded part is small).
template <class F>
struct HalfScales {
  static constexpr bool kOfHalves = F::kFactors != Factors::kNone || F::kMinima == Minima::kInteger;
  static constexpr bool kAdds = F::kMinima != Minima::kNone;
  static constexpr int kWords = kOfHalves && kAdds ? 2 : 1;

  /// With kOfHalves: the scales of columns [0, 16) and [16, 32), then the summands. Otherwise the scale, and the
  /// summand or the scale again.
  uint32_t words[kWords];

  __device__ __forceinline__ static HalfScales of(const GroupScales& scales) {
    uint32_t scale[2], added[2] = {};
#pragma unroll
    for (int half = 0; half < (kOfHalves ? 2 : 1); ++half) {
      float s = scales.scale, minimum = scales.minimum;
      if constexpr (F::kFactors != Factors::kNone) s = __fmul_rn(s, static_cast<float>(scales.factors[half]));
      if constexpr (F::kMinima == Minima::kInteger)
        minimum = __fmul_rn(minimum, static_cast<float>(scales.minima[half]));
      scale[half] = bits_of(s);
      if constexpr (kAdds) added[half] = bits_of(__fmaf_rn(s, static_cast<float>(F::kCentre), -minimum));
    }
    if constexpr (!kOfHalves) return {{scale[0] | (kAdds ? added[0] : scale[0]) << 16}};
    if constexpr (kWords == 2) return {{scale[0] | scale[1] << 16, added[0] | added[1] << 16}};
    return {{scale[0] | scale[1] << 16}};
  }
  /// The scale of that half of the columns, twice in a word.
  __device__ __forceinline__ uint32_t scale(int half) const {
    if constexpr (!kOfHalves && !kAdds) return words[0];
    if constexpr (!kOfHalves) return lower_twice(words[0]);
    return permute_bytes(words[0], 0, half != 0 ? 0x3232u : 0x1010u);
  }
  __device__ __forceinline__ uint32_t added(int half) const {
    if constexpr (!kOfHalves) return upper_twice(words[0]);
    return permute_bytes(words[kWords - 1], 0, kOfHalves && half == 0 ? 0x1010u : 0x3232u);
  }

 private:
  __device__ __forceinline__ static uint32_t bits_of(float number) {
    return __half_as_ushort(__float2half_rn(__fmul_rn(number, kWeightUnits)));
  }
};

/// Dequantises eight weights; `scale` and `added` are twice in a word.
template <class F>
__device__ __forceinline__ uint4 halves_of(const Octet& codes, uint32_t scale, uint32_t added) {
  constexpr uint32_t kHigh = 0x64646464u;                             // a byte b below this one is the float16 1024 + b
  constexpr uint32_t kOffset = (0x6480u + F::kCentre) * 0x00010001u;  // 1024 + 128 + the centre
  uint32_t two[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t bytes = codes.words[i / 2] ^ 0x80808080u;
    const uint32_t code = subtract_two(permute_bytes(bytes, kHigh, i % 2 == 0 ? 0x4140u : 0x4342u), kOffset);
    two[i] = HalfScales<F>::kAdds ? multiply_add_two(code, scale, added) : multiply_two(code, scale);
  }
  return {two[0], two[1], two[2], two[3]};
}

/// Dequantises eight weights from a word of four-bit codes, to the same bits.
template <class F>
__device__ __forceinline__ uint4 halves_of(uint32_t nibbles, uint32_t scale, uint32_t added) {
  constexpr int kMiddle = F::kNibbleOffset + F::kCentre;
  constexpr uint32_t kHigh = 0x64006400u;  // a number q below 1024 in its low bits makes the float16 1024 + q
  constexpr uint32_t kOffset = (0x6400u + kMiddle) * 0x00010001u;  // 1024 + the middle
  constexpr uint32_t kSixteenth = 0x2c002c00u;
  static_assert(kMiddle == 8);
  constexpr uint32_t kOffsetOfSixteen = 0xd480d480u;  // -(1024 / 16 + 8)
  uint32_t two[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = i < 2 ? nibbles : nibbles >> 8;
    const uint32_t code = i % 2 == 0 ? subtract_two(and_or(word, 0x000f000fu, kHigh), kOffset)
                                     : multiply_add_two(and_or(word, 0x00f000f0u, kHigh), kSixteenth, kOffsetOfSixteen);
    two[i] = HalfScales<F>::kAdds ? multiply_add_two(code, scale, added) : multiply_two(code, scale);
  }
  return {two[0], two[1], two[2], two[3]};
}

/// A step of 16 rows by 8 outputs: the lane's columns of rows g and g + 8, and of output g.
template <bool kBfloat>
__device__ __forceinline__ void multiply_step(const uint4& row, const uint4& row_below, const uint4& input,
                                              float (&sums)[4]) {
  const uint32_t first_a[4] = {row.x, row_below.x, row.y, row_below.y}, first_b[2] = {input.x, input.y};
  const uint32_t second_a[4] = {row.z, row_below.z, row.w, row_below.w}, second_b[2] = {input.z, input.w};
  if constexpr (kBfloat) {
    multiply_bf16(first_a, first_b, sums);
    multiply_bf16(second_a, second_b, sums);
  } else {
    multiply_f16(first_a, first_b, sums);
    multiply_f16(second_a, second_b, sums);
  }
}

/// Sum i of multiply_step belongs to row half_row(i, lane) and output half_output(i, lane).
__device__ __forceinline__ int32_t half_row(int i, int lane) { return lane / 4 + i / 2 * 8; }
__device__ __forceinline__ int32_t half_output(int i, int lane) { return lane % 4 * 2 + i % 2; }

/// The factor on the sums of an output; `unit` is the one that the weights have.
__device__ __forceinline__ float half_product_scale(const Product& product, int32_t output, float unit) {
  return __fmul_rn(product.halves.scales[product.input_of(output)], unit);
}
__device__ __forceinline__ void store_half_product(const Product& product, int32_t output, int32_t matrix, int32_t row,
                                                   float sum, float unit) {
  product.store(output, matrix, row, __fmul_rn(sum, half_product_scale(product, output, unit)));
}

}  // namespace cairn::kernels::cuda
