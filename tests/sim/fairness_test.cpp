// Shares of the classes, and freedom from starvation.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "sim/lab.h"
#include "sim/traces.h"

namespace cairn::sim {
namespace {

using std::chrono::milliseconds;

constexpr double kShare = 4;  // interactive requests per batch request
/// Interactive admissions per batch admission, and the one in progress.
constexpr int64_t kStrideMax = 4 + 1;
/// How many requests of the other class may pass a class that waits for memory; then they must wait as well.
constexpr int64_t kBypassMax = 16;

constexpr auto kInteractive = static_cast<size_t>(engine::Priority::kInteractive);
constexpr auto kBatch = static_cast<size_t>(engine::Priority::kBatch);

class SimFairness : public SimTest {
 protected:
  static SimulationOptions options_of(int32_t pages) {
    SimulationOptions options;
    options.model.layout.groups = {full_group()};
    options.model.context_tokens = 1'024;
    options.model.cost = {.flat_ns = 5e6, .flat_rows = 4, .row_ns = 2e5, .attended_ns = 100, .noise = 0.05};
    options.engine.kv_pages = {pages};
    options.engine.sequences_max = 10;
    options.engine.prefill_chunk_max = 64;
    options.engine.queue_max = 64;
    options.engine.prefix_cache = false;
    return options;
  }

  /// Keeps `waiting` requests of the class waiting.
  void keep_waiting(Simulation& simulation, engine::Priority priority, int64_t waiting, int32_t prompt, int32_t answer,
                    milliseconds target) {
    int64_t& submitted = submitted_[static_cast<size_t>(priority)];
    while (submitted - simulation.admissions()[static_cast<size_t>(priority)] < waiting) {
      Planned one;
      one.request = request_of(random_prompt(prompt, ++seed_), answer, priority);
      one.request.target_ttft = target;
      ASSERT_TRUE(simulation.submit(std::move(one)));
      ++submitted;
    }
  }
  /// Submits a request that is watched; returns its index in visitors().
  size_t submit_one(Simulation& simulation, engine::Priority priority, int32_t prompt, int32_t answer,
                    milliseconds target) {
    Planned one;
    one.request = request_of(random_prompt(prompt, ++seed_), answer, priority);
    one.request.target_ttft = target;
    EXPECT_TRUE(simulation.submit(std::move(one)));
    ++submitted_[static_cast<size_t>(priority)];
    return simulation.visitors().size() - 1;
  }

