#include "api/llama_cpp/serializer.h"
#include "base/testing/test_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;
using namespace std::chrono_literals;

engine::TokenEvent event_of(int id, std::string text) {
  engine::TokenEvent event;
  event.token = TokenId{id};
  event.text = std::move(text);
  event.logprob = -1;
  event.top = {{TokenId{6}, -0.5f}};
  return event;
}

class LlamaCppAnswerTest : public testing::Test {
 protected:
  LlamaCppAnswerTest() {
    auto file = gguf::Reader::open(test_data() + "/models/llama.gguf");
    file_ = std::make_unique<gguf::Reader>(std::move(file).value());
    tokenizer_ = tokenizer::Tokenizer::load(file_->metadata()).value();
  }

  /// Two tokens, of which only the second gives text, and " end", which was held back.
  std::string answer(ResponseOptions options, engine::FinishReason reason = engine::FinishReason::kStop,
                     std::string stop = "") {
    options.model = "m";
    for (size_t i = 0; i < (options.several ? 2u : 1u); ++i) {
      options.prompts.push_back(fmt::format("prompt {}", i));
      options.prompt_tokens.push_back(3);
    }
    const auto choices = static_cast<int>(options.prompts.size());
    CompletionSerializer serializer(std::move(options), *tokenizer_);
    std::string bytes = serializer.begin();
    for (int i = 0; i < choices; ++i) {
      bytes += serializer.token(i, event_of(5, ""));
      bytes += serializer.token(i, event_of(7, "Hi"));
      engine::Finish finish;
      finish.reason = reason;
      finish.text = " end";
      finish.stop = stop;
      finish.usage = {3, 2, 1};
      finish.timings = {.prefill = 4ms, .decode = 6ms};
      bytes += serializer.finish(i, std::move(finish));
    }
    return bytes + serializer.done();
  }

  static std::vector<ordered_json> events(const std::string& bytes) {
    std::vector<ordered_json> events;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t end = bytes.find("\n\n", begin);
      EXPECT_EQ(bytes.substr(begin, 6), "data: ");
      events.push_back(ordered_json::parse(bytes.substr(begin + 6, end - begin - 6)));
      begin = end + 2;
    }
    return events;
  }

  std::unique_ptr<gguf::Reader> file_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

TEST_F(LlamaCppAnswerTest, AWholeAnswerIsOneObject) {
  const auto whole = ordered_json::parse(answer({.return_tokens = true}));
  EXPECT_EQ(whole["content"], "Hi end");
  EXPECT_EQ(whole["tokens"].dump(), "[5,7]");
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["stop_type"], "eos");
  EXPECT_EQ(whole["stopping_word"], "");
  EXPECT_EQ(whole["prompt"], "prompt 0");
  EXPECT_EQ(whole["tokens_predicted"], 2);
  EXPECT_EQ(whole["tokens_evaluated"], 3);
  EXPECT_EQ(whole["tokens_cached"], 1);
  EXPECT_EQ(whole["truncated"], false);
  EXPECT_EQ(whole["has_new_line"], false);
  EXPECT_EQ(whole["timings"]["prompt_n"], 2);
  EXPECT_EQ(whole["timings"]["prompt_per_token_ms"], 2.0);
  EXPECT_EQ(whole["timings"]["predicted_per_token_ms"], 3.0);
  EXPECT_FALSE(whole.contains("completion_probabilities"));
  EXPECT_EQ(ordered_json::parse(answer({}))["tokens"].dump(), "[]");
}

TEST_F(LlamaCppAnswerTest, ItSaysWhyItStopped) {
  const auto word = ordered_json::parse(answer({}, engine::FinishReason::kStop, "STOP"));
  EXPECT_EQ(word["stop_type"], "word");
  EXPECT_EQ(word["stopping_word"], "STOP");
  EXPECT_EQ(ordered_json::parse(answer({}, engine::FinishReason::kLength))["stop_type"], "limit");
}

TEST_F(LlamaCppAnswerTest, SeveralPromptsGiveAnArray) {
  const auto list = ordered_json::parse(answer({.several = true}));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["index"], 1);
  EXPECT_EQ(list[1]["prompt"], "prompt 1");
  EXPECT_EQ(list[1]["content"], "Hi end");
}

TEST_F(LlamaCppAnswerTest, AStreamEndsWithEverythingButTheText) {
  const auto all = events(answer({.stream = true, .timings_per_token = true}));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["content"], "Hi");
  EXPECT_EQ(all[0]["tokens"].dump(), "[5,7]");
  EXPECT_EQ(all[0]["stop"], false);
  EXPECT_EQ(all[0]["tokens_predicted"], 2);
  EXPECT_EQ(all[0]["tokens_evaluated"], 3);
  EXPECT_EQ(all[0]["timings"]["predicted_n"], 2);
  EXPECT_EQ(all[1]["content"], " end");
  EXPECT_EQ(all[1]["stop"], false);
  EXPECT_EQ(all[2]["content"], "");
  EXPECT_EQ(all[2]["stop"], true);
  EXPECT_EQ(all[2]["stop_type"], "eos");
  EXPECT_EQ(all[2]["timings"]["predicted_n"], 2);
}

