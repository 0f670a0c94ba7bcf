// Clients that go away: after every iteration and within every step.
#include <gtest/gtest.h>

#include <vector>

#include "sim/lab.h"
#include "sim/traces.h"

namespace cairn::sim {
namespace {

using SimCancel = SimTest;

// Little memory, so that sequences are preempted; shared beginnings; answers that repeat themselves, so that drafts are
// right.
SimulationOptions options_of(std::vector<cache::KvGroup> groups, std::vector<int32_t> pages, bool prefix_cache) {
  SimulationOptions options;
  options.model.layout.groups = std::move(groups);
  options.engine.kv_pages = std::move(pages);
  options.engine.sequences_max = 4;
  options.engine.prefill_chunk_max = 40;
  options.engine.prefix_cache = prefix_cache;
  options.engine.speculation = {.tokens_max = 4, .ngram_max = 3};
  return options;
}

std::vector<Planned> five_requests() {
  std::vector<Planned> planned;
  for (uint64_t i = 0; i < 5; ++i) {
    std::vector<TokenId> prompt = random_prompt(70, i / 3);
    const std::vector<TokenId> own = random_prompt(10, 10 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    Planned one;
    one.request =
        request_of(std::move(prompt), 36, i % 2 == 0 ? engine::Priority::kInteractive : engine::Priority::kBatch);
    one.arrival = std::chrono::milliseconds(i * 30);
    planned.push_back(std::move(one));
  }
  return planned;
}

TEST_F(SimCancel, CancellingAtAnyPointLeavesNothingBehind) {
  const SimulationOptions all[] = {
      options_of({full_group()}, {10}, true),
      options_of({full_group()}, {10}, false),
      options_of({full_group(), window_group(40)}, {10, 12}, true),
      options_of({full_group(), state_group()}, {10, 5}, true),
  };
  for (const SimulationOptions& options : all) {
    SCOPED_TRACE(testing::Message() << "configuration " << &options - all);
    Simulation undisturbed(tokenizer(), options);
    undisturbed.plan(five_requests());
    undisturbed.run();
    ASSERT_EQ(undisturbed.problem(), "");
    const engine::EngineStats stats = undisturbed.core().stats();
    EXPECT_GT(stats.preemptions, 0);
    EXPECT_GT(stats.accepted_tokens, 0);
    std::vector<int32_t> cancelled(6);
    for (size_t request = 0; request < 5; ++request) {
      const int64_t iterations = undisturbed.visitors()[request].ended_iteration;
      for (int64_t iteration = 0; iteration < 2 * iterations; ++iteration) {
        std::vector<Planned> planned = five_requests();
        planned[request].client.cancels_after_iteration = iteration / 2;
        planned[request].client.within_step = iteration % 2 == 1;
        planned[request].client.leaves = iteration % 3 == 0;
        Simulation simulation(tokenizer(), options);
        simulation.plan(std::move(planned));
        simulation.run();
        ASSERT_EQ(simulation.problem(), "")
            << "request " << request << (iteration % 2 == 1 ? " in" : " after") << " iteration " << iteration / 2;
        for (size_t i = 0; i < cancelled.size(); ++i) {
          cancelled[i] += simulation.phases_cancelled_in(static_cast<Phase>(i));
        }
      }
    }
    for (const Phase phase : {Phase::kQueue, Phase::kPrefill, Phase::kDecode, Phase::kPreempted, Phase::kSpeculation}) {
      EXPECT_GT(cancelled[static_cast<size_t>(phase)], 0) << "phase " << static_cast<int>(phase);
    }
  }
}

}  // namespace
}  // namespace cairn::sim
