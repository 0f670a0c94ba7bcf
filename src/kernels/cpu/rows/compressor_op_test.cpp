#include "kernels/compressor_operations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/mla/mla_test_support.h"
#include "kernels/cpu/test_support.h"

namespace cairn::kernels::cpu {
namespace {

class Compressor : public ::testing::TestWithParam<Isa> {
 protected:
  Random random_{1};
};
INSTANTIATE_TEST_SUITE_P(Isas, Compressor, ::testing::ValuesIn(isas_under_test()), isa_test_name);

// Column `column` of compressed row `row`, in double precision.
double expected(const CompressorParams& params, const RowPages& values, const RowPages& scores, int32_t row,
                int32_t column) {
  const int32_t own = row * params.ratio;
  const int32_t first = params.overlapping ? std::max(0, own - params.ratio) : own;
  double sum = 0, total = 0;
  for (int32_t position = first; position < own + params.ratio; ++position) {
    const int32_t c = column + (params.overlapping && position >= own ? params.dim : 0);
    const int64_t at = int64_t{position} * params.width() + c;
    const double weight =
        std::exp(double{scores.rows[at]} + params.biases[position % params.ratio * params.width() + c]);
    sum += weight * values.rows[at];
    total += weight;
  }
  return sum / total;
}

TEST_P(Compressor, RowsAreSoftmaxWeightedMeansHoweverTheirPositionsAreSliced) {
  const auto backend = make_backend(GetParam(), 2);
  for (const auto& [ratio, overlapping] : {std::pair{4, true}, {4, false}, {64, false}, {128, false}}) {
    CompressorParams params{.ratio = ratio, .dim = 21, .overlapping = overlapping};
    const std::vector<float> biases = random_.normals(int64_t{ratio} * params.width());
    params.biases = biases.data();
    constexpr int32_t kTokens = 300;
    RowPages values(*backend, KvType::kF32, params.width(), 1, kTokens, random_);
    RowPages scores(*backend, KvType::kF32, params.width(), 1, kTokens, random_);
    values.store(0, kTokens);
    scores.store(0, kTokens);
    // The two views share pages and differ only in their memory.
    scores.pages = values.pages;
    scores.store(0, kTokens);
    const AttentionSlice all = values.slice(0, kTokens);
    std::vector<float> whole(int64_t{kv_rows(kTokens, ratio)} * params.dim);
    backend->compressor()->compress(params, values.kv, scores.kv, {&all, 1}, whole.data());
    for (int32_t row = 0; row < kv_rows(kTokens, ratio); ++row) {
      for (int32_t c = 0; c < params.dim; ++c) {
        ASSERT_NEAR(whole[row * params.dim + c], expected(params, values, scores, row, c), 2e-6)
            << ratio << " row " << row;
      }
    }
    std::vector<float> pieces;
    for (int32_t begin = 0; begin < kTokens;) {
      const int32_t end = std::min(kTokens, begin + random_.integer(1, 37));
      const AttentionSlice slice = values.slice(begin, end);
      std::vector<float> some(int64_t{kv_rows(end, ratio) - kv_rows(begin, ratio)} * params.dim);
      backend->compressor()->compress(params, values.kv, scores.kv, {&slice, 1}, some.data());
      pieces.insert(pieces.end(), some.begin(), some.end());
      begin = end;
    }
    EXPECT_TRUE(same_bits(whole, pieces));
  }
}

TEST_P(Compressor, RoundingToEightBitsKeepsFourSignificantBits) {
  const auto backend = make_backend(GetParam(), 1);
  constexpr int32_t kDims = 128, kStride = 131;
  std::vector<float> x = random_.normals(int64_t{3} * kStride, 100);
  const std::vector<float> before = x;
  backend->compressor()->round_fp8(x.data(), 3, kStride, kDims);
  for (size_t i = 0; i < x.size(); ++i) {
    const bool rounded = i % kStride < kDims;
    if (!rounded) {
      EXPECT_EQ(x[i], before[i]);
      continue;
    }
    // The tolerance is half a unit of four bits, or of the smallest number that a block of this size can hold.
    EXPECT_LE(std::abs(x[i] - before[i]), std::max(std::abs(before[i]) / 16, 0.002F)) << i;
    int exponent = 0;
    const float fraction = std::frexp(x[i], &exponent) * 16;
    EXPECT_EQ(fraction, std::nearbyint(fraction)) << x[i];
  }
  const std::vector<float> once = x;
  backend->compressor()->round_fp8(x.data(), 3, kStride, kDims);
  EXPECT_TRUE(same_bits(once, x)) << "rounding twice changes nothing";
}

// With the largest number 448 * 2^k the scale is exactly 2^k, not the next one.
TEST_P(Compressor, TheLargestEightBitNumberIsUsed) {
  const auto backend = make_backend(GetParam(), 1);
  std::vector<float> x(64, 1.0F);
  x[0] = 448;
  x[2] = 0.0009F;   // below half of the smallest number, 2^-9
  x[3] = 0.00196F;  // near the smallest number
  x[1] = 440;       // a tie between 432 and 448: the even code, 448
  backend->compressor()->round_fp8(x.data(), 1, 64, 64);
  EXPECT_EQ(x[0], 448);
  EXPECT_EQ(x[1], 448);
  EXPECT_EQ(x[2], 0);
  EXPECT_EQ(x[3], 0x1p-9F);
}

TEST_P(Compressor, RoundsToFourBitsAfterAHadamardTransform) {
  const auto backend = make_backend(GetParam(), 1);
  // The transform of a unit vector has all elements equal, and they round exactly.
  std::vector<float> x(128, 0);
  x[0] = 6 * std::sqrt(128.0F);
  backend->compressor()->hadamard_fp4(x.data(), 1, 128);
  for (const float value : x) EXPECT_FLOAT_EQ(value, 6);
  // In each 32 elements the magnitudes are those of a four-bit number times a power of two.
  std::vector<float> y = random_.normals(256);
  backend->compressor()->hadamard_fp4(y.data(), 2, 128);
  for (size_t block = 0; block < y.size(); block += 32) {
    float largest = 0;
    for (size_t i = block; i < block + 32; ++i) largest = std::max(largest, std::abs(y[i]));
    // 3 .. 6 times the scale.
    const float scale = std::exp2(std::ceil(std::log2(largest / 6)));
    const std::set<float> levels = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (size_t i = block; i < block + 32; ++i) EXPECT_TRUE(levels.contains(std::abs(y[i]) / scale)) << y[i] / scale;
  }
}

}  // namespace
}  // namespace cairn::kernels::cpu
