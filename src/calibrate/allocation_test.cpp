#include "calibrate/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace cairn::calibrate {
namespace {

using Options = std::vector<TypeOption>;

struct Total {
  int64_t bytes = 0;
  double harm = 0;
};
Total total_of(std::span<const Options> tensors, std::span<const size_t> chosen) {
  Total total;
  for (size_t i = 0; i < tensors.size(); ++i) {
    total.bytes += tensors[i][chosen[i]].bytes;
    total.harm += tensors[i][chosen[i]].harm;
  }
  return total;
}

// Every choice there is.
double least_harm(std::span<const Options> tensors, int64_t bytes) {
  std::vector<size_t> chosen(tensors.size());
  double least = std::numeric_limits<double>::infinity();
  while (true) {
    const Total total = total_of(tensors, chosen);
    if (total.bytes <= bytes) least = std::min(least, total.harm);
    size_t i = 0;
    while (i < chosen.size() && ++chosen[i] == tensors[i].size()) chosen[i++] = 0;
    if (i == chosen.size()) return least;
  }
}

TEST(Allocation, IsTheBestThereIsForItsOwnSizeAndNeverLarger) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<Options> tensors(6);
    int64_t smallest = 0;
    int64_t largest = 0;
    for (Options& options : tensors) {
      double harm = 1 + random() % 100;
      int64_t bytes = 8 + random() % 50;
      smallest += bytes;
      for (int i = 0; i < 4; ++i) {
        options.push_back({TensorType::kF32, bytes, harm});
        bytes += 1 + random() % 40;
        harm *= 0.1 + 0.8 * static_cast<double>(random() % 100) / 100;
      }
      largest += options.back().bytes;
    }
    const int64_t budget = smallest + static_cast<int64_t>(random()) % (largest - smallest + 1);
    const auto chosen = allocate(tensors, budget);
    ASSERT_TRUE(chosen.has_value());
    const Total total = total_of(tensors, *chosen);
    EXPECT_LE(total.bytes, budget);
    // What is left over may buy no whole step: the bound is one step of the largest tensor.
    double step = 0;
    for (const Options& options : tensors) step = std::max(step, options.front().harm);
    EXPECT_LE(total.harm, least_harm(tensors, budget) + step) << trial;
  }
}

TEST(Allocation, BytesGoWhereTheySaveMost) {
  const std::vector<Options> tensors = {
      {{TensorType::kQ2_K, 10, 8.0}, {TensorType::kQ4_K, 20, 2.0}, {TensorType::kQ8_0, 40, 0.1}},
      {{TensorType::kQ2_K, 10, 0.8}, {TensorType::kQ4_K, 20, 0.2}, {TensorType::kQ8_0, 40, 0.01}},
  };
  EXPECT_THAT(allocate(tensors, 20).value(), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(allocate(tensors, 30).value(), ::testing::ElementsAre(1, 0));
  EXPECT_THAT(allocate(tensors, 59).value(), ::testing::ElementsAre(2, 0));
  EXPECT_THAT(allocate(tensors, 60).value(), ::testing::ElementsAre(2, 1));
  EXPECT_THAT(allocate(tensors, 1000).value(), ::testing::ElementsAre(2, 2));
}

TEST(Allocation, AnOptionThatIsLargerAndNoBetterIsNeverTaken) {
  const std::vector<Options> tensors = {{{TensorType::kQ4_0, 18, 3.0},
                                         {TensorType::kIQ4_NL, 18, 1.0},
                                         {TensorType::kQ4_1, 20, 2.0},
                                         {TensorType::kQ8_0, 34, 0.5}}};
  EXPECT_THAT(allocate(tensors, 30).value(), ::testing::ElementsAre(1));
}

TEST(Allocation, TooFewBytesAreRefusedWithTheSmallestNumber) {
  const std::vector<Options> tensors = {{{TensorType::kQ4_K, 20, 2.0}}, {{TensorType::kF32, 7, 0.0}}};
  const auto chosen = allocate(tensors, 26);
  ASSERT_FALSE(chosen.has_value());
  EXPECT_THAT(chosen.error().text(), ::testing::HasSubstr("at least 27 bytes"));
}

}  // namespace
}  // namespace cairn::calibrate
