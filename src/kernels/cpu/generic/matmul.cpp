// Matrix products in plain C++: for machines without a table of their own, and short enough to be read as the
// definition.
#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/panel.h"
#include "quant/blocks.h"

namespace cairn::cpu {
namespace {

void quantize_block(const float* x, int64_t b, const Int8Row& row) {
  // Magnitudes compare as integers, which puts infinite above finite and NaN above both.
  uint32_t maximum_bits = 0;
  for (int i = 0; i < 32; ++i) maximum_bits = std::max(maximum_bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  const bool finite = maximum_bits < 0x7f800000u;
  const float maximum = finite ? std::bit_cast<float>(maximum_bits) : 0.0f;
  const bool zero = maximum < kInt8MaximumMin;
  const float inverse = zero ? 0.0f : 127.0f / maximum;

  int32_t lanes[2][2] = {};  // [half][even, odd], see int8_row.h
  for (int i = 0; i < 32; ++i) {
    const auto value = finite ? static_cast<int32_t>(std::nearbyint(x[i] * inverse)) : 0;
    row.values[32 * b + i] = static_cast<int8_t>(value);
    lanes[i / 16][i % 4 / 2] += value;
  }
  row.scales[b] = !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0f : maximum / 127.0f;
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

/// 32 columns of a weight row: column i is scale * factors[i / 16] * values[i] - min.
struct WeightBlock {
  int32_t values[32];
  int32_t factors[2];
  float scale;
  float min;
};

/// A weight row among panels.
struct WeightRow {
  TensorType type;
  const std::byte* panels;
  int64_t cols;
  int64_t row;
};

template <typename Block>
Block block_at(const WeightRow& row, int64_t index) {
  Block block;
  unpack_block(row.type, row.panels, row.cols, row.row, index, reinterpret_cast<std::byte*>(&block));
  return block;
}

WeightBlock decode_q8_0(const WeightRow& row, int64_t b) {
  const auto block = block_at<BlockQ8_0>(row, b);
  WeightBlock out{{}, {1, 1}, half_to_float(block.d), 0.0f};
  for (int i = 0; i < 32; ++i) out.values[i] = block.qs[i];
  return out;
}

WeightBlock decode_q4_0(const WeightRow& row, int64_t b) {
  const auto block = block_at<BlockQ4_0>(row, b);
  WeightBlock out{{}, {1, 1}, half_to_float(block.d), 0.0f};
  for (int i = 0; i < 16; ++i) {
    out.values[i] = (block.qs[i] & 15) - 8;
    out.values[i + 16] = (block.qs[i] >> 4) - 8;
  }
  return out;
}

WeightBlock decode_q4_k(const WeightRow& row, int64_t b) {
  const auto block = block_at<BlockQ4_K>(row, b / 8);
  const int group = static_cast<int>(b % 8);
  const ScaleMin sm = k4_scale_min(block.scales, group);
  WeightBlock out{{}, {1, 1}, half_to_float(block.d) * sm.scale, half_to_float(block.dmin) * sm.min};
  for (int i = 0; i < 32; ++i) {
    const uint8_t pair = block.qs[group / 2 * 32 + i];
    out.values[i] = group % 2 == 0 ? pair & 15 : pair >> 4;
  }
  return out;
}

WeightBlock decode_q6_k(const WeightRow& row, int64_t b) {
  const auto block = block_at<BlockQ6_K>(row, b / 8);
  const int part = static_cast<int>(b % 8) / 4;  // of 128 columns
  const int s = static_cast<int>(b % 4);         // 32 of them
  WeightBlock out{{}, {}, half_to_float(block.d), 0.0f};
  for (int i = 0; i < 2; ++i) out.factors[i] = block.scales[8 * part + 2 * s + i];
  for (int i = 0; i < 32; ++i) {
    const uint8_t low = block.ql[64 * part + 32 * (s % 2) + i];
    const int high = block.qh[32 * part + i] >> (2 * s) & 3;
    out.values[i] = ((s < 2 ? low & 15 : low >> 4) | high << 4) - 32;
  }
  return out;
}

WeightBlock decode_block(const WeightRow& row, int64_t b) {
  switch (row.type) {
    case TensorType::kQ8_0:
      return decode_q8_0(row, b);
    case TensorType::kQ4_0:
      return decode_q4_0(row, b);
    case TensorType::kQ4_K:
      return decode_q4_k(row, b);
    default:
      return decode_q6_k(row, b);
  }
}

float block_product(const WeightBlock& w, const Int8Row& y, int64_t b) {
  int32_t dot = 0;
  for (int half = 0; half < 2; ++half) {
    int32_t sum = 0;
    for (int i = 16 * half; i < 16 * half + 16; ++i) sum += w.values[i] * y.values[32 * b + i];
    dot += w.factors[half] * sum;
  }
  return w.scale * y.scales[b] * static_cast<float>(dot) - w.min * y.scaled_sums[b];
}

void matmul_int8(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int32_t t = 0; t < tokens; ++t) outputs[t][r] = 0.0f;
    for (int64_t b = 0; b < cols / 32; ++b) {
      const WeightBlock w = decode_block({type, weights, cols, r}, b);
      for (int32_t t = 0; t < tokens; ++t) outputs[t][r] += block_product(w, int8_row(inputs[t], cols), b);
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

void matmul_float(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
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

void matmul_rows(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const auto product = uses_int8(type) ? matmul_int8 : matmul_float;
  product(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
}

}  // namespace

const MatmulKernels kGenericMatmul = {"generic", quantize_row, matmul_rows};

}  // namespace cairn::cpu
