// Random traces with a disk tier, whose pages outlive each process: all invariants hold, and no answer changes.
#include <gtest/gtest.h>

#include "base/log.h"
#include "sim/lab.h"
#include "sim/traces.h"

namespace cairn::sim {
namespace {

constexpr uint64_t kDiskTraces = 150;

using SimDisk = SimTest;

TEST_F(SimDisk, AllInvariantsHoldWhileProcessesComeAndGo) {
  int64_t hits = 0, tokens = 0, failures = 0, preemptions = 0;
  for (uint64_t seed = 1; seed <= kDiskTraces; ++seed) {
    cache::disk::MemoryDisk files;
    for (int process = 0; process < 3; ++process) {
      Trace trace = random_trace(tokenizer(), seed);
      if (!trace.options.engine.prefix_cache) break;
      trace.options.disk = &files;
      trace.options.seed = seed + static_cast<uint64_t>(process);
      Simulation simulation(tokenizer(), trace.options);
      simulation.plan(std::move(trace.planned));
      simulation.run();
      ASSERT_EQ(simulation.problem(), "") << "seed " << seed << ", process " << process;
      const engine::EngineStats stats = simulation.core().stats();
      hits += stats.disk_hits;
      tokens += stats.disk_tokens;
      failures += stats.disk_failures;
      preemptions += stats.preemptions;
      ASSERT_EQ(stats.disk.damaged, 0) << "seed " << seed;
    }
  }
  fmt::print("{} prompts went on from the disk with {} tokens, {} did not after all; {} preemptions\n", hits, tokens,
             failures, preemptions);
  EXPECT_GT(hits, 200);
  EXPECT_GT(tokens, 10'000);
  EXPECT_GT(preemptions, 100);
}

/// A conversation of 30 turns, each in a process of its own.
void expect_only_new_tokens(const tokenizer::Tokenizer& tokenizer, std::vector<cache::KvGroup> groups) {
  cache::disk::MemoryDisk files;
  SimulationOptions options;
  options.model.layout.groups = std::move(groups);
  options.model.context_tokens = 4'096;
  options.model.batch_tokens_max = 256;
  options.engine.kv_pages.assign(options.model.layout.groups.size(), 140);
  options.engine.sequences_max = 2;
  options.engine.prefill_chunk_max = 128;
  options.disk = &files;
  std::vector<TokenId> history = random_prompt(600, 1);
  for (int32_t turn = 0; turn < 30; ++turn) {
    Simulation simulation(tokenizer, options);
    Planned one;
    one.request = request_of(history, 20);
    ASSERT_TRUE(simulation.submit(std::move(one)));
    simulation.settle();
    ASSERT_EQ(simulation.problem(), "");
    const engine::Answer& answer = simulation.visitors().back().answer;
    if (turn > 0) {
      // The last sampled token, which was never computed, and the next question.
      EXPECT_EQ(answer.finish.usage.prompt_tokens - answer.finish.usage.cached_tokens, 1 + 70) << "turn " << turn;
      EXPECT_EQ(answer.finish.usage.disk_tokens, answer.finish.usage.cached_tokens);
    }
    history.insert(history.end(), answer.tokens.begin(), answer.tokens.end());
    const std::vector<TokenId> question = random_prompt(70, 100 + static_cast<uint64_t>(turn));
    history.insert(history.end(), question.begin(), question.end());
    simulation.flush();
  }
}

TEST_F(SimDisk, AfterEveryRestartAConversationComputesItsNewTokensOnly) {
  for (const auto& groups : std::vector<std::vector<cache::KvGroup>>{{full_group()},
                                                                     {latent_group()},
                                                                     {full_group(), window_group(50)},
                                                                     {window_group(70), latent_group()},
                                                                     {full_group(), state_group()},
                                                                     {full_group(), window_group(40), state_group()}}) {
    expect_only_new_tokens(tokenizer(), groups);
  }
}

/// A process that answers one prompt: with all checks of the simulation, of which one is the answer itself.
engine::Answer answer_of(const tokenizer::Tokenizer& tokenizer, const SimulationOptions& options,
                         const engine::GenerateRequest& request, bool ends_well) {
  Simulation simulation(tokenizer, options);
  Planned one;
  one.request = request;
  EXPECT_TRUE(simulation.submit(std::move(one)));
  simulation.settle();
  EXPECT_EQ(simulation.problem(), "");
  if (ends_well) simulation.flush();
  return simulation.visitors().back().answer;
}

TEST_F(SimDisk, WhereverAProcessIsKilledTheNextAnswersTheSameFromWhatIsThere) {
  constexpr int32_t kPoints = 1'000;
  constexpr uint64_t kCalls = 100;
  set_log_level(LogLevel::kOff);  // every killed process says so
  std::mt19937_64 random(1);
  int32_t found = 0;
  for (int32_t point = 0; point < kPoints; ++point) {
    cache::disk::MemoryDisk files;
    SimulationOptions options;
    options.model.layout.groups = {full_group()};
    if (point % 3 == 1) options.model.layout.groups.push_back(window_group(50));
    if (point % 3 == 2) options.model.layout.groups.push_back(state_group());
    options.model.context_tokens = 1'024;
    options.engine.kv_pages.assign(options.model.layout.groups.size(), 40);
    options.disk = &files;
    options.seed = static_cast<uint64_t>(point);
    const engine::GenerateRequest request = request_of(random_prompt(600, static_cast<uint64_t>(point)), 20);
    options.disk_calls = static_cast<int64_t>(random() % kCalls);
    const engine::Answer first = answer_of(tokenizer(), options, request, true);
    files.lose_power(random);
    options.disk_calls = -1;
    int64_t pages = 0;
    {
      cache::disk::MemoryFiles looking(files);
      const auto store = cache::disk::PageStore::open(looking, "/kv", {.unix_s = [] { return int64_t{1}; }});
      ASSERT_TRUE(store.has_value()) << point << ": " << store.error().text();
      pages = (*store)->counts().pages;
    }
    const engine::Answer second = answer_of(tokenizer(), options, request, true);
    EXPECT_EQ(second.tokens, first.tokens) << point;
    if (options.model.layout.groups.size() == 1) {
      EXPECT_EQ(second.finish.usage.disk_tokens > 0, pages > 0) << point << ": " << pages;
    }
    found += second.finish.usage.disk_tokens > 0 ? 1 : 0;
    // Nothing that the first left behind fails for ever.
    const engine::Answer third = answer_of(tokenizer(), options, request, false);
    EXPECT_EQ(third.tokens, first.tokens) << point;
    EXPECT_GE(third.finish.usage.disk_tokens, 512) << point;
  }
  set_log_level(LogLevel::kInfo);
  fmt::print("{} of {} went on from what a killed process had left\n", found, kPoints);
  EXPECT_GT(found, kPoints / 4);
}

TEST_F(SimDisk, TheKilledProcesssPromptIsFoundAsFarAsItWasWritten) {
  for (const bool state : {false, true}) {
    cache::disk::MemoryDisk files;
    SimulationOptions options;
    options.model.layout.groups = {full_group()};
    if (state) options.model.layout.groups.push_back(state_group());
    options.model.context_tokens = 2'048;
    options.engine.kv_pages.assign(options.model.layout.groups.size(), 70);
    options.disk = &files;
    const std::vector<TokenId> prompt = random_prompt(1'200, 7);
    const auto ask = [&] {
      Simulation simulation(tokenizer(), options);
      Planned one;
      one.request = request_of(prompt, 200);
      EXPECT_TRUE(simulation.submit(std::move(one)));
      simulation.settle();
      EXPECT_EQ(simulation.problem(), "");
      return simulation.visitors().back().answer;
    };
    const engine::Answer first = ask();
    const engine::Answer second = ask();
    EXPECT_EQ(second.tokens, first.tokens);
    EXPECT_GE(second.finish.usage.disk_tokens, 1'024) << state;
  }
}

}  // namespace
}  // namespace cairn::sim
