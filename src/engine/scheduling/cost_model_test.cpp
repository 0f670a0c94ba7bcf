#include "engine/scheduling/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace cairn::engine {
namespace {

constexpr double kMs = 1e6;

/// A simulated machine: a step takes the same time for few rows as for one, then grows in proportion.
struct Machine {
  double flat_ns = 40 * kMs;
  int32_t flat_rows = 8;
  double row_ns = 7 * kMs;
  double attended_ns = 2'000;
  double load = 1;
  double noise = 0.1;
  std::mt19937 random{1};

  double quiet_ns(int32_t rows, int64_t attended) const {
    const double products = flat_ns + row_ns * std::max(0, rows - flat_rows);
    return load * (products + attended_ns * static_cast<double>(attended));
  }
  double step_ns(int32_t rows, int64_t attended) {
    return quiet_ns(rows, attended) * std::uniform_real_distribution(1 - noise, 1 + noise)(random);
  }
};

/// A stream decodes while prompts of random lengths come one after the other.
struct Life {
  Machine& machine;
  CostModel cost{};
  std::mt19937 random{2};
  int32_t stream = 100;
  int32_t position = 0;
  int32_t prompt = 2'000;

  /// One step: a decode row, and as many prompt rows as fit. Returns the true time divided by the budget; 0 if the
  /// prompt ended first.
  double step(double budget_ns) {
    const int32_t left = prompt - position;
    const int32_t wanted = std::min(left, 256);
    const int32_t fits = cost.rows_within(budget_ns, 1, stream, position, wanted);
    const int32_t rows = std::max(fits, std::min(4, wanted));
    const int64_t attended = stream + attended_by(position, rows);
    const double ratio = machine.quiet_ns(1 + rows, attended) / budget_ns;
    cost.observe(1 + rows, attended, machine.step_ns(1 + rows, attended));
    stream = std::min(stream + 1, 4'000);
    position += rows;
    if (position < prompt) return fits == rows ? ratio : 0;
    position = 0;
    prompt = std::uniform_int_distribution(20, 4'000)(random);
    return 0;
  }
};

TEST(CostModel, PredictsZeroAndGrantsAFewRowsBeforeAnyObservation) {
  const CostModel cost;
  EXPECT_EQ(cost.step_ns(1, 0), 0);
  EXPECT_EQ(cost.step_ns(100, 100'000), 0);
  EXPECT_EQ(cost.row_ns(), 0);
  EXPECT_EQ(cost.attended_ns(), 0);
  EXPECT_EQ(cost.rows_within(30 * kMs, 0, 0, 0, 512), kFirstRows);
  EXPECT_EQ(cost.rows_within(30 * kMs, 10, 0, 0, 512), kFirstRows - 10);
  EXPECT_EQ(cost.rows_within(30 * kMs, 20, 0, 0, 512), 0);
  EXPECT_EQ(cost.rows_within(30 * kMs, 0, 0, 0, 3), 3);
}

TEST(CostModel, AStepHasAtMostTwiceTheRowsOfTheLargestSoFar) {
  CostModel cost;
  for (int i = 0; i < 3; ++i) cost.observe(10, 0, 1 * kMs);
  const double forever = std::numeric_limits<double>::max();
  EXPECT_EQ(cost.rows_within(forever, 0, 0, 0, 512), 20);
  EXPECT_EQ(cost.rows_within(forever, 15, 0, 0, 512), 15);  // the rows that are there anyway are the base of the growth
  EXPECT_EQ(cost.rows_within(forever, 5, 0, 0, 512), 15);
  EXPECT_EQ(cost.rows_within(forever, 5, 0, 0, 7), 7);
  EXPECT_EQ(cost.rows_within(0, 1, 0, 0, 7), 0);
  EXPECT_EQ(cost.rows_within(-5, 1, 0, 0, 7), 0);
}

TEST(CostModel, AStepGrowsByTheFactorThatTheCallerAllows) {
  CostModel cost;
  for (int i = 0; i < 3; ++i) cost.observe(10, 0, 1 * kMs);
  const double forever = std::numeric_limits<double>::max();
  EXPECT_EQ(cost.rows_within(forever, 0, 0, 0, 512, 32), 320);
  EXPECT_EQ(cost.rows_within(forever, 15, 0, 0, 512, 32), 465);
  EXPECT_LE(cost.rows_within(8 * kMs, 0, 0, 0, 512, 32), 160);  // an extra row costs at least half of the average
}

TEST(CostModel, TimesThatAreNotPositiveAndFiniteAreIgnored) {
  CostModel cost;
  for (const double ns :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    cost.observe(4, 0, ns);
  }
  cost.observe(0, 0, 5 * kMs);
  EXPECT_EQ(cost.step_ns(4, 0), 0);
}

TEST(CostModel, AttendedCountsPositionsBefore) {
  EXPECT_EQ(attended_by(0, 1), 0);
  EXPECT_EQ(attended_by(100, 1), 100);
  EXPECT_EQ(attended_by(100, 3), 100 + 101 + 102);
  EXPECT_EQ(attended_by(100'000, 100'000), 14'999'950'000);
}

TEST(CostModel, PredictionsAreMonotoneWhateverIsObserved) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    CostModel cost;
    for (int i = 0; i < 60; ++i) {
      const auto rows = static_cast<int32_t>(1 + random() % (1 << random() % 11));
      cost.observe(rows, static_cast<int64_t>(random() % 1'000'000), std::exp(static_cast<double>(random() % 20)));
      double before = 0;
      for (int32_t n = 1; n < 1'200; n += 1 + n / 7) {
        const double ns = cost.step_ns(n, 5'000);
        ASSERT_TRUE(std::isfinite(ns));
        ASSERT_GE(ns, before * (1 - 1e-12)) << "rows " << n << ", round " << round;
        ASSERT_GE(cost.step_ns(n, 6'000), ns);
        before = ns;
      }
      ASSERT_GE(cost.row_ns(), 0);
    }
  }
}

TEST(CostModel, LearnsTheCostsOfASimulatedMachine) {
  for (const int32_t flat_rows : {1, 8, 16}) {
    Machine machine{.flat_rows = flat_rows, .row_ns = flat_rows == 16 ? 2.5 * kMs : 7 * kMs};
    Life life{machine};
    for (int i = 0; i < 400; ++i) life.step((i % 3 + 1) * 80 * kMs);
    for (const int32_t rows : {16, 20, 24}) {
      for (const int64_t position : {0, 1'000, 3'000}) {
        const int64_t attended = attended_by(position, rows);
        EXPECT_NEAR(life.cost.step_ns(rows, attended) / machine.quiet_ns(rows, attended), 1, 0.25)
            << "flat to " << flat_rows << ", rows " << rows << " at " << position;
      }
    }
    EXPECT_NEAR(life.cost.attended_ns(), 2'000, 600) << "flat to " << flat_rows;
  }
}

TEST(CostModel, ChunksFillTheirTimeBudget) {
  for (const double budget_ms : {70.0, 110.0, 240.0, 900.0}) {
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      Machine machine;
      machine.random.seed(seed);
      Life life{machine};
      life.random.seed(seed);
      for (int i = 0; i < 40; ++i) life.step(budget_ms * kMs);
      for (int i = 0; i < 300; ++i) {
        const double ratio = life.step(budget_ms * kMs);
        if (ratio == 0) continue;
        ASSERT_LT(ratio, 1.25) << "budget " << budget_ms << ", seed " << seed << ", step " << i;
        // Whole rows of 7 ms and more do not fill a short budget.
        if (life.position < 1'000 && life.cost.row_ns() < 0.1 * budget_ms * kMs) {
          ASSERT_GT(ratio, 0.75) << "budget " << budget_ms << ", seed " << seed << ", step " << i;
        }
      }
    }
  }
}

TEST(CostModel, NoStepTakesTwiceItsBudgetWhileLearning) {
  for (const double row_ms : {0.1, 7.0, 100.0, 1'000.0}) {
    Machine machine{.flat_ns = 5 * row_ms * kMs, .row_ns = row_ms * kMs, .attended_ns = row_ms * 300};
    Life life{machine};
    const double budget_ns = machine.flat_ns + 30 * kMs;
    for (int i = 0; i < 200; ++i) {
      const double ratio = life.step(budget_ns);
      if (i > 0) {
        ASSERT_LT(ratio, 2) << "row " << row_ms << ", step " << i;
      }
    }
  }
}

TEST(CostModel, FollowsTheLoadOfAnotherProcessThatComesAndGoes) {
  for (const double factor : {2.0, 3.0}) {
    Machine machine;
    Life life{machine};
    const double budget_ns = 250 * kMs;
    for (int i = 0; i < 100; ++i) {
      life.step(budget_ns);
      life.cost.observe(1, 100, machine.step_ns(1, 100));
    }
    for (int visit = 0; visit < 6; ++visit) {
      machine.load = visit % 2 == 0 ? factor : 1;
      for (int i = 0; i < 6; ++i) life.step(budget_ns);
      // Steps of a size not seen since the change are expected to have changed too.
      ASSERT_NEAR(life.cost.step_ns(1, 100) / machine.quiet_ns(1, 100), 1, 0.45) << "visit " << visit;
      int steps = 0, off = 0;
      for (int i = 0; i < 60; ++i) {
        const double ratio = life.step(budget_ns);
        if (ratio == 0) continue;
        ASSERT_LT(ratio, 1.75) << "visit " << visit << ", step " << i;
        ++steps;
        off += ratio > 1.25 || (life.position < 1'000 && ratio < 0.75) ? 1 : 0;
      }
      ASSERT_GE(steps, 30);
      ASSERT_LE(off, steps / 10) << "visit " << visit << " of " << steps;
    }
  }
}

TEST(CostModel, OneSlowStepChangesPredictionsLittle) {
  Machine machine{.noise = 0};
  Life life{machine};
  for (int i = 0; i < 100; ++i) life.step(200 * kMs);
  const int32_t rows = life.cost.rows_within(200 * kMs, 1, 100, 0, 256);
  life.cost.observe(1 + rows, 100 + attended_by(0, rows), 10 * machine.quiet_ns(1 + rows, 100));
  EXPECT_GE(life.cost.rows_within(200 * kMs, 1, 100, 0, 256), rows / 2);
  for (int i = 0; i < 4; ++i) life.cost.observe(1 + rows, 100, machine.quiet_ns(1 + rows, 100));
  EXPECT_GE(life.cost.rows_within(200 * kMs, 1, 100, 0, 256), rows * 9 / 10);
}

TEST(CostModel, RecoversFromASlowFirstStep) {
  // The first step also reads the weights from disk.
  for (const double factor : {3.0, 20.0, 200.0}) {
    for (const int32_t first : {1, 5, 16}) {
      Machine machine;
      Life life{machine};
      life.cost.observe(first, 0, factor * machine.quiet_ns(first, 0));
      for (int i = 0; i < 12; ++i) life.step(240 * kMs);
      const int32_t rows = life.cost.rows_within(240 * kMs, 1, 100, 0, 256);
      EXPECT_NEAR(machine.quiet_ns(1 + rows, 100 + attended_by(0, rows)), 240 * kMs, 60 * kMs)
          << factor << " times, " << first << " rows";
    }
  }
}

TEST(CostModel, LearnsALastingChangeOfSpeedWithinSixSteps) {
  Machine machine{.noise = 0};
  Life life{machine};
  for (int i = 0; i < 100; ++i) life.step(200 * kMs);
  for (const double load : {10.0, 1.0, 5.0, 0.7}) {
    machine.load = load;
    for (int i = 0; i < 6; ++i) life.cost.observe(20, 190, machine.step_ns(20, 190));
    EXPECT_NEAR(life.cost.step_ns(20, 190) / machine.quiet_ns(20, 190), 1, 0.3) << load;
  }
}

}  // namespace
}  // namespace cairn::engine
