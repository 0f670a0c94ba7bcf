// How long a stream waits for its next token while prompts come: a step is as long as its decode rows and --step-ms.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sim/lab.h"
#include "sim/traces.h"

namespace cairn::sim {
namespace {

constexpr double kStepNs = 30e6;
/// Steps in which the cost model learns: nothing is known at first, and a step has at most twice the rows of those
/// seen.
constexpr int64_t kWarmTurns = 16;
/// Steps after which the cost model has noticed a neighbour.
constexpr int32_t kNoticed = 6;
/// While neighbours come and go the model is off by so much.
constexpr double kInFlux = 1.25;

class SimStepTime : public SimTest {
 protected:
  struct Result {
    double worst = 0;          // step / (decode + 2 x step_ms), without noise and neighbours
    double worst_noticed = 0;  // of steps beside a neighbour that has been there for a while
    double filled = 0;         // of --step-ms, on average, while prompts wait
  };

  Result run(const StepCost& cost, uint64_t seed) {
    std::mt19937_64 random(seed);
    SimulationOptions options;
    options.model = {.layout = {KvType::kF32, {full_group()}},
                     .context_tokens = 4'096,
                     .rows_max = 256,
                     .logit_rows_max = 16,
                     .cost = cost,
                     .seed = seed};
    options.engine.kv_pages = {1'000};
    options.engine.running_max = 12;
    options.engine.chunk_rows_max = 256;
    options.engine.prefix_cache = false;
    Simulation simulation(tokenizer(), options);
    for (int i = 0; i < 4; ++i) submit(simulation, 20 + 100 * i, 250, random());
    Result result;
    double filled = 0;
    int64_t filled_steps = 0;
    while (simulation.turns() < 260) {
      if (simulation.turns() >= kWarmTurns && random() % 40 == 0)
        submit(simulation, static_cast<int32_t>(200 + random() % 2'000), 10, random());
      simulation.turn();
      EXPECT_EQ(simulation.problem(), "");
      if (!simulation.problem().empty()) return result;
      const StepLog& step = simulation.last_step();
      if (simulation.turns() <= kWarmTurns || step.decode_rows == 0) continue;
      const double noise = 1 + cost.noise;
      const double slow = step.slow_for > 0 ? cost.slow_factor : 1;
      result.worst = std::max(result.worst, step.ns / noise / slow / (step.decode_ns + 2 * kStepNs));
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
  static void submit(Simulation& simulation, int32_t prompt, int32_t answer, uint64_t seed) {
    Planned one;
    one.request = request_of(random_prompt(prompt, seed), answer);
    one.request.target_ttft = std::chrono::hours(1);  // short prompts that are late may add more
    EXPECT_TRUE(simulation.submit(std::move(one)));
  }
};

TEST_F(SimStepTime, ALongPromptAddsNoMoreThanItMay) {
  constexpr int kSeeds = 60;
  double filled = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
    StepCost cost;
    cost.flat_ns = between(1e6, 60e6);
    cost.flat_rows = static_cast<int32_t>(between(1, 12));
    // More rows cost less each: a step of many could be cut in two.
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
  // Nor much less, or prompts would stand still. A model that never saw a step without prompts thinks it cheaper.
  EXPECT_GE(filled / kSeeds, 0.6);
}

}  // namespace
}  // namespace cairn::sim
