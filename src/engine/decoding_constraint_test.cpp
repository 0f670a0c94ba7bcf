// An answer obeys its DecodingConstraint from the next token on, whatever else is in the batch, with drafts and
// without.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/testing/test_data.h"
#include "engine/decoding_constraint.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

using testing::ElementsAre;
using testing::Not;

TokenId id(int32_t value) { return TokenId{value}; }

/// Applies each scripted rule once the answer has the given number of tokens.
class Scripted final : public DecodingConstraint {
 public:
  struct Move {
    size_t after;  // tokens
    NextTokenRule steer;
  };
  explicit Scripted(std::vector<Move> moves) : moves_(std::move(moves)) {}
  void begin(NextTokenRule& next) override { move(next); }
  void token(TokenId token, std::string_view text, NextTokenRule& next) override {
    seen_.push_back(token);
    text_ += text;
    move(next);
  }
  const std::vector<TokenId>& seen() const { return seen_; }
  const std::string& text() const { return text_; }

 private:
  void move(NextTokenRule& next) {
    for (const Move& move : moves_)
      if (move.after == seen_.size()) next = move.steer;
  }
  std::vector<Move> moves_;
  std::vector<TokenId> seen_;
  std::string text_;
};

class EngineConstraintTest : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }
};

TEST_F(EngineConstraintTest, ForcedTokensComeNextAndTheModelGoesOnFromThem) {
  const auto prompt = prompt_of(9);
  make_runner({});
  // The model's answer to any history: the id after that of the last token.
  runner_->set_model([](std::span<const TokenId> history, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    logits[static_cast<size_t>((index(history.back()) + 1) % 300)] = 10;
  });
  start();
  GenerateRequest request = request_of(prompt, 7);
  const auto constraint = std::make_shared<Scripted>(
      std::vector<Scripted::Move>{{0, {.forced = {id(50)}, .banned = {}, .end = {}}},
                                  {3, {.forced = {id(100), id(200)}, .banned = {}, .end = {}}}});
  request.constraint = constraint;
  const Answer answer = ask(std::move(request));
  EXPECT_THAT(answer.tokens, ElementsAre(id(50), id(51), id(52), id(100), id(200), id(201), id(202)));
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(constraint->seen(), answer.tokens);
  EXPECT_EQ(constraint->text() + answer.finish.text, answer.text);
}

TEST_F(EngineConstraintTest, BannedTokensAreNotChosen) {
  start();
  const GenerateRequest plain = request_of(prompt_of(9), 20);
  const Answer free = ask(plain);
  GenerateRequest request = plain;
  NextTokenRule ban;
  ban.banned = {free.tokens[0], free.tokens[5]};
  request.constraint = std::make_shared<Scripted>(std::vector<Scripted::Move>{{0, ban}});
  const Answer answer = ask(std::move(request));
  EXPECT_EQ(answer.tokens.size(), 20u);
  EXPECT_THAT(answer.tokens, Not(testing::Contains(free.tokens[0])));
  EXPECT_THAT(answer.tokens, Not(testing::Contains(free.tokens[5])));
}

// The model's most likely token has little probability, so that sampling rarely finds it.
TEST_F(EngineConstraintTest, TokensMarkedGreedyAreTheMostLikelyAndOthersAreSampledAsWithoutAConstraint) {
  constexpr size_t kGreedyBegin = 10, kGreedyEnd = 30, kTokens = 45;
  const auto prompt = prompt_of(9);
  make_runner({});
  // One token is a little more likely than all others, and which one depends on the position alone, so that samples of
  // two runs can be compared.
  runner_->set_model([](std::span<const TokenId> history, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    logits[history.size() % 300] = 1;
  });
  const auto ask_with = [&](std::shared_ptr<DecodingConstraint> constraint, int32_t drafts) {
    start({.kv_pages = {64, 64}, .sequences_max = 16, .prefill_chunk_max = 24, .speculation = {.tokens_max = drafts}});
    GenerateRequest request = request_of(prompt, kTokens, 1.5f, 4);
    request.ignore_eos = true;
    request.constraint = std::move(constraint);
    return ask(std::move(request)).tokens;
  };
  NextTokenRule greedy, free;
  greedy.greedy = true;
  const auto steered = [&] {
    return std::make_shared<Scripted>(std::vector<Scripted::Move>{{kGreedyBegin, greedy}, {kGreedyEnd, free}});
  };
  const auto plain = ask_with(nullptr, 0);
  const auto answer = ask_with(steered(), 0);
  ASSERT_EQ(answer.size(), kTokens);
  size_t most_likely = 0;
  for (size_t i = 0; i < kTokens; ++i) {
    const bool is_greedy = i >= kGreedyBegin && i < kGreedyEnd;
    const auto first = id(static_cast<int32_t>(prompt.size() + i));
    EXPECT_EQ(answer[i], is_greedy ? first : plain[i]) << i;
    most_likely += plain[i] == first ? 1 : 0;
  }
  EXPECT_LT(most_likely, 5u);
  EXPECT_EQ(ask_with(steered(), 4), answer);
}

