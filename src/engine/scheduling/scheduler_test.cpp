#include "engine/scheduling/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace cairn::engine {
namespace {

constexpr double kMillisecond = 1e6;

struct Row {
  int32_t demand, rows;
  bool logits;
  bool operator==(const Row&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << "{demand " << row.demand << ", rows " << row.rows << (row.logits ? ", logits}" : "}");
}
using Plan = std::vector<Row>;

/// The costs of a machine, already learned: 20 ms, and 1 ms for every row, 1 us per attended position if `attends`.
CostModel known_cost(bool attends = false) {
  CostModel cost;
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    const int32_t rows = 1 << random() % 10;
    const int64_t attended = attends ? rows * static_cast<int64_t>(random() % 2'000) : 0;
    cost.observe(rows, attended, (20 + rows) * kMillisecond + 1'000.0 * static_cast<double>(attended));
  }
  return cost;
}

Plan plan(Scheduler& scheduler, const std::vector<ScheduleInput>& demands, const CostModel& cost) {
  std::vector<ScheduledTokens> shares;
  scheduler.plan(demands, cost, shares);
  Plan result;
  for (const ScheduledTokens& share : shares) result.push_back({share.demand, share.rows, share.logits});
  return result;
}
/// Plans a step with time for everything.
Plan plan(const std::vector<ScheduleInput>& demands, StepLimits limits) {
  static const CostModel cost = known_cost();
  limits.step_ns = 1e15;
  Scheduler scheduler(limits);
  return plan(scheduler, demands, cost);
}
/// Plans a step of `step_ms` milliseconds.
Plan plan_within(double step_ms, const std::vector<ScheduleInput>& demands, StepLimits limits = {512, 64, 256}) {
  static const CostModel cost = known_cost();
  limits.step_ns = step_ms * kMillisecond;
  Scheduler scheduler(limits);
  return plan(scheduler, demands, cost);
}

ScheduleInput decode(int32_t drafts = 0) { return {.rows = 1, .decode = true, .drafts = drafts}; }
ScheduleInput prompt(int32_t rows, int64_t deadline_ns = 0, Priority priority = Priority::kInteractive) {
  return {.rows = rows, .priority = priority, .deadline_ns = deadline_ns};
}
ScheduleInput batch(int32_t rows, int64_t deadline_ns = 0) { return prompt(rows, deadline_ns, Priority::kBatch); }

TEST(Scheduler, AnEmptyDemandGivesAnEmptyPlan) { EXPECT_EQ(plan({}, {512, 64, 256}), Plan{}); }

TEST(Scheduler, DecodeRowsComeFirst) {
  EXPECT_EQ(plan({prompt(10), decode(), prompt(5), decode()}, {512, 64, 256}),
            (Plan{{1, 1, true}, {3, 1, true}, {0, 10, true}, {2, 5, true}}));
}

TEST(Scheduler, ALongPromptIsReadInChunksBesideDecodeRows) {
  EXPECT_EQ(plan({decode(), prompt(1'000)}, {512, 64, 256}), (Plan{{0, 1, true}, {1, 256, false}}));
  EXPECT_EQ(plan({decode(), prompt(256)}, {512, 64, 256}), (Plan{{0, 1, true}, {1, 256, true}}));
  EXPECT_EQ(plan({decode(), prompt(1'000)}, {100, 64, 256}), (Plan{{0, 1, true}, {1, 99, false}}));
}

TEST(Scheduler, DeferredSequencesGetNoRows) {
  ScheduleInput stream = decode(), text = prompt(30);
  stream.deferred = text.deferred = true;
  EXPECT_EQ(plan({stream, text}, {512, 64, 256}), Plan{});
  EXPECT_EQ(plan({stream, decode(), text, prompt(5)}, {512, 64, 256}), (Plan{{1, 1, true}, {3, 5, true}}));
}

TEST(Scheduler, TheEarliestDeadlineIsServedFirstAndOthersShareTheRest) {
  EXPECT_EQ(plan({prompt(100, 9), prompt(1'000, 7), prompt(30, 8)}, {512, 64, 1'030}), (Plan{{1, 512, false}}));
  EXPECT_EQ(plan({prompt(100, 9), prompt(200, 7), prompt(30, 8)}, {512, 64, 256}),
            (Plan{{1, 200, true}, {2, 30, true}, {0, 26, false}}));
  EXPECT_EQ(plan({prompt(100, 7), prompt(100, 7), prompt(100, 7)}, {512, 64, 256}),
            (Plan{{0, 100, true}, {1, 100, true}, {2, 56, false}}));
}

TEST(Scheduler, LogitRowsAreNeverExceeded) {
  EXPECT_EQ(plan({decode(), decode(), decode()}, {512, 2, 256}), (Plan{{0, 1, true}, {1, 1, true}}));
  // The prompt's last row would need logits, so it waits. So does the whole of a prompt of one row.
  EXPECT_EQ(plan({decode(), prompt(8), prompt(1)}, {512, 1, 256}), (Plan{{0, 1, true}, {1, 7, false}}));
  EXPECT_EQ(plan({decode(), prompt(1), prompt(8)}, {512, 1, 256}), (Plan{{0, 1, true}, {2, 7, false}}));
}

TEST(Scheduler, DraftsGetOnlyTheRowsThatAreLeft) {
  EXPECT_EQ(plan({decode(3), decode(), decode(1)}, {512, 64, 256}), (Plan{{0, 4, true}, {1, 1, true}, {2, 2, true}}));
  // Drafts are granted one at a time in turn, when they do not all fit.
  EXPECT_EQ(plan({decode(5), decode(5)}, {512, 7, 256}), (Plan{{0, 4, true}, {1, 3, true}}));
  EXPECT_EQ(plan({decode(5), decode(5)}, {6, 64, 256}), (Plan{{0, 3, true}, {1, 3, true}}));
  // Prompts keep their rows, and logits for the last one.
  EXPECT_EQ(plan({decode(20), prompt(1)}, {512, 4, 256}), (Plan{{0, 3, true}, {1, 1, true}}));
  EXPECT_EQ(plan({decode(20), prompt(9)}, {8, 64, 256}), (Plan{{0, 6, true}, {1, 2, false}}));
}

TEST(Scheduler, PromptsFillTheTimeOfAStep) {
  const Plan busy = plan_within(30, {decode(), prompt(1'000)});
  ASSERT_EQ(busy.size(), 2u);
  EXPECT_NEAR(busy[1].rows, 30, 4);
  const Plan quiet = plan_within(3, {prompt(1'000)});
  EXPECT_NEAR(quiet.at(0).rows, 3 * kIdleStepFactor - 20, 8);
  // Prompts get more time when a short one is late.
  ScheduleInput late = prompt(kLateRowsMax);
  late.at_risk = true;
  EXPECT_NEAR(plan_within(30, {decode(), late}).at(1).rows, 30 * kLateStepFactor, 12);
  // The extra time of a late prompt is not for a long one beside it, whichever comes first.
  ScheduleInput first = prompt(1'000);
  first.deadline_ns = late.deadline_ns - 1;
  const Plan both = plan_within(30, {decode(), first, late});
  EXPECT_NEAR(both.at(1).rows, 30, 4);
  EXPECT_NEAR(both.at(2).rows, 30 * (kLateStepFactor - 1), 12);
  first.deadline_ns = late.deadline_ns + 1;
  EXPECT_EQ(plan_within(30, {decode(), first, late}).size(), 2u);
  // A target for the time between tokens limits the step.
  ScheduleInput quick = decode();
  quick.tbt_ns = static_cast<int64_t>(31 * kMillisecond);
  EXPECT_NEAR(plan_within(30, {decode(), quick, prompt(1'000)}).at(2).rows, 9, 3);
  quick.tbt_ns = 1;
  EXPECT_EQ(plan_within(30, {decode(), quick, prompt(1'000)}).at(2).rows, kPromptRowsMin);
  EXPECT_EQ(plan_within(30, {decode(), quick, prompt(1), prompt(9)}).at(3).rows, kPromptRowsMin - 1);
}

TEST(Scheduler, PromptsAtFarPositionsGetFewerRows) {
  const CostModel cost = known_cost(true);
  Scheduler scheduler({512, 64, 256, 60 * kMillisecond});
  ScheduleInput far = prompt(1'000);
  far.position = 5'000;  // 5 ms a row
  EXPECT_NEAR(plan(scheduler, {decode(), far}, cost).at(1).rows, 10, 3);
}

TEST(Scheduler, TheFirstStepHasFewRows) {
  const CostModel cost;
  Scheduler scheduler({512, 64, 256, 30 * kMillisecond});
  EXPECT_EQ(plan(scheduler, {prompt(1'000), prompt(1'000)}, cost), (Plan{{0, kFirstRows, false}}));
}

TEST(Scheduler, StepsGrowFasterWhenNoSequenceDecodes) {
  CostModel cost;
  cost.observe(kFirstRows, 0, kFirstRows * kMillisecond);
  Scheduler scheduler({512, 64, 256, 1'000 * kMillisecond});
  EXPECT_EQ(plan(scheduler, {prompt(1'000)}, cost), (Plan{{0, 256, false}}));
  EXPECT_EQ(plan(scheduler, {decode(), prompt(1'000)}, cost).at(1).rows, kRowGrowth * kFirstRows - 1);
}

/// Random limits and demands.
struct RandomCase {
  StepLimits limits;
  std::vector<ScheduleInput> demands;
};
RandomCase random_case(std::mt19937& random) {
  const auto below = [&](int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); };
  RandomCase tried;
  tried.limits = {1 + below(60), 1 + below(12), 1 + below(60), (1 + below(80)) * kMillisecond};
  tried.demands.resize(
      static_cast<size_t>(1 + below(std::min(tried.limits.batch_tokens_max, tried.limits.logits_max))));
  for (ScheduleInput& demand : tried.demands) {
    demand = below(2) == 0 ? decode(below(6)) : prompt(1 + below(80), below(5), static_cast<Priority>(below(2)));
    demand.position = below(3'000);
    if (below(4) == 0) demand.tbt_ns = static_cast<int64_t>((1 + below(60)) * kMillisecond);
    demand.deferred = below(8) == 0;
  }
  return tried;
}

void check_promises(const RandomCase& tried, const std::vector<ScheduledTokens>& shares, const CostModel& cost) {
  int32_t rows = 0, logits = 0, chunk = 0, decodes = 0, decode_rows = 0;
  int64_t attended = 0, decode_attended = 0, tbt_ns = std::numeric_limits<int64_t>::max();
  std::vector<bool> seen(tried.demands.size(), false);
  for (const ScheduledTokens& share : shares) {
    const ScheduleInput& demand = tried.demands.at(static_cast<size_t>(share.demand));
    ASSERT_FALSE(seen[static_cast<size_t>(share.demand)] || demand.deferred);
    seen[static_cast<size_t>(share.demand)] = true;
    ASSERT_GE(share.rows, 1);
    rows += share.rows;
    attended += attended_by(demand.position, share.rows);
    if (demand.decode) {
      ASSERT_LE(share.rows, 1 + demand.drafts);
      ASSERT_TRUE(share.logits && chunk == 0);
      ++decodes;
      decode_rows += share.rows;
      decode_attended += attended_by(demand.position, share.rows);
      logits += share.rows;
      if (demand.tbt_ns > 0) tbt_ns = std::min(tbt_ns, demand.tbt_ns);
    } else {
      ASSERT_LE(share.rows, demand.rows);
      ASSERT_EQ(share.logits, share.rows == demand.rows);
      chunk += share.rows;
      logits += share.logits;
    }
  }
  ASSERT_LE(rows, tried.limits.batch_tokens_max);
  ASSERT_LE(logits, tried.limits.logits_max);
  ASSERT_LE(chunk, tried.limits.prefill_chunk_max);
  ASSERT_EQ(decodes,
            std::ranges::count_if(tried.demands, [](const ScheduleInput& d) { return d.decode && !d.deferred; }));
  ASSERT_EQ(shares.empty(), std::ranges::all_of(tried.demands, [](const ScheduleInput& d) { return d.deferred; }));
  if (chunk <= kPromptRowsMin) return;
  double budget = kIdleStepFactor * tried.limits.step_ns;
  if (decodes > 0) {
    budget = cost.step_ns(decode_rows, decode_attended) + tried.limits.step_ns;
    budget = std::min(budget, static_cast<double>(tbt_ns));
  }
  ASSERT_LE(cost.step_ns(rows, attended), budget * (1 + 1e-9));
  if (cost.row_ns() == 0) {
    ASSERT_LE(rows, kFirstRows);
  }
}

TEST(Scheduler, RandomPlansKeepTheLimitsOfTheInterface) {
  const CostModel cost = known_cost(true);
  const CostModel unknown;
  std::mt19937 random(5);
  std::vector<ScheduledTokens> shares;
  for (int round = 0; round < 20'000; ++round) {
    SCOPED_TRACE(round);
    const RandomCase tried = random_case(random);
    Scheduler scheduler(tried.limits);
    const CostModel& model = round % 5 == 0 ? unknown : cost;
    scheduler.plan(tried.demands, model, shares);
    check_promises(tried, shares, model);
    if (HasFatalFailure()) return;
  }
}

/// Prompt rows of each class, summed over many steps.
struct Shares {
  double interactive = 0, batch = 0;
  double ratio() const { return interactive / batch; }
};

TEST(Scheduler, ClassesShareByWeight) {
  const CostModel cost = known_cost();
  for (const double step_ms : {1.0, 30.0, 200.0}) {
    Scheduler scheduler({512, 64, 256, step_ms * kMillisecond});
    Shares got;
    std::vector<ScheduledTokens> shares;
    std::mt19937 random(11);
    for (int step = 0; step < 4'000; ++step) {
      const std::vector<ScheduleInput> demands = {decode(), prompt(static_cast<int32_t>(1 + random() % 90), 1),
                                                  batch(10'000, 2), prompt(10'000, 3), batch(10'000, 4)};
      scheduler.plan(demands, cost, shares);
      for (const ScheduledTokens& share : shares) {
        if (share.demand == 1 || share.demand == 3) got.interactive += share.rows;
        if (share.demand == 2 || share.demand == 4) got.batch += share.rows;
        ASSERT_NE(share.demand, 4);  // a later deadline of its class
      }
    }
    EXPECT_NEAR(got.ratio(), 4, 0.4) << step_ms;
  }
}

TEST(Scheduler, AClassThatWantedNothingHasNotSavedUpShares) {
  const CostModel cost = known_cost();
  for (const bool interactive_first : {false, true}) {
    Scheduler scheduler({512, 64, 256, 30 * kMillisecond});
    for (int step = 0; step < 1'000; ++step) {
      plan(scheduler, {decode(), interactive_first ? prompt(10'000) : batch(10'000)}, cost);
    }
    Shares got;
    for (int step = 0; step < 10; ++step) {
      for (const Row& row : plan(scheduler, {decode(), prompt(10'000), batch(10'000)}, cost)) {
        if (row.demand == 1) got.interactive += row.rows;
        if (row.demand == 2) got.batch += row.rows;
      }
    }
    EXPECT_NEAR(got.ratio(), 4, 1.5) << interactive_first;
  }
}

TEST(Scheduler, AClassWithAFarDeadlineIsServedBesideUrgentPromptsOfTheOther) {
  // An urgent prompt arrives in every step; one of the other class, with a deadline far away, is finished all the same.
  const CostModel cost = known_cost();
  for (const Priority patient : {Priority::kBatch, Priority::kInteractive}) {
    const Priority urgent = patient == Priority::kBatch ? Priority::kInteractive : Priority::kBatch;
    Scheduler scheduler({512, 64, 256, 30 * kMillisecond});
    int32_t left = 2'000;
    int steps = 0;
    for (; left > 0 && steps < 1'000; ++steps) {
      for (const Row& row :
           plan(scheduler, {decode(), prompt(500, steps, urgent), prompt(left, 1'000'000, patient)}, cost)) {
        if (row.demand == 2) left -= row.rows;
      }
    }
    // The prompt gets 1 in 5 of the 30 rows of a step, or 4 in 5.
    EXPECT_NEAR(steps, patient == Priority::kBatch ? 2'000 / 6 : 2'000 / 24, patient == Priority::kBatch ? 60 : 20);
  }
}

TEST(Scheduler, AnOldDeadlineIsServedDespiteNewArrivals) {
  // Arrivals are due 20 steps after they come; each takes more than a step.
  const CostModel cost = known_cost();
  Scheduler scheduler({512, 64, 256, 30 * kMillisecond});
  int32_t left = 300;
  int step = 0;
  for (; left > 0 && step < 200; ++step) {
    for (const Row& row : plan(scheduler, {decode(), prompt(1'000, step + 20), prompt(left, 50)}, cost)) {
      if (row.demand == 2) left -= row.rows;
    }
    if (step < 30) {
      ASSERT_EQ(left, 300);
    }
  }
  EXPECT_LE(step, 50);
}

TEST(Scheduler, ClientsOfAClassShareItsRowsWhateverTheirDeadlines) {
  const CostModel cost = known_cost();
  Scheduler scheduler({512, 64, 256, 30 * kMillisecond});
  const auto of = [](const std::string& client, const std::string& tenant, int64_t deadline_ns) {
    ScheduleInput demand = prompt(100'000, deadline_ns);
    demand.party = party_of(client, tenant);
    return demand;
  };
  std::vector<ScheduleInput> demands = {decode(), of("a", "one", 1), of("a", "one", 2), of("a", "two", 3),
                                        of("b", "", 4)};
  std::vector<int64_t> got(6);
  for (int step = 0; step < 1'200; ++step) {
    if (step == 600) {  // a client that comes later has not saved up the rows that others had meanwhile
      EXPECT_GT(got[4], 0);
      EXPECT_EQ(got[2], 0) << "of one tenant the earliest deadline goes first";
      const double a = static_cast<double>(got[1] + got[3]), b = static_cast<double>(got[4]);
      // Three of four shares go to the client with the fewest rows, which evens out those that go by deadline.
      EXPECT_NEAR(a / b, 1, 0.1);
      EXPECT_NEAR(static_cast<double>(got[1]) / static_cast<double>(got[3]), 1, 0.1);
      demands.push_back(of("c", "", 5));
      std::ranges::fill(got, 0);
    }
    for (const Row& row : plan(scheduler, demands, cost)) got[static_cast<size_t>(row.demand)] += row.rows;
  }
  EXPECT_NEAR(static_cast<double>(got[5]) / static_cast<double>(got[4]), 1, 0.1);
  EXPECT_NEAR(static_cast<double>(got[1] + got[3]) / static_cast<double>(got[4]), 1, 0.1);
}

TEST(Scheduler, APromptFinishesDespiteAConstantStreamOfNewClients) {
  const CostModel cost = known_cost();
  Scheduler scheduler({512, 64, 256, 30 * kMillisecond});
  int32_t left = 300;
  int step = 0;
  for (; left > 0 && step < 400; ++step) {
    std::vector<ScheduleInput> demands = {decode(), prompt(left, 50)};
    for (int i = 0; i < 8; ++i) {  // new clients, each with the fewest rows
      demands.push_back(prompt(1'000, 100 + step));
      demands.back().party = party_of(std::to_string(step * 8 + i), "");
    }
    for (const Row& row : plan(scheduler, demands, cost)) left -= row.demand == 1 ? row.rows : 0;
  }
  EXPECT_LE(step, 60);  // of 30 rows each, of which it has a fourth
}

}  // namespace
}  // namespace cairn::engine
