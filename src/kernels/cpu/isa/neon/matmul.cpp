#include "kernels/cpu/matmul/matmul.h"

#include <cstring>

#include "kernels/cpu/isa/neon/vector.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul_float_body.h"

namespace cairn::kernels::cpu {
namespace {

struct FloatVector : Vector {
  using Input = float;
  static constexpr int kColumns = kLanes;
  // Accumulators of 4 rows x 6 tokens, 6 activations and a weight take 31 of 32 registers.
  static constexpr int kRows = 4;
  static constexpr int kTokens = 6;
  using Vector::load;
  static F multiply_add(F a, F b, F c) { return fma(a, b, c); }
  static F load(const Bf16* from) {
    const uint16x4_t upper = vld1_u16(reinterpret_cast<const uint16_t*>(from));
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(upper), 16));
  }
};

/// Stores the scale and the offsets of 32 int8 values, 16 per vector.
void store_block_sums(const int8x16_t* values, float scale, int64_t b, const Int8Row& row) {
  int16x4_t halves[2];  // (even lane, odd lane), twice
  for (int i = 0; i < 2; ++i) {
    const int16x8_t pairs = vpaddlq_s8(values[i]);
    const int16x4_t four = vadd_s16(vget_low_s16(pairs), vget_high_s16(pairs));
    halves[i] = vadd_s16(four, vreinterpret_s16_s32(vrev64_s32(vreinterpret_s32_s16(four))));
  }
  const int16x4_t block = vadd_s16(halves[0], halves[1]);
  const int16x4_t offsets8 = vmul_n_s16(block, -8);
  const int32x2_t both = vzip1_s32(vreinterpret_s32_s16(halves[0]), vreinterpret_s32_s16(halves[1]));
  const int16x4_t offsets32 = vmul_n_s16(vreinterpret_s16_s32(both), -32);
  row.scales[b] = scale;
  row.scaled_sums[b] = scale * static_cast<float>(vget_lane_s16(block, 0) + vget_lane_s16(block, 1));
  std::memcpy(row.offsets8 + 2 * b, &offsets8, 4);
  std::memcpy(row.offsets32 + 4 * b, &offsets32, 8);
}

void quantize_block(const float* x, int64_t b, const Int8Row& row) {
  float32x4_t in[8];
  int32x4_t largest = vdupq_n_s32(0);
  for (int i = 0; i < 8; ++i) {
    in[i] = vld1q_f32(x + 4 * i);
    // Magnitudes compare as integers: infinity is larger than finite numbers, and NaN larger than both.
    largest = vmaxq_s32(largest, vandq_s32(vreinterpretq_s32_f32(in[i]), vdupq_n_s32(0x7fffffff)));
  }
  const int32_t maximum_bits = vmaxvq_s32(largest);
  const bool finite = maximum_bits < 0x7f800000;
  const float maximum = finite ? __builtin_bit_cast(float, maximum_bits) : 0.0f;
  const bool zero = maximum < kInt8MaximumMin;
  const float scale = zero ? 1.0f : int8_scale(maximum);
  const float inverse = zero ? 0.0f : 1.0f / scale;

  int16x4_t q[8];
  for (int i = 0; i < 8; ++i) {
    q[i] = finite ? vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(in[i], inverse))) : vdup_n_s16(0);
  }
  int8x16_t values[2];
  for (int i = 0; i < 2; ++i) {
    values[i] = vcombine_s8(vmovn_s16(vcombine_s16(q[4 * i], q[4 * i + 1])),
                            vmovn_s16(vcombine_s16(q[4 * i + 2], q[4 * i + 3])));
    vst1q_s8(row.values + 32 * b + 16 * i, values[i]);
  }
  store_block_sums(values, finite ? scale : __builtin_nanf(""), b, row);
}

void quantize_row(const float* x, int64_t cols, std::byte* out) {
  const Int8Row row = int8_row(out, cols);
  for (int64_t b = 0; b < cols / 32; ++b) quantize_block(x + 32 * b, b, row);
  const auto used = static_cast<size_t>(int8_row_bytes_used(cols));
  std::memset(out + used, 0, int8_row_bytes(cols) - used);
}

void matmul_panels(TensorType type, const std::byte* panels, int64_t cols, int64_t row_begin, int64_t row_end,
                   const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  MatmulFunction product = neon_product_of_32(type);
  if (product == nullptr) product = neon_product_of_256(type);
  product(type, panels, cols, row_begin, row_end, inputs, tokens, outputs);
}

}  // namespace

constinit const MatmulKernels kNeonMatmul = {"neon", quantize_row, FloatProducts<FloatVector>::matmul, matmul_panels,
                                             nullptr};

}  // namespace cairn::kernels::cpu
