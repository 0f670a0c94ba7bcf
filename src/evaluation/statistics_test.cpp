#include "evaluation/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace cairn::evaluation {
namespace {

// Made with exact fractions in Python: min(1, 2 * sum(Fraction(comb(n, k), 2**n) for k in range(min(a, b) + 1))).
TEST(Statistics, TheSignTestHasTheBinomialsTails) {
  EXPECT_NEAR(sign_test(0, 0), 1.0, 1e-12);
  EXPECT_NEAR(sign_test(1, 0), 1.0, 1e-12);
  EXPECT_NEAR(sign_test(5, 0), 0.0625, 1e-12);
  EXPECT_NEAR(sign_test(3, 9), 0.14599609375, 1e-12);
  EXPECT_NEAR(sign_test(10, 10), 1.0, 1e-12);
  EXPECT_NEAR(sign_test(40, 60), 0.05688793364098079, 1e-12);
  EXPECT_NEAR(sign_test(200, 260), 0.005883922473103979, 1e-12);
  EXPECT_EQ(sign_test(9, 3), sign_test(3, 9));
}

// Made with 40 decimal digits in Python, as the roots x of (share - x)^2 = z^2 x (1 - x) / n.
TEST(Statistics, WilsonIntervals) {
  const auto expect = [](int64_t right, int64_t all, double low, double high) {
    const Interval interval = wilson_interval(right, all);
    EXPECT_NEAR(interval.low, low, 1e-12);
    EXPECT_NEAR(interval.high, high, 1e-12);
  };
  expect(0, 10, 3.612336000685554e-41, 0.27753279986288926);
  expect(10, 10, 0.7224672001371107, 1.0);
  expect(5, 10, 0.23659309051256397, 0.7634069094874361);
  expect(81, 263, 0.2552885198782742, 0.36620957698280004);
  expect(1, 1, 0.2065493143772374, 1.0);
}

TEST(Statistics, TheBootstrapIsSeededAndCoversTheMean) {
  std::vector<int8_t> differences(100, 0);
  for (size_t i = 0; i < 30; ++i) differences[i] = 1;
  for (size_t i = 30; i < 40; ++i) differences[i] = -1;
  const Interval interval = bootstrap_interval(differences, 7);
  const Interval again = bootstrap_interval(differences, 7);
  EXPECT_EQ(interval.low, again.low);
  EXPECT_EQ(interval.high, again.high);
  // The mean is 0.2, its standard error sqrt(0.4 - 0.04) / 10 = 0.06: the interval is near 0.2 +- 1.96 * 0.06.
  EXPECT_NEAR(interval.low, 0.2 - 1.96 * 0.06, 0.012);
  EXPECT_NEAR(interval.high, 0.2 + 1.96 * 0.06, 0.012);
  const std::vector<int8_t> same(10, 1);
  EXPECT_EQ(bootstrap_interval(same, 1).low, 1);
  EXPECT_EQ(bootstrap_interval(same, 1).high, 1);
}

}  // namespace
}  // namespace cairn::evaluation
