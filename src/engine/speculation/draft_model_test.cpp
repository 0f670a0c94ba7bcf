#include "engine/speculation/draft_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "engine/testing/fake_runner.h"
#include "kernels/cpu/cpu_backend.h"

namespace cairn::engine {
namespace {

using Ids = std::vector<TokenId>;

/// The fake model's next token after a history, the most likely one below `vocabulary`.
TokenId next_of(const Ids& history, int32_t model_vocabulary = 320, int32_t vocabulary = 320) {
  std::vector<float> logits(static_cast<size_t>(model_vocabulary));
  FakeRunner::hash_model(history, logits);
  return TokenId{static_cast<int32_t>(std::max_element(logits.begin(), logits.begin() + vocabulary) - logits.begin())};
}
/// How likely the model finds that token.
double probability_of_next(const Ids& history) {
  std::vector<float> logits(320);
  FakeRunner::hash_model(history, logits);
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return 1 / sum;
}
Ids continuation_of(Ids history, int32_t tokens) {
  const size_t from = history.size();
  for (int32_t i = 0; i < tokens; ++i) history.push_back(next_of(history));
  return {history.begin() + static_cast<ptrdiff_t>(from), history.end()};
}
Ids random_tokens(std::mt19937& random, size_t count) {
  Ids tokens(count);
  for (TokenId& token : tokens) token = TokenId{static_cast<int32_t>(random() % 300)};
  return tokens;
}

class DraftModelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto backend = kernels::make_cpu_backend({.threads = 1, .isa = "generic"});
    ASSERT_TRUE(backend.has_value()) << backend.error().text();
    backend_ = std::move(*backend);
  }
  void start(const FakeRunnerOptions& runner = {}, int32_t pages = 64, int32_t vocabulary = 320) {
    runner_ = std::make_unique<FakeRunner>(runner);
    auto drafter = make_draft_model(*runner_, *backend_, {{pages, pages}, vocabulary});
    ASSERT_TRUE(drafter.has_value()) << drafter.error().text();
    drafter_ = std::move(*drafter);
  }
  Ids propose(int64_t sequence, const Ids& tokens, int32_t tokens_max, float probability_min = 0) {
    Ids proposed;
    const std::array requests = {DraftRequest{.sequence = SequenceId{sequence},
                                              .tokens = tokens,
                                              .tokens_max = tokens_max,
                                              .proposed = &proposed,
                                              .token_probability_min = probability_min}};
    drafter_->propose(requests);
    return proposed;
  }
  int32_t rows_of_last_steps(size_t from) const {
    int32_t rows = 0;
    const auto steps = runner_->steps();
    for (size_t i = from; i < steps.size(); ++i) {
      for (const FakeRunner::Slice& slice : steps[i]) rows += slice.rows;
    }
    return rows;
  }

  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<FakeRunner> runner_;
  std::unique_ptr<Drafter> drafter_;
  std::mt19937 random_{4};
};

TEST_F(DraftModelTest, ProposesTheGreedyTokensOfTheDraftModel) {
  start();
  const Ids tokens = random_tokens(random_, 10);
  EXPECT_EQ(propose(1, tokens, 5), continuation_of(tokens, 5));
  EXPECT_EQ(rows_of_last_steps(0), 10 + 4);  // the last proposal is not computed
  EXPECT_EQ(propose(1, tokens, 0), Ids{});
  EXPECT_EQ(propose(2, {}, 3), Ids{});
}

TEST_F(DraftModelTest, StopsAtATokenThatItFindsUnlikely) {
  start();
  int64_t sequence = 1;
  size_t shortened = 0;
  for (int i = 0; i < 40; ++i) {
    const Ids tokens = random_tokens(random_, 10);
    const Ids all = continuation_of(tokens, 4);
    std::vector<double> probabilities;
    Ids history = tokens;
    for (const TokenId token : all) {
      probabilities.push_back(probability_of_next(history));
      history.push_back(token);
    }
    // Between the second token's probability and those that are at least a little more likely.
    const auto least = static_cast<float>(probabilities[1] * 1.001);
    size_t expected = 0;
    while (expected < all.size() && probabilities[expected] >= least) ++expected;
    EXPECT_EQ(propose(sequence++, tokens, 4, least), Ids(all.begin(), all.begin() + static_cast<ptrdiff_t>(expected)));
    shortened += expected == 1 ? 1 : 0;
    EXPECT_EQ(propose(sequence++, tokens, 4, 1e-9F), all);
    EXPECT_EQ(propose(sequence++, tokens, 4, 1.1F), Ids{});
  }
  EXPECT_GT(shortened, 0u);
}