TEST_F(LlamaCppAnswerTest, ProbabilitiesNameTheToken) {
  const auto list = ordered_json::parse(answer({.probabilities = true}))["completion_probabilities"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["id"], 5);
  EXPECT_EQ(list[0]["logprob"], -1);
  EXPECT_EQ(list[0]["top_logprobs"][0]["id"], 6);
  const auto all = events(answer({.stream = true, .probabilities = true}));
  EXPECT_EQ(all[0]["completion_probabilities"].size(), 2u);
}

TEST_F(LlamaCppAnswerTest, ProbabilitiesAfterTheFiltersHaveNamesOfTheirOwn) {
  const auto list =
      ordered_json::parse(answer({.probabilities = true, .filtered_probabilities = true}))["completion_probabilities"];
  EXPECT_NEAR(list[0]["prob"].get<double>(), std::exp(-1), 1e-6);
  EXPECT_NEAR(list[0]["top_probs"][0]["prob"].get<double>(), std::exp(-0.5), 1e-6);
  EXPECT_FALSE(list[0].contains("logprob") || list[0].contains("top_logprobs"));
}

TEST_F(LlamaCppAnswerTest, OnlyTheFieldsAskedForAreAnswered) {
  const auto some =
      ordered_json::parse(answer({.response_fields = {"content", "timings/prompt_n", "nothing", "timings/a/b"}}));
  EXPECT_EQ(some.dump(), R"({"content":"Hi end","timings/prompt_n":2})");
  const auto list =
      ordered_json::parse(answer({.probabilities = true, .response_fields = {"completion_probabilities"}}));
  EXPECT_EQ(list.size(), 1u);
  EXPECT_EQ(list["completion_probabilities"].size(), 2u);
}

TEST_F(LlamaCppAnswerTest, ProgressOfThePromptGoesFromWhatWasCachedToTheWhole) {
  CompletionSerializer serializer(
      {.prompts = {"p"}, .prompt_tokens = {9}, .stream = true, .return_progress = true, .timings_per_token = true},
      *tokenizer_);
  std::string bytes;
  for (const int32_t computed : {5, 5, 7, 9}) bytes += serializer.prefill(0, {9, 2, computed, 3ms});
  std::vector<int> processed;
  for (const auto& event : events(bytes)) {
    EXPECT_EQ(event["prompt_progress"]["total"], 9);
    EXPECT_EQ(event["prompt_progress"]["cache"], 2);
    EXPECT_EQ(event["prompt_progress"]["time_ms"], 3);
    EXPECT_EQ(event["stop"], false);
    EXPECT_EQ(event["timings"]["prompt_n"], event["prompt_progress"]["processed"].get<int>() - 2);
    EXPECT_EQ(event["timings"]["prompt_ms"], processed.empty() ? 0.0 : 3.0);
    EXPECT_EQ(event["timings"]["predicted_ms"], 0.0);
    processed.push_back(event["prompt_progress"]["processed"]);
  }
  EXPECT_EQ(processed, (std::vector<int>{2, 5, 7, 9}));
  const auto token = events(serializer.token(0, event_of(7, "Hi")));
  EXPECT_EQ(token.at(0)["timings"]["cache_n"], 2);
  EXPECT_EQ(token.at(0)["timings"]["prompt_n"], 7);
  EXPECT_TRUE(token.at(0)["timings"]["prompt_per_second"].is_number());
  CompletionSerializer silent({.prompts = {"p"}, .prompt_tokens = {9}, .stream = true, .timings_per_token = true},
                              *tokenizer_);
  EXPECT_EQ(silent.prefill(0, {9, 2, 5, 3ms}), "");
}

TEST_F(LlamaCppAnswerTest, SettingsAreWrittenAsTheyWereSaid) {
  engine::GenerateRequest generate;
  generate.sampling.temperature = 0.8f;
  generate.sampling.logit_bias = {{TokenId{5}, 1.5f}};
  const auto settings = settings_json(generate, 512);
  EXPECT_EQ(settings["temperature"].dump(), "0.8");
  EXPECT_EQ(settings["logit_bias"].dump(), "[[5,1.5]]");
  EXPECT_EQ(settings["n_ctx"], 512);
  EXPECT_EQ(settings["n_predict"], -1);
  EXPECT_EQ(settings["stop"].dump(), "[]");
  EXPECT_EQ(settings["samplers"].dump(),
            R"(["penalties","dry","top_n_sigma","top_k","typ_p","top_p","min_p","xtc","temperature","adaptive_p"])");
  EXPECT_EQ(settings["dry_base"].dump(), "1.75");
}

}  // namespace
}  // namespace cairn::api::llama_cpp
