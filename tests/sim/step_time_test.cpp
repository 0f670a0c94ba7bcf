// How long a stream waits for its next token while prompts are read: a step takes the time of its decode rows plus
// --step-ms.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "sim/lab.h"
#include "sim/traces.h"

namespace cairn::sim {
namespace {

constexpr double kStepNs = 30e6;
/// Steps in which the cost model learns: at first it knows nothing, and a step has at most twice the rows of earlier
/// ones.
constexpr int64_t kWarmTurns = 16;
/// Steps after which the cost model has noticed another process.
constexpr int32_t kNoticed = 6;
/// Error factor of the model while other processes come and go.
constexpr double kInFlux = 1.25;

/// Error factor of the model where the whole time is used; the other bound has as much to spare.
constexpr double kOff = 1.15;

/// The prompts that arrive beside streams.
struct Prompts {
  int32_t tokens_min = 200;
  int32_t tokens_max = 2'200;
  std::chrono::milliseconds target = std::chrono::hours(1);  // far away, since late short prompts may add more time
  uint64_t turns_between = 40;                               // on average
  int32_t together = 1;
  int64_t iterations = 260;
};

class SimStepTime : public SimTest {
 protected:
  struct Result {
    double worst = 0;          // step / (decode + 2 x step_ms), without noise and other processes
    double worst_noticed = 0;  // of steps beside another process that has been running for a while
    double filled = 0;         // share of --step-ms that is used, on average, while prompts wait
    double most_added = 0;     // added to the time of the decode rows, in units of --step-ms
    double worst_late = 0;     // step / (decode + kLateStepFactor x step_ms)
  };

