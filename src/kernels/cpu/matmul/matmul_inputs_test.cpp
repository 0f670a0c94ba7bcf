// Inputs of products besides weights: activations as int8 rows and as bfloat16.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul_test_support.h"
#include "quant/float_formats.h"

namespace cairn::kernels::cpu::matmul_test {
namespace {

class MatmulInputs : public MatmulTest {};

TEST_P(MatmulInputs, QuantizedRowsHaveTheSameBytesOnEveryInstructionSet) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (int repeat = 0; repeat < 50; ++repeat) {
    const int64_t cols = 32 * random_between(random_, 1, 40);
    std::vector<float> x;
    for (int64_t b = 0; b < cols / 32; ++b) {
      const float scale = std::ldexp(1.0f, static_cast<int>(random_between(random_, -140, 127)));
      const int64_t kind = random_between(random_, 0, 9);
      for (int i = 0; i < 32; ++i) {
        // Kind 1 has ties, at half a step.
        const auto steps = static_cast<float>(random_between(random_, -254, 254));
        x.push_back(kind == 0 ? 0.0f : kind == 1 ? (i == 0 ? 127.0f : steps / 2) : scale * steps / 254);
      }
      if (kind == 2) x[x.size() - 5] = infinity;
      if (kind == 3) x[x.size() - 17] = -std::numeric_limits<float>::quiet_NaN();
      if (kind == 4) x[x.size() - 9] = -0.0f;
    }
    Rows rows(2, int8_row_bytes(cols));
    std::memset(rows.row(0), 0xa5, int8_row_bytes(cols));
    kGenericMatmul.quantize_row(x.data(), cols, rows.row(0));
    GetParam().kernels->quantize_row(x.data(), cols, rows.row(1));
    ASSERT_EQ(std::memcmp(rows.row(0), rows.row(1), int8_row_bytes(cols)), 0) << "cols " << cols;
  }
}

TEST_P(MatmulInputs, QuantizedRowIsWithinHalfAStepAndSumsAreRight) {
  std::normal_distribution<float> normal;
  std::vector<float> x(96);
  for (auto& v : x) v = normal(random_);
  Rows rows(1, int8_row_bytes(96));
  GetParam().kernels->quantize_row(x.data(), 96, rows.row(0));
  const Int8Row row = int8_row(rows.row(0), 96);
  for (int b = 0; b < 3; ++b) {
    int32_t lanes[2][2] = {};
    int32_t largest = 0;
    for (int i = 0; i < 32; ++i) {
      const int8_t value = row.values[32 * b + i];
      largest = std::max(largest, std::abs(int32_t{value}));
      EXPECT_LE(std::abs(value * row.scales[b] - x[static_cast<size_t>(32 * b + i)]), row.scales[b] * 0.5001f);
      lanes[i / 16][i % 4 / 2] += value;
    }
    EXPECT_EQ(largest, 127);
    const int32_t sum = lanes[0][0] + lanes[0][1] + lanes[1][0] + lanes[1][1];
    EXPECT_EQ(row.scaled_sums[b], row.scales[b] * static_cast<float>(sum));
    for (int lane = 0; lane < 2; ++lane) {
      EXPECT_EQ(row.offsets8[2 * b + lane], -8 * (lanes[0][lane] + lanes[1][lane]));
      for (int half = 0; half < 2; ++half) {
        EXPECT_EQ(row.offsets32[4 * b + 2 * half + lane], -32 * lanes[half][lane]);
      }
    }
  }
}

TEST_P(MatmulInputs, RowsAreRoundedToNearestBfloat16AndPaddedWithZeros) {
  const auto round_row = GetParam().kernels->round_row;
  if (round_row == nullptr) GTEST_SKIP() << "takes float";
  for (const int64_t cols : {1, 15, 16, 31, 32, 33, 63, 64, 100, 256, 1000}) {
    std::vector<float> x;
    for (int64_t c = 0; c < cols; ++c) {
      // Random mantissas, with ties among them, and exponents that are neither tiny nor those of infinity and NaN.
      const auto mantissa = static_cast<uint32_t>(random_() & (random_() % 2 == 0 ? 0x807fffffu : 0x80018000u));
      x.push_back(std::bit_cast<float>(mantissa | static_cast<uint32_t>(random_between(random_, 1, 253)) << 23));
    }
    if (cols > 5) x[5] = -std::numeric_limits<float>::infinity();
    if (cols > 7) x[7] = -0.0f;
    Rows rows(1, bf16_row_bytes(cols));
    std::memset(rows.row(0), 0xa5, bf16_row_bytes(cols));
    round_row(x.data(), cols, rows.row(0));
    std::vector<uint16_t> values(bf16_row_bytes(cols) / 2);
    std::memcpy(values.data(), rows.row(0), bf16_row_bytes(cols));
    for (size_t c = 0; c < values.size(); ++c) {
      ASSERT_EQ(values[c], c < x.size() ? quant::float_to_bf16(x[c]) : 0) << "column " << c << " of " << cols;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, MatmulInputs, ::testing::ValuesIn(isas()), isa_name);

}  // namespace
}  // namespace cairn::kernels::cpu::matmul_test
