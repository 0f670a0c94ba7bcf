#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "engine/speculation/drafter.h"

namespace cairn::engine {
namespace {

/// Steps of one sequence whose proposals are each right with probability `right`.
struct DraftedSequence {
  double right;
  double row_cost;
  int32_t tokens_max = 8;
  DraftLengthController control{};
  std::mt19937 random{1};
  double tokens = 0, time = 0;

  int32_t step() {
    const int32_t proposed = control.tokens_wanted(row_cost, tokens_max);
    EXPECT_GE(proposed, 0);
    EXPECT_LE(proposed, tokens_max);
    int32_t accepted = 0;
    while (accepted < proposed && std::uniform_real_distribution()(random) < right) ++accepted;
    control.observe(proposed, accepted);
    tokens += 1 + accepted;
    time += 1 + proposed * row_cost;
    return proposed;
  }
  double mean_wanted(int steps) {
    double sum = 0;
    for (int i = 0; i < steps; ++i) sum += step();
    return sum / steps;
  }
};

TEST(DraftLengthController, ProposesBeforeAnyObservation) {
  EXPECT_GE(DraftLengthController().tokens_wanted(0.1, 8), 2);
  EXPECT_EQ(DraftLengthController().tokens_wanted(0.1, 1), 1);
  EXPECT_EQ(DraftLengthController().tokens_wanted(0.1, 0), 0);
  EXPECT_EQ(DraftLengthController().tokens_wanted(-1, 5), 5);  // a measured cost may be below 0
}

TEST(DraftLengthController, DraftsTheMaximumWhenProposalsAreAlwaysRight) {
  DraftedSequence life{1, 0.1};
  life.mean_wanted(50);
  EXPECT_EQ(life.mean_wanted(50), 8);
}

TEST(DraftLengthController, DraftsAboutAsManyTokensAsTheFormulaSaysPay) {
  for (const double right : {0.2, 0.4, 0.6, 0.8, 0.95}) {
    for (const double row_cost : {0.01, 0.05, 0.15}) {
      double best = 0, best_k = 0;
      for (int32_t k = 0; k <= 8; ++k) {
        double tokens = 0;
        for (int32_t i = 0; i <= k; ++i) tokens += std::pow(right, i);
        if (tokens / (1 + k * row_cost) > best) {
          best = tokens / (1 + k * row_cost);
          best_k = k;
        }
      }
      DraftedSequence life{right, row_cost};
      const double wanted = life.mean_wanted(3'000);
      EXPECT_GT(life.tokens / life.time, 0.95 * best) << right << " " << row_cost;
      EXPECT_NEAR(wanted, best_k, 2) << right << " " << row_cost;
    }
  }
}

TEST(DraftLengthController, PausesTwiceAsLongEachTimeDraftsDoNotPay) {
  DraftedSequence life{0, 0.3};
  std::vector<int> pauses;
  int pause = 0;
  for (int step = 0; step < 10'000; ++step) {
    if (life.step() == 0) {
      ++pause;
    } else if (pause > 0) {
      pauses.push_back(std::exchange(pause, 0));
    }
  }
  ASSERT_GE(pauses.size(), 10u);
  for (size_t i = 0; i < pauses.size(); ++i) {
    EXPECT_EQ(pauses[i], std::min(kDraftPauseMin << std::min<size_t>(i, 20), kDraftPauseMax)) << i;
  }
  EXPECT_LT(life.time / life.tokens, 1.01);
}

TEST(DraftLengthController, DraftsAgainWhenProposalsPayAgain) {
  DraftedSequence life{0, 0.3};
  for (int step = 0; step < 5'000; ++step) life.step();
  life.right = 0.9;
  for (int step = 0; step < kDraftPauseMax + 20; ++step) life.step();
  EXPECT_GT(life.mean_wanted(20), 2);
  // Its pauses are short again.
  life.right = 0;
  int until_off = 0;
  while (life.step() > 0) ++until_off;
  EXPECT_LE(until_off, 20);
  for (int step = 1; step < kDraftPauseMin; ++step) EXPECT_EQ(life.step(), 0);
  EXPECT_GT(life.step(), 0);
}

TEST(DraftLengthController, AnObservationOfZeroProposalsChangesNothing) {
  DraftLengthController control;
  const int32_t before = control.tokens_wanted(0.1, 8);
  for (int i = 0; i < 100; ++i) control.observe(0, 0);
  EXPECT_EQ(control.tokens_wanted(0.1, 8), before);
}

}  // namespace
}  // namespace cairn::engine
