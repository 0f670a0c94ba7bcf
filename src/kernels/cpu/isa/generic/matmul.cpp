// Matrix products in plain C++: for machines without a table of their own, and short enough to serve as the definition.
#include "kernels/cpu/matmul/matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/packed/panel.h"

namespace cairn::kernels::cpu {
namespace {

void quantize_block(const float* x, int64_t b, const Int8Row& row) {
  // Magnitudes compare as integers: infinity is larger than finite numbers, and NaN larger than both.
  uint32_t maximum_bits = 0;
  for (int i = 0; i < 32; ++i) maximum_bits = std::max(maximum_bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  const bool finite = maximum_bits < 0x7f800000u;
  const float maximum = finite ? std::bit_cast<float>(maximum_bits) : 0.0f;
  const bool zero = maximum < kInt8MaximumMin;
  const float scale = zero ? 1.0f : int8_scale(maximum);
  const float inverse = zero ? 0.0f : 1.0f / scale;

  int32_t lanes[2][2] = {};  // [half][even, odd], see int8_row.h
  for (int i = 0; i < 32; ++i) {
    const auto value = finite ? static_cast<int32_t>(std::nearbyint(x[i] * inverse)) : 0;
    row.values[32 * b + i] = static_cast<int8_t>(value);
    lanes[i / 16][i % 4 / 2] += value;
  }
  row.scales[b] = finite ? scale : std::numeric_limits<float>::quiet_NaN();
  row.scaled_sums[b] = row.scales[b] * static_cast<float>(lanes[0][0] + lanes[0][1] + lanes[1][0] + lanes[1][1]);
  for (int lane = 0; lane < 2; ++lane) {
    row.offsets8[2 * b + lane] = static_cast<int16_t>(-8 * (lanes[0][lane] + lanes[1][lane]));
    for (int half = 0; half < 2; ++half) {
      row.offsets32[4 * b + 2 * half + lane] = static_cast<int16_t>(-32 * lanes[half][lane]);
    }
  }
}

void quantize_row(const float* x, int64_t cols, std::byte* out) {
  const Int8Row row = int8_row(out, cols);
  for (int64_t b = 0; b < cols / 32; ++b) quantize_block(x + 32 * b, b, row);
  std::memset(out + int8_row_bytes_used(cols), 0,
              int8_row_bytes(cols) - static_cast<size_t>(int8_row_bytes_used(cols)));
}

void matmul_panels(TensorType type, const std::byte* panels, int64_t cols, int64_t row_begin, int64_t row_end,
                   const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const int64_t block_cols = panel_format(type).block_cols;
  float w[kPanelBlockColsMax];
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int32_t t = 0; t < tokens; ++t) outputs[t][r] = 0.0f;
    for (int64_t at = 0; at < cols; at += block_cols) {
      decode_panel_block(type, panels, cols, r, at / block_cols, w);
      for (int32_t t = 0; t < tokens; ++t) {
        const Int8Row y = int8_row(inputs[t], cols);
        for (int64_t b = 0; b < block_cols / 32; ++b) {
          // A sum of 32 products of a float and seven bits is exact in double.
          double dot = 0;
          for (int64_t i = 32 * b; i < 32 * b + 32; ++i) dot += static_cast<double>(w[i]) * y.values[at + i];
          outputs[t][r] += static_cast<float>(dot * y.scales[at / 32 + b]);
        }
      }
    }
  }
}

// A row is decoded a chunk at a time, once for a group of tokens. The chunk is a multiple of every type's block.
constexpr int64_t kChunkCols = 1024;
constexpr int32_t kGroupTokens = 64;
constexpr int kLanes = 8;

void matmul_float_group(TensorType type, const std::byte* row, int64_t cols, const std::byte* const* inputs,
                        int32_t tokens, float* results) {
  float w[kChunkCols];
  float lanes[kGroupTokens][kLanes] = {};
  for (int64_t begin = 0; begin < cols; begin += kChunkCols) {
    const int64_t n = std::min(kChunkCols, cols - begin);
    decode_weights(type, row + weight_row_bytes(type, begin), n, w);
    for (int32_t t = 0; t < tokens; ++t) {
      const float* x = reinterpret_cast<const float*>(inputs[t]) + begin;
      for (int64_t i = 0; i < n; ++i) lanes[t][i % kLanes] += w[i] * x[i];
    }
  }
  for (int32_t t = 0; t < tokens; ++t) {
    const float* l = lanes[t];
    results[t] = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
  }
}

void matmul_rows(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const int64_t stride = weight_row_bytes(type, cols);
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int32_t group = 0; group < tokens; group += kGroupTokens) {
      const int32_t n = std::min(kGroupTokens, tokens - group);
      float results[kGroupTokens];
      matmul_float_group(type, weights + r * stride, cols, inputs + group, n, results);
      for (int32_t t = 0; t < n; ++t) outputs[group + t][r] = results[t];
    }
  }
}

}  // namespace

const MatmulKernels kGenericMatmul = {"generic", quantize_row, matmul_rows, matmul_panels, nullptr};

}  // namespace cairn::kernels::cpu