  std::array<int64_t, engine::kPriorities> submitted_{};
  uint64_t seed_ = 0;
};

TEST_F(SimFairness, AdmissionsAndPromptRowsAreFourToOne) {
  Simulation simulation(tokenizer(), options_of(400));
  while (simulation.iterations() < 1'500) {
    keep_waiting(simulation, engine::Priority::kInteractive, 6, 40, 2, milliseconds(0));
    keep_waiting(simulation, engine::Priority::kBatch, 6, 40, 2, milliseconds(0));
    simulation.iterate();
    ASSERT_EQ(simulation.problem(), "");
  }
  const auto admissions = simulation.admissions();
  const auto rows = simulation.prompt_rows();
  EXPECT_GT(admissions[kBatch], 100);
  EXPECT_NEAR(static_cast<double>(admissions[kInteractive]) / static_cast<double>(admissions[kBatch]), kShare, 0.2);
  EXPECT_NEAR(static_cast<double>(rows[kInteractive]) / static_cast<double>(rows[kBatch]), kShare, 0.2);
}

// However long its prompts are, a class has its share of the rows as long as it has prompts, which it has if it gets
// its share of the admissions.
TEST_F(SimFairness, LongPromptsDoNotGiveAClassMoreRows) {
  for (const auto& [interactive, batch] : {std::pair(40, 400), std::pair(200, 60)}) {
    SCOPED_TRACE(testing::Message() << interactive << " and " << batch << " tokens");
    submitted_ = {};
    Simulation simulation(tokenizer(), options_of(400));
    while (simulation.iterations() < 1'500) {
      keep_waiting(simulation, engine::Priority::kInteractive, 6, interactive, 1, milliseconds(0));
      keep_waiting(simulation, engine::Priority::kBatch, 6, batch, 1, milliseconds(0));
      simulation.iterate();
      ASSERT_EQ(simulation.problem(), "");
    }
    const auto counts = batch > interactive ? simulation.prompt_rows() : simulation.admissions();
    EXPECT_NEAR(static_cast<double>(counts[kInteractive]) / static_cast<double>(counts[kBatch]), kShare, 0.4);
  }
}

// A request of one class, while requests of the other with earlier deadlines keep arriving. Until its own deadline an
// interactive one may take its place; after that its turn comes after at most kStrideMax others, kBypassMax more may
// pass it if it waits for memory, and it may be preempted once more if others grow.
TEST_F(SimFairness, ARequestIsServedDespiteAConstantStreamOfTheOtherClass) {
  constexpr milliseconds kTarget(2'000);
  for (const engine::Priority priority : {engine::Priority::kInteractive, engine::Priority::kBatch}) {
    const auto other = priority == engine::Priority::kBatch ? engine::Priority::kInteractive : engine::Priority::kBatch;
    for (const int32_t pages : {400, 40, 14}) {
      const bool memory = pages == 400;
      SCOPED_TRACE(testing::Message() << "class " << static_cast<int>(priority) << ", " << pages << " pages");
      submitted_ = {};
      Simulation simulation(tokenizer(), options_of(pages));
      for (int round = 0; round < 40; ++round) {
        const auto deadline = simulation.clock().now() + kTarget;
        const size_t watched = submit_one(simulation, priority, 300, 20, kTarget);
        int64_t passed = 0;  // by requests of the other class, after the deadline
        while (simulation.visitors()[watched].ended_iteration < 0) {
          const int64_t before = simulation.admissions()[static_cast<size_t>(other)];
          const bool late = simulation.clock().now() > deadline;
          keep_waiting(simulation, other, 6, 60, 30, milliseconds(1));
          simulation.iterate();
          ASSERT_EQ(simulation.problem(), "");
          if (late) passed += simulation.admissions()[static_cast<size_t>(other)] - before;
          ASSERT_LE(passed, memory ? kStrideMax : 2 * (kStrideMax + kBypassMax));
          ASSERT_LE(simulation.clock().now(), deadline + 5 * kTarget);
        }
        const Visitor& visitor = simulation.visitors()[watched];
        if (memory) {
          ASSERT_LE(visitor.others[static_cast<size_t>(other)], kStrideMax);
        }
      }
    }
  }
}

// A fixed deadline is served in the end, however near those of newcomers of the same class are.
TEST_F(SimFairness, ARequestIsServedDespiteEarlierDeadlinesOfItsClass) {
  constexpr int64_t kWaiting = 12;  // more than one iteration admits
  for (const engine::Priority priority : {engine::Priority::kInteractive, engine::Priority::kBatch}) {
    submitted_ = {};
    Simulation simulation(tokenizer(), options_of(400));
    for (int round = 0; round < 20; ++round) {
      const milliseconds target(2'000);
      const size_t watched = submit_one(simulation, priority, 60, 5, target);
      const auto deadline = simulation.clock().now() + target;
      int64_t admitted_by_deadline = -1;
      while (simulation.visitors()[watched].admitted_iteration < 0) {
        if (simulation.clock().now() < deadline) {
          admitted_by_deadline = simulation.admissions()[static_cast<size_t>(priority)];
        }
        keep_waiting(simulation, priority, kWaiting, 60, 5, milliseconds(1));
        simulation.iterate();
        ASSERT_EQ(simulation.problem(), "");
        // Requests that were in the queue by then may come first; and the iteration may have admitted as many as can
        // run.
        const int64_t since = simulation.admissions()[static_cast<size_t>(priority)] - admitted_by_deadline;
        ASSERT_LE(since, kWaiting + 10);
      }
      EXPECT_GE(simulation.clock().now(), deadline);  // those with earlier deadlines came first
    }
  }
}

// 256 answers of one client delay another client's two tokens by at most a step, whether the two come from one address
// or from two, and whether slots or pages are short.
TEST_F(SimFairness, ManyChoicesOfOneClientDoNotDelayAnother) {
  for (const bool one_address : {true, false}) {
    for (const int32_t pages : {600, 30}) {
      SCOPED_TRACE(testing::Message() << pages << " pages, one address: " << one_address);
      SimulationOptions options = options_of(pages);
      options.engine.queue_max = 256;
      Simulation simulation(tokenizer(), options);
      const auto submit = [&](int32_t answer, bool many) {
        Planned one;
        one.request = request_of(random_prompt(40, ++seed_), answer);
        one.request.client = one_address || many ? "address" : "another";
        one.request.tenant = many ? "many" : "few";
        return simulation.submit(std::move(one));
      };
      for (int i = 0; i < 256; ++i) ASSERT_TRUE(submit(60, true));
      for (int i = 0; i < 40; ++i) simulation.iterate();
      for (int round = 0; round < 20; ++round) {
        const int64_t iteration = simulation.iterations();
        ASSERT_TRUE(submit(2, false));
        const size_t few = simulation.visitors().size() - 1;
        while (simulation.problem().empty() && simulation.visitors()[few].ended_iteration < 0) simulation.iterate();
        ASSERT_EQ(simulation.problem(), "");
        EXPECT_LE(simulation.visitors()[few].ended_iteration, iteration + 6);
      }
      simulation.run();  // the 256 answers finish, too
      EXPECT_EQ(simulation.problem(), "");
    }
  }
}

// Prompt rows are shared evenly, whatever the prompts' length and number.
TEST_F(SimFairness, PromptRowsAreSharedEvenlyBetweenClients) {
  Simulation simulation(tokenizer(), options_of(400));
  const std::array<int32_t, 2> prompts = {300, 60};
  std::array<int64_t, 2> rows{};
  std::array<std::vector<size_t>, 2> present;
  while (simulation.iterations() < 2'000) {
    for (size_t client = 0; client < 2; ++client) {
      std::erase_if(present[client], [&](size_t i) {
        const bool ended = simulation.visitors()[i].ended_iteration >= 0;
        if (ended) rows[client] += prompts[client];
        return ended;
      });
      while (present[client].size() < (client == 0 ? 30 : 8)) {
        Planned one;
        one.request = request_of(random_prompt(prompts[client], ++seed_), 1);
        one.request.client = client == 0 ? "long" : "short";
        ASSERT_TRUE(simulation.submit(std::move(one)));
        present[client].push_back(simulation.visitors().size() - 1);
      }
    }
    simulation.iterate();
    ASSERT_EQ(simulation.problem(), "");
  }
  EXPECT_GT(rows[1], 10'000);
  EXPECT_NEAR(static_cast<double>(rows[0]) / static_cast<double>(rows[1]), 1, 0.5);
}

// New clients keep arriving, each with the smallest share: requests that have begun finish all the same.
TEST_F(SimFairness, ARequestFinishesDespiteAConstantStreamOfNewClients) {
  for (const int32_t pages : {400, 60}) {
    Simulation simulation(tokenizer(), options_of(pages));
    size_t present = 0;
    for (int round = 0; round < 10; ++round) {
      const int64_t begin = simulation.iterations();
      const size_t watched = submit_one(simulation, engine::Priority::kInteractive, 900, 20, milliseconds(2'000));
      while (simulation.visitors()[watched].ended_iteration < 0) {
        const auto& visitors = simulation.visitors();
        present = static_cast<size_t>(
            std::ranges::count_if(visitors, [](const Visitor& v) { return !v.refused && v.ended_iteration < 0; }));
        for (; present < 20; ++present) {
          Planned one;
          one.request = request_of(random_prompt(60, ++seed_), 5);
          one.request.client = std::to_string(seed_);
          one.request.target_ttft = milliseconds(1);
          ASSERT_TRUE(simulation.submit(std::move(one)));
        }
        simulation.iterate();
        ASSERT_EQ(simulation.problem(), "");
        ASSERT_LE(simulation.iterations(), begin + 1'000);
      }
    }
  }
}

}  // namespace
}  // namespace cairn::sim