  Result run(const StepCost& cost, uint64_t seed, const Prompts& prompts = {}) {
    std::mt19937_64 random(seed);
    SimulationOptions options;
    options.model = {.layout = {kernels::KvType::kF32, {full_group()}},
                     .context_tokens = 4'096,
                     .batch_tokens_max = 256,
                     .logits_max = 16,
                     .cost = cost,
                     .seed = seed};
    options.engine.kv_pages = {1'000};
    options.engine.sequences_max = 12;
    options.engine.prefill_chunk_max = 256;
    options.engine.step = std::chrono::milliseconds(30);
    options.engine.prefix_cache = false;
    Simulation simulation(tokenizer(), options);
    for (int i = 0; i < 4; ++i) submit(simulation, 20 + 100 * i, 250, random(), std::chrono::hours(1));
    Result result;
    double filled = 0;
    int64_t filled_steps = 0;
    while (simulation.iterations() < prompts.iterations) {
      if (simulation.iterations() >= kWarmTurns && random() % prompts.turns_between == 0) {
        for (int32_t i = 0; i < prompts.together; ++i) {
          const auto more =
              static_cast<int32_t>(random() % static_cast<uint64_t>(prompts.tokens_max - prompts.tokens_min));
          submit(simulation, prompts.tokens_min + more, 10, random(), prompts.target);
        }
      }
      simulation.iterate();
      EXPECT_EQ(simulation.problem(), "");
      if (!simulation.problem().empty()) return result;
      const StepLog& step = simulation.last_step();
      if (simulation.iterations() <= kWarmTurns || step.decode_rows == 0) continue;
      const double noise = 1 + cost.noise;
      const double slow = step.slow_for > 0 ? cost.slow_factor : 1;
      result.worst = std::max(result.worst, step.ns / noise / slow / (step.decode_ns + 2 * kStepNs));
      result.most_added = std::max(result.most_added, (step.ns / noise / slow - step.decode_ns) / kStepNs);
      result.worst_late =
          std::max(result.worst_late, step.ns / noise / slow / (step.decode_ns + engine::kLateStepFactor * kStepNs));
      if (step.slow_for > kNoticed) {
        result.worst_noticed = std::max(result.worst_noticed, step.ns / noise / (slow * step.decode_ns + 2 * kStepNs));
      }
      const bool more = std::ranges::any_of(simulation.core().running(), [](const auto& s) { return !s->decoding(); });
      if (step.slow_for == 0 && more) {
        filled += (step.ns - step.decode_ns) / kStepNs;
        ++filled_steps;
      }
    }
    result.filled = filled_steps > 0 ? filled / static_cast<double>(filled_steps) : 0;
    return result;
  }

 private:
  static void submit(Simulation& simulation, int32_t prompt, int32_t answer, uint64_t seed,
                     std::chrono::milliseconds target) {
    Planned one;
    one.request = request_of(random_prompt(prompt, seed), answer);
    one.request.target_ttft = target;
    EXPECT_TRUE(simulation.submit(std::move(one)));
  }
};

TEST_F(SimStepTime, ALongPromptAddsAtMostStepMsToAStep) {
  constexpr int kSeeds = 60;
  double filled = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
    StepCost cost;
    cost.flat_ns = between(1e6, 60e6);
    cost.flat_rows = static_cast<int32_t>(between(1, 12));
    // More rows must cost less each, as a step of many could be cut in two.
    cost.row_ns = std::clamp(cost.flat_ns / cost.flat_rows * between(0.2, 1), 0.1e6, 5e6);
    cost.attended_ns = between(10, 500);
    cost.noise = between(0, 0.1);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Result quiet = run(cost, seed);
    EXPECT_LE(quiet.worst, 1);
    filled += quiet.filled;
    cost.slow_one_in = 60;
    cost.slow_steps = 40;
    const Result busy = run(cost, seed);
    EXPECT_LE(busy.worst, kInFlux);
    EXPECT_LE(busy.worst_noticed, kInFlux);
  }
  // Steps are not much shorter either, or prompts would make no progress. A model that never saw a step without prompts
  // underestimates it.
  EXPECT_GE(filled / kSeeds, 0.6);
}

/// A machine on which `prefill_chunk_max` rows take longer than kLateStepFactor times --step-ms.
StepCost slow_machine(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  StepCost cost;
  cost.flat_rows = static_cast<int32_t>(between(2, 12));
  cost.row_ns = between(1e6, 4e6);
  cost.flat_ns = cost.row_ns * cost.flat_rows * between(1, 2);
  cost.attended_ns = between(10, 500);
  cost.noise = between(0, 0.1);
  return cost;
}

// A deadline that cannot be met with ordinary shares counts as missed from the start.
TEST_F(SimStepTime, ShortPromptsThatWouldBeLateMayAddMoreTime) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    // The deadlines are after the end of the trace, and before the prompts can be read.
    Prompts prompts{.tokens_min = 400, .tokens_max = engine::kLateRowsMax, .target = std::chrono::milliseconds(3500)};
    prompts.turns_between = 1;
    prompts.together = 8;
    prompts.iterations = kWarmTurns + 8;
    EXPECT_GE(run(slow_machine(seed), seed, prompts).most_added, 2.5);
    prompts.target = std::chrono::hours(1);
    EXPECT_LE(run(slow_machine(seed), seed, prompts).worst, 1);
  }
}

// More clients than can be served in time: their first tokens get more of each step, within bounds.
TEST_F(SimStepTime, ShortPromptsThatAreLateMayAddMoreTime) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Prompts prompts{
        .tokens_min = 40, .tokens_max = engine::kLateRowsMax, .target = std::chrono::milliseconds(1), .together = 4};
    const Result late = run(slow_machine(seed), seed, prompts);
    EXPECT_GT(late.most_added, 2.5) << "which is more than those in time may add";
    EXPECT_LE(late.worst_late, kOff);
    prompts.target = std::chrono::hours(1);
    EXPECT_LE(run(slow_machine(seed), seed, prompts).worst, 1);
  }
}

TEST_F(SimStepTime, ALatePromptThatIsLongAddsAtMostStepMs) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Prompts prompts{.tokens_min = engine::kLateRowsMax + 1,
                          .tokens_max = 2'200,
                          .target = std::chrono::milliseconds(1),
                          .turns_between = 20};
    const Result late = run(slow_machine(seed), seed, prompts);
    EXPECT_LE(late.worst, 1);
  }
}

/// What a prompt and the streams beside it notice of each other.
struct Beside {
  double slowdown = 0;  // time to the prompt's first token / the same without streams
  double gap_ms = 0;    // the longest step while the prompt is read
  double alone_ms = 0;  // the longest step of the streams without it
};

