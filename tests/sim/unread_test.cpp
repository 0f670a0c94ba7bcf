// Clients that do not read do not delay those that do.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/lab.h"
#include "sim/traces.h"

namespace cairn::sim {
namespace {

using std::chrono::nanoseconds;

constexpr auto kForEver = std::chrono::hours(1'000);
/// More tokens than may wait for a client that does not read.
constexpr int32_t kLongAnswer = 1'000;

class SimUnread : public SimTest {
 protected:
  /// Pages for five such answers, and slots for 64 that have just begun.
  static SimulationOptions options_of() {
    SimulationOptions options;
    options.model.layout.groups = {full_group()};
    options.model.context_tokens = 1'024;
    options.model.batch_tokens_max = 128;
    options.model.logits_max = 64;
    options.model.cost.noise = 0;
    options.engine.kv_pages = {160};
    options.engine.sequences_max = 64;
    options.engine.queue_max = 256;
    options.engine.prefill_chunk_max = 64;
    return options;
  }
  static size_t submit(Simulation& simulation, engine::GenerateRequest request, nanoseconds silence = nanoseconds(0)) {
    Planned one;
    one.request = std::move(request);
    one.client.silence = silence;
    EXPECT_TRUE(simulation.submit(std::move(one)));
    return simulation.visitors().size() - 1;
  }
  static void submit_unread(Simulation& simulation, int count) {
    for (int i = 0; i < count; ++i) {
      submit(simulation, request_of(random_prompt(20, static_cast<uint64_t>(i)), kLongAnswer), kForEver);
    }
  }
  /// Runs until every one of them is waiting for its client to read.
  static void run_until_unread(Simulation& simulation) {
    const auto unread = [](const Visitor& visitor) { return visitor.channel->unread(); };
    while (simulation.problem().empty() && !std::ranges::all_of(simulation.visitors(), unread)) simulation.iterate();
    ASSERT_EQ(simulation.problem(), "");
  }
  /// Time from submit to the request's first token.
  static nanoseconds first_token(Simulation& simulation, engine::GenerateRequest request) {
    const nanoseconds begin = simulation.clock().now();
    const size_t honest = submit(simulation, std::move(request));
    while (simulation.problem().empty() && simulation.visitors()[honest].answer.tokens.empty()) simulation.iterate();
    EXPECT_EQ(simulation.problem(), "");
    return simulation.clock().now() - begin;
  }
  static bool runs(Simulation& simulation, size_t visitor) {
    return std::ranges::any_of(simulation.core().running(), [&](const auto& sequence) {
      return &sequence->channel() == simulation.visitors()[visitor].channel.get();
    });
  }
};

TEST_F(SimUnread, ARequestBeside250UnreadOnesIsServedAboutAsSoonAsAlone) {
  const engine::GenerateRequest honest = request_of(random_prompt(300, 1'000), 20);
  Simulation quiet(tokenizer(), options_of());
  const nanoseconds alone = first_token(quiet, honest);
  Simulation simulation(tokenizer(), options_of());
  submit_unread(simulation, 250);
  run_until_unread(simulation);
  for (uint64_t i = 0; i < 30; ++i) {
    // Different prompts than before, so that nothing is cached.
    EXPECT_LE(first_token(simulation, request_of(random_prompt(300, 2'000 + i), 20)), 2 * alone) << i;
  }
}

// A request that arrives while they begin waits until each has a few unread tokens.
TEST_F(SimUnread, UnreadRequestsYieldToTheSameClientsNextOneAfterAFewTokens) {
  Simulation simulation(tokenizer(), options_of());
  submit_unread(simulation, 250);
  first_token(simulation, request_of(random_prompt(300, 1'000), 20));
  EXPECT_LE(simulation.core().stats().tokens_generated, 250 * static_cast<int64_t>(engine::kUnreadTokens + 2));
}

// While their token buffers are still filling, the machine is busy with them: another address gets its share of it.
TEST_F(SimUnread, AnotherClientIsAdmittedInTheNextIterationWhileUnreadOnesRun) {
  Simulation simulation(tokenizer(), options_of());
  submit_unread(simulation, 250);
  for (int i = 0; i < 40; ++i) simulation.iterate();
  for (uint64_t i = 0; i < 30; ++i) {
    engine::GenerateRequest honest = request_of(random_prompt(60, 2'000 + i), 5);
    honest.client = "honest";
    const int64_t iteration = simulation.iterations();
    const size_t visitor = submit(simulation, std::move(honest));
    while (simulation.problem().empty() && simulation.visitors()[visitor].ended_iteration < 0) simulation.iterate();
    ASSERT_EQ(simulation.problem(), "");
    EXPECT_LE(simulation.visitors()[visitor].admitted_iteration, iteration + 1);
    EXPECT_LE(simulation.visitors()[visitor].ended_iteration, iteration + 12);
  }
}

TEST_F(SimUnread, AClientThatReadsLateGetsTheWholeAnswer) {
  Simulation simulation(tokenizer(), options_of());
  for (int i = 0; i < 80; ++i) {
    submit(simulation, request_of(random_prompt(20, static_cast<uint64_t>(i)), kLongAnswer), std::chrono::minutes(2));
  }
  simulation.run();  // compares every answer
  EXPECT_EQ(simulation.problem(), "");
  EXPECT_GT(simulation.core().stats().preemptions, 0);
}

TEST_F(SimUnread, APreemptedUnreadRequestRejoinsBehindThoseThatWaited) {
  SimulationOptions options = options_of();
  options.engine.sequences_max = 1;
  Simulation simulation(tokenizer(), options);
  const size_t unread = submit(simulation, request_of(random_prompt(20, 1), kLongAnswer), kForEver);
  run_until_unread(simulation);
  EXPECT_TRUE(runs(simulation, unread)) << "nobody waits for its place";
  const size_t first = submit(simulation, request_of(random_prompt(20, 2), 30));
  const size_t second = submit(simulation, request_of(random_prompt(20, 3), 30));
  simulation.iterate();
  EXPECT_TRUE(runs(simulation, first));
  (void)simulation.visitors()[unread].channel->drain();  // now it reads, and comes after the second
  while (simulation.problem().empty() && simulation.visitors()[second].ended_iteration < 0) {
    simulation.iterate();
    EXPECT_FALSE(runs(simulation, unread) && simulation.visitors()[second].ended_iteration < 0);
  }
  simulation.iterate();
  EXPECT_TRUE(runs(simulation, unread));
  EXPECT_EQ(simulation.problem(), "");
}

TEST_F(SimUnread, AtMostAsManyUnreadRequestsAreKeptAsMayWait) {
  SimulationOptions options = options_of();
  options.engine.sequences_max = 2;
  options.engine.queue_max = 4;
  Simulation simulation(tokenizer(), options);
  for (uint64_t i = 0; i < 30; ++i) {
    submit(simulation, request_of(random_prompt(20, i), kLongAnswer), kForEver);
    for (int iteration = 0; iteration < 300; ++iteration) simulation.iterate();
    ASSERT_LE(simulation.core().pending().size(), 5u) << "with one that was put back in the last iteration";
    ASSERT_EQ(simulation.problem(), "");
  }
  const engine::GenerateRequest honest = request_of(random_prompt(20, 1'000), 20);
  EXPECT_LT(first_token(simulation, honest), std::chrono::seconds(1));
}

}  // namespace
}  // namespace cairn::sim
