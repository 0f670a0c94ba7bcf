// Thousands of random traces. CAIRN_SIM_SEED=n replays one of them, CAIRN_SIM_TRACES=m runs that many from there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "sim/lab.h"
#include "sim/traces.h"

namespace cairn::sim {
namespace {

constexpr uint64_t kTraces = 1'600;

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

using SimRandom = SimTest;

TEST_F(SimRandom, AllInvariantsHoldAfterEveryIterationOfRandomTraces) {
  const bool replay = std::getenv("CAIRN_SIM_SEED") != nullptr;
  const uint64_t first = number("CAIRN_SIM_SEED", 1);
  const uint64_t traces = number("CAIRN_SIM_TRACES", replay ? 1 : kTraces);
  std::array<int32_t, 6> cancelled{};
  int64_t preemptions = 0, cached = 0, accepted = 0, refused = 0, restored = 0, displaced = 0;
  for (uint64_t seed = first; seed < first + traces; ++seed) {
    Trace trace = random_trace(tokenizer(), seed);
    Simulation simulation(tokenizer(), trace.options);
    simulation.plan(std::move(trace.planned));
    simulation.run();
    ASSERT_EQ(simulation.problem(), "") << "seed " << seed;
    const engine::EngineStats stats = simulation.core().stats();
    preemptions += stats.preemptions;
    cached += stats.cached_tokens;
    accepted += stats.accepted_tokens;
    restored += stats.pages_restored;
    refused += simulation.refusals();
    displaced += simulation.displacements();
    for (size_t i = 0; i < cancelled.size(); ++i) {
      cancelled[i] += simulation.phases_cancelled_in(static_cast<Phase>(i));
    }
  }
  if (replay) return;
  fmt::print("{} preemptions, {} tokens cached, {} drafts accepted, {} refused, {} displaced, {} pages restored\n",
             preemptions, cached, accepted, refused, displaced, restored);
  // Everything of interest did happen.
  EXPECT_GT(preemptions, 1'000);
  EXPECT_GT(cached, 100'000);
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(refused, 100);
  EXPECT_GT(displaced, 10);
  EXPECT_GT(restored, 500);
  for (const Phase phase : {Phase::kQueue, Phase::kPrefill, Phase::kDecode, Phase::kSpeculation, Phase::kPreempted}) {
    EXPECT_GT(cancelled[static_cast<size_t>(phase)], 20) << "phase " << static_cast<int>(phase);
  }
}

}  // namespace
}  // namespace cairn::sim
