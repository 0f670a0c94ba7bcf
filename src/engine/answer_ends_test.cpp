// What a request can say about the end of its answer, and what it is told of its prompt.
#include <gtest/gtest.h>

#include "base/testing/test_data.h"
#include "engine/output/text_end.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

using std::chrono::milliseconds;

class AnswerEnds : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }

  /// Starts an engine whose model answers a prompt of three tokens with the text.
  void start_with(const std::string& text) {
    runner_->set_model(script(3, encode(text), shared_tokenizer->special().eos));
    start();
  }
};

TEST_F(AnswerEnds, AStopTokenEndsTheAnswerAndIsPartOfItIfAskedFor) {
  const std::vector<TokenId> answer = encode("yes no");
  start_with("yes no");
  GenerateRequest request = request_of(prompt_of(3), 50);
  request.stop_tokens = {answer.back()};
  const Answer got = ask(request);
  EXPECT_EQ(got.tokens, std::vector<TokenId>(answer.begin(), answer.end() - 1));
  EXPECT_EQ(got.finish.reason, FinishReason::kStop);
  EXPECT_EQ(got.finish.stop, "");
  EXPECT_EQ(got.finish.usage.completion_tokens, static_cast<int32_t>(answer.size()));
  request.shows_stop_tokens = true;
  EXPECT_EQ(ask(request).text, "yes no");
}

TEST_F(AnswerEnds, AStopStringIsPartOfTheAnswerIfAskedFor) {
  start_with("the end of the line");
  GenerateRequest request = request_of(prompt_of(3), 50);
  request.stop = {"of the", "nothing"};
  EXPECT_EQ(ask(request).text, "the end ");
  request.shown_stops = 1;
  const Answer got = ask(request);
  EXPECT_EQ(got.text, "the end of the");
  EXPECT_EQ(got.finish.stop, "of the");
  request.stop = {"nothing", "of the"};  // only the first is shown
  EXPECT_EQ(ask(request).text, "the end ");
}

/// Ends the text behind the first time that a part of it comes.
class EndsBehind final : public TextEnd {
 public:
  explicit EndsBehind(std::string part) : part_(std::move(part)) {}
  Result<std::optional<Found>> push(std::string_view text) override {
    const size_t before = text_.size();
    text_ += text;
    if (part_ == "an error" && text_.size() > 4) return fail_at("end", Code::kInvalidArgument, "no end can be found");
    const size_t at = text_.find(part_);
    if (at == std::string::npos) return std::nullopt;
    return Found{at + part_.size() - before, "behind " + part_};
  }

 private:
  std::string part_, text_;
};

TEST_F(AnswerEnds, AnEndThatIsFoundInTheTextCutsTheTokenThatItStandsIn) {
  start_with("the end of the line");
  GenerateRequest request = request_of(prompt_of(3), 50);
  const auto answer = [&](const std::string& part, std::vector<std::string> stops) {
    request.text_end = std::make_shared<EndsBehind>(part);
    request.stop = std::move(stops);
    return ask(request);
  };
  const Answer got = answer("nd o", {});
  EXPECT_EQ(got.text, "the end o");
  EXPECT_EQ(got.finish.reason, FinishReason::kStop);
  EXPECT_EQ(got.finish.stop, "behind nd o");
  // What comes first counts; a stop string holds back what may become one.
  EXPECT_EQ(answer("he line", {"of the"}).text, "the end ");
  EXPECT_EQ(answer("nd", {"d of the lines"}).text, "the end");
  EXPECT_EQ(answer("of the", {"of the lines"}).text, "the end of the");
  EXPECT_EQ(answer("line", {"the lines"}).finish.stop, "behind line");
  EXPECT_EQ(answer("nothing", {}).text, "the end of the line");
  const Answer failed = answer("an error", {});
  EXPECT_EQ(failed.finish.reason, FinishReason::kError);
  EXPECT_EQ(failed.finish.error.at, "end");
  EXPECT_EQ(answer("an error", {"the end of the lines"}).finish.error.at, "end");
}