TEST_F(EngineConstraintTest, AnAnswerEndsWhereItsConstraintEndsIt) {
  start();
  GenerateRequest request = request_of(prompt_of(9), 20);
  const Answer free = ask(request);
  request.constraint = std::make_shared<Scripted>(
      std::vector<Scripted::Move>{{4, {.forced = {}, .banned = {}, .end = FinishReason::kRepetition}}});
  const Answer answer = ask(std::move(request));
  EXPECT_EQ(answer.tokens, std::vector<TokenId>(free.tokens.begin(), free.tokens.begin() + 4));
  EXPECT_EQ(answer.finish.reason, FinishReason::kRepetition);
  EXPECT_TRUE(free.text.starts_with(answer.text));
}

// Whether what a constraint expects is right, in part, or not at all.
TEST_F(EngineConstraintTest, ExpectedTokensChangeNoAnswer) {
  start();
  GenerateRequest request = request_of(prompt_of(9), 24, 0.7f, 5);
  request.ignore_eos = true;
  const Answer free = ask(request);
  const auto expect_same_with = [&](std::span<const TokenId> expected) {
    GenerateRequest other = request;
    NextTokenRule rule;
    rule.expected = expected;
    other.constraint = std::make_shared<Scripted>(std::vector<Scripted::Move>{{4, rule}, {5, NextTokenRule{}}});
    EXPECT_EQ(ask(std::move(other)).tokens, free.tokens);
  };
  const auto right = std::span(free.tokens).subspan(4, 6);
  std::vector<TokenId> partly(right.begin(), right.end());
  partly[3] = partly[3] == id(1) ? id(2) : id(1);
  const std::vector<TokenId> many(100, id(1));
  expect_same_with(right);
  expect_same_with(partly);
  expect_same_with(many);
}

// A forced token uses up its place's random number, so samples after it depend on their place alone. Drafts that differ
// from the forced tokens change nothing.
TEST_F(EngineConstraintTest, SpeculationAndOtherRequestsDoNotChangeAConstrainedAnswer) {
  const auto ask_steered = [&](uint64_t seed) {
    GenerateRequest request = request_of(prompt_of(9), 40, 0.8f, seed);
    request.ignore_eos = true;
    request.constraint = std::make_shared<Scripted>(
        std::vector<Scripted::Move>{{5, {.forced = {id(7), id(8), id(9)}, .banned = {}, .end = {}}},
                                    {20, {.forced = {id(3)}, .banned = {}, .end = {}}}});
    return submit(std::move(request));
  };
  start();
  const Answer alone = collect(*ask_steered(3));
  ASSERT_EQ(alone.tokens.size(), 40u);
  EXPECT_EQ(alone.tokens[6], id(8));
  start({.kv_pages = {64, 64}, .sequences_max = 16, .prefill_chunk_max = 24, .speculation = {.tokens_max = 4}});
  std::vector<std::unique_ptr<GenerateStream>> streams;
  for (uint64_t seed = 0; seed < 6; ++seed) streams.push_back(ask_steered(seed));
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Answer answer = collect(*streams[seed]);
    if (seed == 3) {
      EXPECT_EQ(answer.tokens, alone.tokens);
    }
  }
}

// Only token 30 and the end may come, then only the end.
class EngineFormTest : public EngineConstraintTest {
 protected:
  GenerateRequest form_request() {
    for (TokenId end{0}; index(end) < shared_tokenizer->size(); end = TokenId{index(end) + 1}) {
      if (!shared_tokenizer->ends_generation(end)) continue;
      allow(ends_, end);
      allow(both_, end);
    }
    allow(both_, id(30));
    NextTokenRule both, ends;
    both.allowed = both_;
    ends.allowed = ends_;
    GenerateRequest request = request_of(prompt_of(9), 20, 1.5f, 3);
    request.constraint = std::make_shared<Scripted>(std::vector<Scripted::Move>{{0, both}, {4, ends}});
    return request;
  }

 private:
  void allow(std::vector<uint64_t>& mask, TokenId token) {
    mask.resize((static_cast<size_t>(runner_->vocabulary()) + 63) / 64);
    mask[static_cast<size_t>(index(token)) / 64] |= uint64_t{1} << (index(token) % 64);
  }
  std::vector<uint64_t> both_, ends_;
};