/// A prompt of 2,000 tokens beside `streams` streams.
Beside prompt_beside(const tokenizer::Tokenizer& tokenizer, const StepCost& cost, int32_t streams,
                     std::optional<std::chrono::milliseconds> step) {
  constexpr auto kFar = std::chrono::hours(1);
  SimulationOptions options;
  options.model = {.layout = {kernels::KvType::kF32, {full_group()}},
                   .context_tokens = 4'096,
                   .batch_tokens_max = 264,
                   .logits_max = 32,
                   .cost = cost,
                   .seed = 7};
  options.engine.kv_pages = {1'500};
  options.engine.sequences_max = 20;
  options.engine.step = step;
  options.engine.prefix_cache = false;
  Simulation simulation(tokenizer, options);
  const auto submit = [&](int32_t tokens, int32_t answer, uint64_t seed) {
    Planned one;
    one.request = request_of(random_prompt(tokens, seed), answer);
    one.request.ignore_eos = true;
    one.request.target_ttft = kFar;
    EXPECT_TRUE(simulation.submit(std::move(one)));
    return simulation.visitors().size() - 1;
  };
  const auto read = [&](uint64_t seed, double* longest) {
    const size_t at = submit(2'000, 1, seed);
    const auto begin = simulation.clock().now();
    while (simulation.visitors()[at].ended_iteration < 0 && simulation.problem().empty()) {
      simulation.iterate();
      if (longest != nullptr) *longest = std::max(*longest, simulation.last_step().ns / 1e6);
    }
    return std::chrono::duration<double>(simulation.clock().now() - begin).count();
  };
  read(1, nullptr);  // the cost model learns
  const double alone = read(2, nullptr);
  for (int32_t i = 0; i < streams; ++i) submit(40, 1'200, 10 + static_cast<uint64_t>(i));
  Beside result;
  const auto reading = [](const auto& sequence) { return !sequence->decoding(); };
  do {
    simulation.iterate();
  } while (std::ranges::any_of(simulation.core().running(), reading) && simulation.problem().empty());
  for (int i = 0; i < 40; ++i) {
    simulation.iterate();
    if (i >= 20) result.alone_ms = std::max(result.alone_ms, simulation.last_step().ns / 1e6);
  }
  result.slowdown = read(3, &result.gap_ms) / alone;
  EXPECT_EQ(simulation.problem(), "");
  return result;
}

/// Machines and models: the time of a step of one row and, for each further one, of a row.
struct Machine {
  const char* name;
  StepCost cost;
};
const Machine kMachines[] = {
    {"1B, two cores", {.flat_ns = 24e6, .flat_rows = 2, .row_ns = 1.9e6, .attended_ns = 300}},
    {"1.5B, two cores", {.flat_ns = 46e6, .flat_rows = 2, .row_ns = 3.6e6, .attended_ns = 400}},
    {"8B, eight cores", {.flat_ns = 95e6, .flat_rows = 8, .row_ns = 4e6, .attended_ns = 300}},
    {"30B, two cores", {.flat_ns = 400e6, .flat_rows = 3, .row_ns = 60e6, .attended_ns = 3'000}},
    {"8B, a GPU", {.flat_ns = 8e6, .flat_rows = 64, .row_ns = 0.05e6, .attended_ns = 2}},
};

// docs/engine.md has this table.
TEST_F(SimStepTime, APromptBesideStreamsIsNeitherStarvedNorDoesItFreezeThem) {
  for (const auto& [name, cost] : kMachines) {
    for (const int32_t streams : {1, 2, 4, 8, 16}) {
      SCOPED_TRACE(testing::Message() << name << ", " << streams << " streams");
      const Beside fixed = prompt_beside(tokenizer(), cost, streams, engine::kStepDefault);
      const Beside balanced = prompt_beside(tokenizer(), cost, streams, std::nullopt);
      fmt::print("{}, {:>2} streams, alone {:>3.0f} ms: fixed {:.2f} x, {:>3.0f} ms; balanced {:.2f} x, {:>3.0f} ms\n",
                 name, streams, balanced.alone_ms, fixed.slowdown, fixed.gap_ms, balanced.slowdown, balanced.gap_ms);
      const double limit_ms = std::max(200.0, 1.15 * engine::kGapGrowthMax * balanced.alone_ms);
      EXPECT_LE(balanced.gap_ms, limit_ms);
      EXPECT_LE(balanced.slowdown, balanced.alone_ms > 75 ? 2 : engine::kPromptSlowdownMax);
    }
  }
}

}  // namespace
}  // namespace cairn::sim