TEST_F(AnswerEnds, NothingEndsAnAnswerBeforeItsLeastLength) {
  const TokenId eos = shared_tokenizer->special().eos;
  runner_->set_model([eos](std::span<const TokenId>, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), 0.0f);
    logits[static_cast<size_t>(index(eos))] = 10;
    logits[70] = 5;
    logits[71] = 4;
  });
  start();
  GenerateRequest request = request_of(prompt_of(3), 50);
  EXPECT_EQ(ask(request).tokens.size(), 0u);
  request.min_tokens = 5;
  const Answer got = ask(request);
  EXPECT_EQ(got.tokens, std::vector<TokenId>(5, TokenId{70}));
  EXPECT_EQ(got.finish.reason, FinishReason::kStop);
  request.stop_tokens = {TokenId{70}};
  EXPECT_EQ(ask(request).tokens, std::vector<TokenId>(5, TokenId{71}));
}

TEST_F(AnswerEnds, ABiasOfATextIsOneOfEachOfItsTokens) {
  start_with("yes");
  const std::vector<TokenId> yes = encode("yes");
  GenerateRequest request = request_of(prompt_of(3), 4);
  request.text_bias = {{"yes", -100.0f}};
  for (const TokenId token : ask(request).tokens) EXPECT_EQ(std::ranges::find(yes, token), yes.end());
}

TEST_F(AnswerEnds, TheEndOfTheContextIsToldFromThatOfTheRequest) {
  make_runner({.context_tokens = 40});
  start({.kv_pages = {8, 8}, .queue_max = 8, .sequences_max = 4, .prefill_chunk_max = 8});
  GenerateRequest request = request_of(prompt_of(3), -1);
  request.ignore_eos = true;
  EXPECT_TRUE(ask(request).finish.context_full);
  request.max_tokens = 60;
  EXPECT_TRUE(ask(request).finish.context_full);
  request.max_tokens = 10;
  const Answer cut = ask(request);
  EXPECT_EQ(cut.finish.reason, FinishReason::kLength);
  EXPECT_FALSE(cut.finish.context_full);
}

TEST_F(AnswerEnds, ALineThatIsIndentedLessIsNotPartOfTheAnswer) {
  start_with("x = 1\n  y\nz");
  GenerateRequest request = request_of(prompt_of(3), 50);
  request.line_indent_min = 2;
  const Answer got = ask(request);
  EXPECT_EQ(got.text, "x = 1\n  y\n");
  EXPECT_EQ(got.finish.reason, FinishReason::kLength);
  EXPECT_FALSE(got.finish.context_full);
}

TEST_F(AnswerEnds, AnAnswerThatTakesTooLongEndsOnceItHasALine) {
  start_with("a\nb c d e f g h i j k l m n o p");
  GenerateRequest request = request_of(prompt_of(3), 50);
  const size_t all = ask(request).tokens.size();
  request.line_time_max = milliseconds(3'600'000);
  EXPECT_EQ(ask(request).tokens.size(), all);
  runner_->hold();
  request.line_time_max = milliseconds(1);
  const auto stream = submit(request);
  runner_->release();
  const Answer got = collect(*stream);
  EXPECT_GE(got.text.find('\n'), 1u);
}

TEST_F(AnswerEnds, ProgressOfThePromptIsToldToWhomAsksForIt) {
  start({.kv_pages = {64, 64}, .queue_max = 8, .sequences_max = 4, .prefill_chunk_max = 24});
  GenerateRequest request = request_of(prompt_of(100), 3);
  const auto progress_of = [&](const GenerateRequest& asked) {
    const auto stream = submit(asked);
    std::optional<PrefillProgress> last;
    for (Events events; !events.finished;) {
      events = stream->wait(milliseconds(500));
      if (!events.prefill) continue;
      EXPECT_GT(events.prefill->computed, last ? last->computed : -1);
      last = events.prefill;
    }
    return last;
  };
  EXPECT_FALSE(progress_of(request).has_value());
  request.reports_prefill = true;
  request.salt = 5;
  const auto fresh = progress_of(request);
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(fresh->total, 100);
  EXPECT_EQ(fresh->cached, 0);
  EXPECT_EQ(fresh->computed, 100);
  const auto again = progress_of(request);
  ASSERT_TRUE(again.has_value());
  EXPECT_GE(again->cached, 96);
  EXPECT_EQ(again->computed, 100);
}

}  // namespace
}  // namespace cairn::engine
