// A model with an almost uniform distribution writes a DSML call: its markup is correct, and the argument's text is
// sampled.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/test_data.h"
#include "chat/constraints/chat_constraint.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

const OutputFormat kDsml{ToolFormat::kDsmlV4, ReasoningFormat::kThink};

class MarkupConstraintTest : public engine::EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }

  enum class Sure { kYes, kNo };
  /// Adds tokens to the script, with how sure the model is of each.
  void says(const std::string& text, Sure sure) {
    const auto tokens = shared_tokenizer->encode(text, {.add_special = false, .parse_special = true}).value();
    for (const TokenId token : tokens) script_.push_back({token, sure});
  }
  void write_script() {
    says("Let me see.\n\n<｜DSML｜", Sure::kYes);
    markup_begin_ = script_.size();
    says("tool_calls>\n<｜DSML｜invoke name=\"read\">\n", Sure::kNo);
    says("<｜DSML｜parameter name=\"path\" string=\"true\">", Sure::kNo);
    text_begin_ = script_.size();
    says("aaaaaaaaaaaaaaaa", Sure::kNo);
    text_end_ = script_.size();
    says("</", Sure::kYes);
    says("｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>", Sure::kNo);
  }
  void make_model() {
    engine::FakeRunnerOptions options;
    options.context_tokens = 256;
    make_runner(options);
    runner_->set_model([script = script_, prompt = kPrompt](std::span<const TokenId> history, std::span<float> logits) {
      std::fill(logits.begin(), logits.end(), 0.0f);
      const auto& [token, sure] = script[std::min(history.size() - prompt, script.size() - 1)];
      logits[static_cast<size_t>(index(token))] = sure == Sure::kYes ? 40 : 1;
    });
  }
  engine::GenerateRequest request(const OutputFormat& format, uint64_t seed) {
    engine::GenerateRequest request = request_of(prompt_of(kPrompt), static_cast<int32_t>(script_.size()), 1.5f, seed);
    request.ignore_eos = request.render_special = true;
    request.constraint = std::make_shared<ChatConstraint>(
        ChatConstraintRules{}, OutputParser(format, kTools, "</think>"), *shared_tokenizer, kNoToken);
    return request;
  }
  /// How many of the answer's tokens [begin, end) are the script's.
  size_t as_scripted(const engine::Answer& answer, size_t begin, size_t end) const {
    size_t count = 0;
    for (size_t i = begin; i < end; ++i) count += answer.tokens[i] == script_[i].first ? 1 : 0;
    return count;
  }

  static constexpr size_t kPrompt = 9;
  const ordered_json kTools = ordered_json::parse(R"([{"type": "function", "function": {"name": "read"}}])");
  std::vector<std::pair<TokenId, Sure>> script_;
  size_t markup_begin_ = 0, text_begin_ = 0, text_end_ = 0;
};

TEST_F(MarkupConstraintTest, MarkupIsGreedyAndArgumentsAreSampled) {
  write_script();
  make_model();
  const size_t end = script_.size();
  start({.kv_pages = {256, 256}, .sequences_max = 16, .prefill_chunk_max = 24});
  std::vector<engine::Answer> answers;
  for (uint64_t seed = 1; seed < 5; ++seed) {
    const engine::Answer& answer = answers.emplace_back(ask(request(kDsml, seed)));
    ASSERT_EQ(answer.tokens.size(), end);
    EXPECT_EQ(as_scripted(answer, 0, text_begin_), text_begin_);
    EXPECT_EQ(as_scripted(answer, text_end_, end), end - text_end_);
    EXPECT_LT(as_scripted(answer, text_begin_, text_end_), (text_end_ - text_begin_) / 2);
  }
  EXPECT_NE(answers[0].tokens, answers[1].tokens);

  // The same bytes with drafts, and with too few pages for all requests at once.
  start({.kv_pages = {12, 12}, .sequences_max = 16, .prefill_chunk_max = 24, .speculation = {.tokens_max = 4}});
  runner_->hold();  // until all requests are in
  std::vector<std::unique_ptr<engine::GenerateStream>> streams;
  for (uint64_t seed = 1; seed < 5; ++seed) streams.push_back(submit(request(kDsml, seed)));
  runner_->release();
  const std::vector<engine::Answer> together = engine::collect_together(streams);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_EQ(together[i].tokens, answers[i].tokens);
  EXPECT_GT(engine_->stats().preemptions, 0);
}

TEST_F(MarkupConstraintTest, WithoutCallsAllTokensAreSampled) {
  write_script();
  make_model();
  start({.kv_pages = {256, 256}, .sequences_max = 16, .prefill_chunk_max = 24});
  const engine::Answer answer = ask(request({ToolFormat::kNone, ReasoningFormat::kThink}, 1));
  EXPECT_LT(as_scripted(answer, markup_begin_, text_begin_), (text_begin_ - markup_begin_) / 2);
}

}  // namespace
}  // namespace cairn::chat