TEST_F(DraftModelTest, ContinuesFromTheAcceptedProposals) {
  start();
  Ids tokens = random_tokens(random_, 10);
  for (int accepted = 0; accepted <= 4; ++accepted) {
    const Ids proposed = propose(1, tokens, 4);
    ASSERT_EQ(proposed, continuation_of(tokens, 4)) << accepted;
    tokens.insert(tokens.end(), proposed.begin(), proposed.begin() + accepted);
    tokens.push_back(TokenId{299});  // the token that the target model samples instead of, or after, the proposals
    const size_t steps = runner_->steps().size();
    ASSERT_EQ(propose(1, tokens, 1), continuation_of(tokens, 1));
    // Computed now: the sampled token, and the last proposal if it was accepted, as it was not computed before.
    EXPECT_EQ(rows_of_last_steps(steps), accepted == 4 ? 2 : 1) << accepted;
  }
}

TEST_F(DraftModelTest, CatchesUpWithALongPromptOverSeveralCalls) {
  start({.context_tokens = 1'024, .batch_tokens_max = 512});
  const Ids tokens = random_tokens(random_, 300);
  size_t calls = 0;
  for (; calls < 20; ++calls) {
    const size_t steps = runner_->steps().size();
    const Ids proposed = propose(1, tokens, 3);
    if (!proposed.empty()) {
      EXPECT_EQ(proposed, continuation_of(tokens, 3));
      break;
    }
    EXPECT_EQ(rows_of_last_steps(steps), kDraftCatchUpRowsMax);
  }
  EXPECT_EQ(calls, 4u);  // 4 x 64 rows, then the remaining 44
}

TEST_F(DraftModelTest, ALongPromptDoesNotDelayProposalsForOthers) {
  start({.context_tokens = 1'024, .batch_tokens_max = 512});
  const Ids far = random_tokens(random_, 900);
  Ids near = random_tokens(random_, 12);
  for (int call = 0; call < 10; ++call) {
    Ids of_far, of_near;
    const std::array requests = {DraftRequest{SequenceId{1}, far, 2, &of_far},
                                 DraftRequest{SequenceId{2}, near, 2, &of_near}};
    drafter_->propose(requests);
    EXPECT_TRUE(of_far.empty());
    ASSERT_EQ(of_near, continuation_of(near, 2)) << call;
    near.insert(near.end(), of_near.begin(), of_near.end());
  }
}

TEST_F(DraftModelTest, TheLeastRecentlyUsedSequenceIsDroppedWhenPagesRunOut) {
  start({}, 4);
  const Ids a = random_tokens(random_, 40), b = random_tokens(random_, 40), c = random_tokens(random_, 40);
  const auto rows = [&](int64_t sequence, const Ids& tokens) {
    Ids proposed;
    const size_t steps = runner_->steps().size();
    while ((proposed = propose(sequence, tokens, 2)).empty()) {
    }
    EXPECT_EQ(proposed, continuation_of(tokens, 2));
    return rows_of_last_steps(steps);
  };
  EXPECT_EQ(rows(1, a), 41);
  EXPECT_EQ(rows(2, b), 41);
  EXPECT_EQ(rows(1, a), 2);   // sequence 1 is still cached
  EXPECT_EQ(rows(3, c), 41);  // sequence 3 takes the pages of 2
  EXPECT_EQ(rows(1, a), 2);
  EXPECT_EQ(rows(2, b), 41);
}

TEST_F(DraftModelTest, ASequenceWithoutPagesGetsNoProposals) {
  start({}, 4);
  const Ids a = random_tokens(random_, 40), b = random_tokens(random_, 40), c = random_tokens(random_, 40);
  for (int call = 0; call < 3; ++call) {
    Ids of_a, of_b, of_c;
    const std::array requests = {DraftRequest{SequenceId{1}, a, 2, &of_a}, DraftRequest{SequenceId{2}, b, 2, &of_b},
                                 DraftRequest{SequenceId{3}, c, 2, &of_c}};
    drafter_->propose(requests);
    if (call == 0) continue;  // 64 of 80 rows
    EXPECT_EQ(of_a, continuation_of(a, 2));
    EXPECT_EQ(of_b, continuation_of(b, 2));
    EXPECT_EQ(of_c, Ids{});
  }
  EXPECT_EQ(propose(4, random_tokens(random_, 5 * kernels::kPageTokens), 2), Ids{});  // needs more pages than there are
  drafter_->forget(SequenceId{1});
  EXPECT_EQ(propose(2, b, 2), continuation_of(b, 2));
}

TEST_F(DraftModelTest, ForgettingASequenceFreesItsPages) {
  start({}, 2);
  for (int64_t sequence = 0; sequence < 50; ++sequence) {
    const Ids tokens = random_tokens(random_, 12);
    ASSERT_EQ(propose(sequence, tokens, 2), continuation_of(tokens, 2));
    drafter_->forget(SequenceId{sequence});
  }
  drafter_->forget(SequenceId{1'000});  // a sequence that was never seen
}

TEST_F(DraftModelTest, ProposalsStopAtTheEndOfTheContext) {
  start({.context_tokens = 16});
  const Ids tokens = random_tokens(random_, 14);
  EXPECT_EQ(propose(1, tokens, 2), continuation_of(tokens, 2));
  EXPECT_EQ(propose(1, tokens, 3), Ids{});
  EXPECT_EQ(propose(1, random_tokens(random_, 17), 1), Ids{});
}

TEST_F(DraftModelTest, TokensOutsideTheTargetsVocabularyAreNotProposed) {
  start({}, 64, 100);
  const Ids tokens = random_tokens(random_, 10);
  Ids history = tokens;
  for (const TokenId token : propose(1, tokens, 4)) {
    ASSERT_EQ(token, next_of(history, 320, 100));
    history.push_back(token);
  }
  EXPECT_EQ(history.size(), tokens.size() + 4);
  Ids foreign = tokens;
  foreign[3] = TokenId{320};
  EXPECT_EQ(propose(2, foreign, 4), Ids{});
}

TEST_F(DraftModelTest, AFailedCallGivesNoProposalsAndTheNextOneWorks) {
  start();
  const Ids tokens = random_tokens(random_, 10);
  runner_->fail_next(Error{Code::kInternal, "no", {}});
  EXPECT_EQ(propose(1, tokens, 3), Ids{});
  EXPECT_EQ(propose(1, tokens, 3), continuation_of(tokens, 3));
  runner_->throw_next();
  EXPECT_THROW(propose(1, tokens, 3), std::bad_alloc);
  EXPECT_EQ(propose(1, tokens, 3), continuation_of(tokens, 3));
}

TEST_F(DraftModelTest, RefusesRecurrentModelsAndBadOptions) {
  FakeRunner runner;
  for (const std::vector<int32_t>& pages : {std::vector<int32_t>{}, {4}, {4, 0}, {4, 4, 4}}) {
    const auto drafter = make_draft_model(runner, *backend_, {pages, 320});
    ASSERT_FALSE(drafter.has_value());
    EXPECT_EQ(drafter.error().code, Code::kInvalidArgument);
  }
  class Recurrent final : public model::Runner {
   public:
    Result<model::LogitsView> step(const model::Batch& /*batch*/) override { return fail(Code::kInternal, "not run"); }
    const cache::KvLayout& kv_layout() const override { return layout_; }
    int64_t vocabulary() const override { return 10; }
    int32_t context_tokens() const override { return 10; }
    int32_t batch_tokens_max() const override { return 10; }
    int32_t logits_max() const override { return 10; }

   private:
    cache::KvLayout layout_{kernels::KvType::kF32, {{cache::KvKind::kState, 0, {}, 64}}};
  } recurrent;
  const auto drafter = make_draft_model(recurrent, *backend_, {{4}, 10});
  ASSERT_FALSE(drafter.has_value());
  EXPECT_EQ(drafter.error().code, Code::kUnsupported);
}

/// Many sequences that come and go and accept some proposals, with few rows and pages.
TEST_F(DraftModelTest, RandomSequencesGetTheDraftModelsTokens) {
  start({.context_tokens = 256, .batch_tokens_max = 24, .logits_max = 5}, 20);
  std::map<int64_t, Ids> lives;
  int64_t born = 0;
  int64_t right = 0;
  for (int call = 0; call < 600; ++call) {
    if (lives.size() < 8 && random_() % 3 == 0) lives[born++] = random_tokens(random_, 1 + random_() % 60);
    std::vector<Ids> proposed(lives.size());
    std::vector<DraftRequest> requests;
    for (const auto& [sequence, tokens] : lives) {
      if (random_() % 4 == 0) continue;
      const auto tokens_max = static_cast<int32_t>(random_() % 5);
      requests.push_back({SequenceId{sequence}, tokens, tokens_max, &proposed[requests.size()]});
    }
    drafter_->propose(requests);
    for (const DraftRequest& request : requests) {
      Ids& tokens = lives.at(index(request.sequence));
      if (!request.proposed->empty()) {
        ASSERT_EQ(*request.proposed, continuation_of(tokens, request.tokens_max)) << "call " << call;
        right += request.tokens_max;
      }
      const auto accepted = static_cast<ptrdiff_t>(random_() % (request.proposed->size() + 1));
      tokens.insert(tokens.end(), request.proposed->begin(), request.proposed->begin() + accepted);
      tokens.push_back(TokenId{static_cast<int32_t>(random_() % 320)});
    }
    for (auto life = lives.begin(); life != lives.end();) {
      if (life->second.size() > 150 || random_() % 60 == 0) {
        drafter_->forget(SequenceId{life->first});
        life = lives.erase(life);
      } else {
        ++life;
      }
    }
  }
  EXPECT_GT(right, 1'000);
}

}  // namespace
}  // namespace cairn::engine
