// Models with recurrent states: what later prompts, and prompts beside them, need not compute again.
#include <gtest/gtest.h>

#include "sim/lab.h"
#include "sim/traces.h"

namespace cairn::sim {
namespace {

class SimState : public SimTest {
 protected:
  static SimulationOptions options_of() {
    SimulationOptions options;
    options.model.layout.groups = {full_group(), state_group()};
    options.model.context_tokens = 2'048;
    options.model.batch_tokens_max = 512;
    options.engine.kv_pages = {400, 40};
    options.engine.sequences_max = 8;
    options.engine.prefill_chunk_max = 100;
    options.engine.speculation = {.tokens_max = 4, .ngram_max = 3};
    return options;
  }
  static int64_t rows_of(const Simulation& simulation) {
    return simulation.prompt_rows()[0] + simulation.prompt_rows()[1];
  }
  /// Computes the prompt, and the whole answer; returns that.
  static std::vector<TokenId> ask(Simulation& simulation, std::vector<TokenId> prompt, int32_t tokens) {
    Planned one;
    one.request = request_of(std::move(prompt), tokens);
    one.request.ignore_eos = true;
    EXPECT_TRUE(simulation.submit(std::move(one)));
    simulation.settle();
    EXPECT_EQ(simulation.problem(), "");
    return simulation.visitors().back().answer.tokens;
  }
};

TEST_F(SimState, PromptsThatArriveTogetherComputeTheirBeginningOnce) {
  Simulation simulation(tokenizer(), options_of());
  std::vector<Planned> planned;
  for (uint64_t i = 0; i < 6; ++i) {
    Planned one;
    one.request = request_of(random_prompt(700, 1), 8);
    planned.push_back(std::move(one));
  }
  simulation.plan(std::move(planned));
  simulation.run();
  ASSERT_EQ(simulation.problem(), "");
  // The last checkpoint is at 672. The simulation ends with a short request of its own.
  EXPECT_LE(rows_of(simulation), 700 + 5 * 28 + 100);
}

TEST_F(SimState, EachTurnOfAConversationComputesWhatIsNew) {
  Simulation simulation(tokenizer(), options_of());
  std::vector<TokenId> text = random_prompt(300, 2);
  for (uint64_t turn = 0; turn < 20; ++turn) {
    const std::vector<TokenId> added = random_prompt(11 + turn, 100 + turn);
    text.insert(text.end(), added.begin(), added.end());
    const int64_t before = rows_of(simulation);
    const std::vector<TokenId> answer = ask(simulation, text, 21);
    // The last token of an answer is not computed within it.
    if (turn > 0) {
      EXPECT_EQ(rows_of(simulation) - before, static_cast<int64_t>(added.size()) + 1) << turn;
    }
    // An answer that is left out, as thinking is.
    const int64_t between = rows_of(simulation);
    std::vector<TokenId> without = text;
    const std::vector<TokenId> other = random_prompt(9, 200 + turn);
    without.insert(without.end(), other.begin(), other.end());
    ask(simulation, without, 5);
    EXPECT_LE(rows_of(simulation) - between, 9 + 2 * kernels::kPageTokens) << turn;
    text.insert(text.end(), answer.begin(), answer.end());
  }
}

}  // namespace
}  // namespace cairn::sim
