#include "kernels/hyper_connection_operations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/test_support.h"

namespace cairn::kernels::cpu {
namespace {

constexpr int32_t kResidualStreams = 4;
constexpr int32_t kShares = stream_shares(kResidualStreams);

class HyperConnectionsTest : public ::testing::TestWithParam<Isa> {
 protected:
  StreamParams params(int32_t rounds) const { return {kResidualStreams, rounds, 1e-6F, scale_.data(), base_.data()}; }

  Random random_{1};
  const std::vector<float> scale_ = random_.normals(3);
  const std::vector<float> base_ = random_.normals(kShares);
};
INSTANTIATE_TEST_SUITE_P(Isas, HyperConnectionsTest, ::testing::ValuesIn(isas_under_test()), isa_test_name);

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_P(HyperConnectionsTest, SharesAreSigmoidsAndADoublyStochasticMatrix) {
  const auto backend = make_backend(GetParam(), 2);
  constexpr int64_t kRows = 5;
  const std::vector<float> logits = random_.normals(kRows * kShares);
  std::vector<float> shares(logits.size());
  backend->hyper_connections()->hyper_connection_weights(params(20), logits.data(), kRows, shares.data());
  for (int64_t r = 0; r < kRows; ++r) {
    const float* from = logits.data() + r * kShares;
    const float* to = shares.data() + r * kShares;
    for (int32_t i = 0; i < kResidualStreams; ++i) {
      EXPECT_NEAR(to[i], sigmoid(double{from[i]} * scale_[0] + base_[i]) + 1e-6, 1e-6);
      const int32_t j = kResidualStreams + i;
      EXPECT_NEAR(to[j], 2 * sigmoid(double{from[j]} * scale_[1] + base_[j]), 1e-6);
      double row = 0, column = 0;
      for (int32_t k = 0; k < kResidualStreams; ++k) {
        row += to[2 * kResidualStreams + i * kResidualStreams + k];
        column += to[2 * kResidualStreams + k * kResidualStreams + i];
      }
      EXPECT_NEAR(row, 1, 1e-3);
      EXPECT_NEAR(column, 1, 1e-5) << "columns come last";
    }
  }
}

// The first round computed by hand: a softmax of every row, then every column divided by its sum.
TEST_P(HyperConnectionsTest, OneRoundIsASoftmaxOfRowsThenNormalisedColumns) {
  const auto backend = make_backend(GetParam(), 1);
  const std::vector<float> logits = random_.normals(kShares);
  std::vector<float> shares(kShares);
  backend->hyper_connections()->hyper_connection_weights(params(1), logits.data(), 1, shares.data());
  double matrix[kResidualStreams][kResidualStreams];
  for (int32_t from = 0; from < kResidualStreams; ++from) {
    double sum = 0;
    for (int32_t to = 0; to < kResidualStreams; ++to) {
      const int32_t at = 2 * kResidualStreams + from * kResidualStreams + to;
      sum += matrix[from][to] = std::exp(double{logits[at]} * scale_[2] + base_[at]);
    }
    for (double& value : matrix[from]) value = value / sum + 1e-6;
  }
  for (int32_t to = 0; to < kResidualStreams; ++to) {
    double sum = 1e-6;
    for (const auto& row : matrix) sum += row[to];
    for (int32_t from = 0; from < kResidualStreams; ++from) {
      EXPECT_NEAR(shares[2 * kResidualStreams + from * kResidualStreams + to], matrix[from][to] / sum, 1e-6);
    }
  }
}

TEST_P(HyperConnectionsTest, ReadAndWriteAreWeightedByTheConnectionWeights) {
  const auto backend = make_backend(GetParam(), 2);
  constexpr int64_t kRows = 3, kCols = 67;
  const std::vector<float> x = random_.normals(kRows * kResidualStreams * kCols), y = random_.normals(kRows * kCols);
  const std::vector<float> shares = random_.normals(kRows * kShares);
  std::vector<float> in(kRows * kCols), out(x.size());
  HyperConnectionOperations& streams = *backend->hyper_connections();
  streams.hyper_connection_read(x.data(), shares.data(), kShares, kResidualStreams, kRows, kCols, in.data());
  streams.hyper_connection_write(x.data(), y.data(), shares.data(), kResidualStreams, kRows, kCols, out.data());
  for (int64_t r = 0; r < kRows; ++r) {
    const float* share = shares.data() + r * kShares;
    for (int64_t c = 0; c < kCols; ++c) {
      double collapsed = 0;
      for (int32_t i = 0; i < kResidualStreams; ++i)
        collapsed += double{share[i]} * x[(r * kResidualStreams + i) * kCols + c];
      EXPECT_NEAR(in[r * kCols + c], collapsed, 1e-5);
      for (int32_t to = 0; to < kResidualStreams; ++to) {
        double expected = double{share[kResidualStreams + to]} * y[r * kCols + c];
        for (int32_t from = 0; from < kResidualStreams; ++from) {
          expected += double{share[2 * kResidualStreams + from * kResidualStreams + to]} *
                      x[(r * kResidualStreams + from) * kCols + c];
        }
        EXPECT_NEAR(out[(r * kResidualStreams + to) * kCols + c], expected, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace cairn::kernels::cpu