TEST_F(EngineFormTest, AFormThatMayEndGoesOnWhileEndsAreIgnoredOrForbidden) {
  for (const bool ignored : {true, false}) {
    start();
    GenerateRequest request = form_request();
    request.ignore_eos = ignored;
    if (!ignored) request.min_tokens = 10;
    const Answer answer = ask(std::move(request));
    EXPECT_EQ(answer.tokens, std::vector<TokenId>(4, id(30)));
    EXPECT_EQ(answer.finish.reason, FinishReason::kStop) << "where only the end is left, it is the end";
  }
}

TEST_F(EngineFormTest, AFormOfWhichEverythingIsBannedIsAnErrorOfTheRequest) {
  start();
  GenerateRequest request = request_of(prompt_of(9), 20);
  std::vector<uint64_t> mask((static_cast<size_t>(runner_->vocabulary()) + 63) / 64);
  mask[0] = uint64_t{1} << 30;
  NextTokenRule rule;
  rule.allowed = mask;
  rule.banned = {id(30)};
  request.constraint = std::make_shared<Scripted>(std::vector<Scripted::Move>{{0, rule}});
  const Answer answer = ask(std::move(request));
  EXPECT_EQ(answer.finish.reason, FinishReason::kError);
  EXPECT_EQ(answer.finish.error.code, Code::kInvalidArgument);
}

/// Takes its time to say what may come next, on a thread beside the steps.
class Slow final : public DecodingConstraint {
 public:
  explicit Slow(std::shared_ptr<Scripted> script, std::chrono::milliseconds time)
      : script_(std::move(script)), time_(time) {}
  void begin(NextTokenRule& next) override {
    script_->begin(next);
    next.unfinished = true;
  }
  void token(TokenId token, std::string_view text, NextTokenRule& next) override {
    EXPECT_FALSE(at_work_.load()) << "two threads use it at once";
    script_->token(token, text, next);
    next.unfinished = true;
  }
  void finish(NextTokenRule& next) override {
    at_work_ = true;
    std::this_thread::sleep_for(time_);
    at_work_ = false;
    next.unfinished = false;
  }

 private:
  std::shared_ptr<Scripted> script_;
  std::chrono::milliseconds time_;
  std::atomic<bool> at_work_ = false;
};

TEST_F(EngineConstraintTest, AConstraintThatTakesLongChangesNoAnswerAndStopsNoOther) {
  const auto script = [] {
    return std::make_shared<Scripted>(
        std::vector<Scripted::Move>{{2, {.forced = {id(7), id(8)}, .banned = {}, .end = {}}},
                                    {9, {.forced = {}, .banned = {}, .end = FinishReason::kRepetition}}});
  };
  for (const int32_t drafts : {0, 4}) {
    start({.kv_pages = {64, 64}, .sequences_max = 16, .prefill_chunk_max = 24, .speculation = {.tokens_max = drafts}});
    const auto ask_with = [&](std::shared_ptr<DecodingConstraint> constraint) {
      GenerateRequest request = request_of(prompt_of(9), 20, 0.8f, 5);
      request.ignore_eos = true;
      request.constraint = std::move(constraint);
      return submit(std::move(request));
    };
    const Answer quick = collect(*ask_with(script()));
    ASSERT_EQ(quick.tokens.size(), 9u);
    auto slow_stream = ask_with(std::make_shared<Slow>(script(), std::chrono::milliseconds(30)));
    auto brief_stream = ask_with(std::make_shared<Slow>(script(), std::chrono::milliseconds(0)));
    EXPECT_EQ(collect(*ask_with(script())).tokens, quick.tokens);
    EXPECT_EQ(collect(*brief_stream).tokens, quick.tokens);
    const Answer slow = collect(*slow_stream);
    EXPECT_EQ(slow.tokens, quick.tokens);
    EXPECT_EQ(slow.text + slow.finish.text, quick.text + quick.finish.text);
    EXPECT_EQ(slow.finish.reason, FinishReason::kRepetition);
  }
}

TEST_F(EngineConstraintTest, AClientMayGoWhileItsConstraintIsAtWork) {
  start();
  for (int i = 0; i < 8; ++i) {
    GenerateRequest request = request_of(prompt_of(9), 20);
    request.constraint = std::make_shared<Slow>(std::make_shared<Scripted>(std::vector<Scripted::Move>{}),
                                                std::chrono::milliseconds(20));
    auto stream = submit(std::move(request));
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * i));
    stream.reset();
  }
  EXPECT_EQ(ask(request_of(prompt_of(9), 5)).tokens.size(), 5u);
}

}  // namespace
}  // namespace cairn::engine
