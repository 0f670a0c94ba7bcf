// Tests the chunks into which a row's positions are cut, and the merging of their sums, which all attention kernels of
// the GPU share: against the CPU's attention kernels and in double precision. Needs no GPU.
#include "kernels/cuda/attention/split_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/test_support.h"
#include "kernels/cuda/attention/merge.h"

namespace cairn::kernels::cuda {
namespace {

constexpr float kNoSink = -std::numeric_limits<float>::infinity();
constexpr int32_t kPositionsMax = 1 << 20;

TEST(AttentionPlan, ARowHasFewChunksOfWholePages) {
  for (int32_t seen = 1; seen < kPositionsMax; seen += 1 + seen / 500) {
    const int32_t chunk = chunk_positions(seen);
    EXPECT_EQ(chunk % kPageTokens, 0);
    EXPECT_GE(chunk, kChunkLeast);
    EXPECT_LE(chunk, chunk_positions(seen + 1));
    for (const int32_t begin : {0, 1, 31, 32, chunk - 1, chunk, 5 * chunk + 7}) {
      const Chunks chunks = chunks_of({begin, begin + seen}, chunk);
      EXPECT_LE(chunks.first * chunk, begin);
      EXPECT_GT((chunks.first + 1) * chunk, begin);
      EXPECT_LT(chunks.last * chunk, begin + seen);
      EXPECT_GE((chunks.last + 1) * chunk, begin + seen);
      const int32_t count = chunks.last - chunks.first + 1;
      EXPECT_LE(count, kChunksMax) << seen << " positions from " << begin;
      EXPECT_LE(count, chunks_most(seen, begin > 0)) << seen << " positions from " << begin;
    }
    EXPECT_LE(chunks_most(seen, true), chunks_most(seen + 1, true)) << "a call has rows that see less, too";
  }
}

TEST(AttentionPlan, ARowSeesItsWindowOrAllPositions) {
  const auto same = [](SeenPositions a, SeenPositions b) { return a.begin == b.begin && a.end == b.end; };
  EXPECT_TRUE(same(seen_positions(0, 0, 9, {}), {0, 1}));
  EXPECT_TRUE(same(seen_positions(700, 600, 200, {}), {0, 701}));
  EXPECT_TRUE(same(seen_positions(700, 600, 200, {.window = 33}), {668, 701}));
  EXPECT_TRUE(same(seen_positions(31, 0, 200, {.window = 33}), {0, 32}));
  EXPECT_TRUE(same(seen_positions(700, 600, 200, {.window = 33, .chunked = true}), {693, 701}));
  EXPECT_TRUE(same(seen_positions(692, 600, 200, {.window = 33, .chunked = true}), {660, 693}));
  EXPECT_TRUE(same(seen_positions(5, 0, 200, {.causal = false}), {0, 200}));
  EXPECT_TRUE(same(seen_positions(5, 0, 200, {.window = 17, .causal = false}), {0, 14}));
  EXPECT_TRUE(same(seen_positions(8, 0, 200, {.window = 16, .causal = false}), {0, 17}));
  EXPECT_TRUE(same(seen_positions(100, 0, 200, {.window = 16, .causal = false}), {92, 109}));
  EXPECT_TRUE(same(seen_positions(191, 0, 200, {.window = 16, .causal = false}), {183, 200}));
  EXPECT_TRUE(same(seen_positions(199, 0, 200, {.window = 1, .causal = false}), {199, 200}));
}

// A softmax-weighted sum over some positions.
struct Sum {
  float largest = 0;
  float total = 0;
  std::vector<float> values;
};

class AttentionMerge : public ::testing::Test {
 protected:
  static constexpr int32_t kDim = 12;

  AttentionMerge() : random_(5) {}

  void make(int32_t positions) {
    scores_ = random_.normals(positions, 4);
    values_ = random_.normals(int64_t{positions} * kDim);
  }
  Sum sum_of(int32_t begin, int32_t end) const {
    Sum sum{*std::max_element(scores_.begin() + begin, scores_.begin() + end), 0, std::vector<float>(kDim)};
    for (int32_t t = begin; t < end; ++t) {
      const float weight = std::exp(scores_[t] - sum.largest);
      sum.total += weight;
      for (int32_t d = 0; d < kDim; ++d) sum.values[d] += weight * values_[t * kDim + d];
    }
    return sum;
  }
  std::vector<double> truth(float sink) const {
    const double largest = std::max(*std::ranges::max_element(scores_), sink);
    double total = std::exp(sink - largest);
    std::vector<double> out(kDim);
    for (size_t t = 0; t < scores_.size(); ++t) {
      const double weight = std::exp(scores_[t] - largest);
      total += weight;
      for (int32_t d = 0; d < kDim; ++d) out[d] += weight * values_[t * kDim + d];
    }
    for (double& value : out) value /= total;
    return out;
  }

  cpu::Random random_;
  std::vector<float> scores_;
  std::vector<float> values_;
};

TEST_F(AttentionMerge, MergedChunksAgreeWithTheExactSumAndTheCpu) {
  SCOPED_TRACE(random_.trace());
  for (const int32_t positions : {1, 127, 128, 129, 700, 5000}) {
    make(positions);
    const int32_t chunk = chunk_positions(positions);
    for (const float sink : {kNoSink, 1.0f, 200.0f, -200.0f}) {
      Sum here = sum_of(0, std::min(chunk, positions)), there = here;
      there.largest *= cpu::kLog2OfE;
      for (int32_t begin = chunk; begin < positions; begin += chunk) {
        const Sum more = sum_of(begin, std::min(begin + chunk, positions));
        const Joint joint = joint_of(here.largest, more.largest);
        here.largest = joint.largest;
        here.total = joined(joint.keep, here.total, joint.take, more.total);
        for (int32_t d = 0; d < kDim; ++d)
          here.values[d] = joined(joint.keep, here.values[d], joint.take, more.values[d]);
        cpu::kGenericAttention.merge(&there.largest, &there.total, there.values.data(), more.largest * cpu::kLog2OfE,
                                     more.total, more.values.data(), kDim);
      }
      const float factor = finish_factor(here.largest, here.total, sink);
      std::vector<float> out(kDim);
      cpu::kGenericAttention.finish(there.largest, there.total, there.values.data(), sink, kDim, out.data());
      const std::vector<double> exact = truth(sink);
      for (int32_t d = 0; d < kDim; ++d) {
        EXPECT_NEAR(here.values[d] * factor, exact[d], 2e-6) << positions << " positions, sink " << sink;
        EXPECT_NEAR(here.values[d] * factor, out[d], 1e-6) << positions << " positions, sink " << sink;
      }
    }
  }
}

}  // namespace
}  // namespace cairn::kernels::cuda
