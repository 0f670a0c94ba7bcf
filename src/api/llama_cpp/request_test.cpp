#include "api/llama_cpp/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/params/request_context.h"
#include "api/params/request_fields.h"

namespace cairn::api::llama_cpp {
namespace {

using testing::ElementsAre;

CompletionRequest request_of(std::string_view text) {
  RequestContext context;
  auto request = parse_completion(context, parse_object(text).value());
  EXPECT_TRUE(request.has_value()) << text << request.error().text();
  return request ? std::move(*request) : CompletionRequest{};
}

std::string with(std::string_view more) { return fmt::format(R"({{"prompt": "x", {}}})", more); }

void expect_refused(std::string_view text, Code code, const std::string& at, const std::string& words) {
  RequestContext context({.strict_fields = true});
  const auto request = parse_completion(context, parse_object(text).value());
  ASSERT_FALSE(request.has_value()) << text;
  EXPECT_EQ(request.error().code, code) << text;
  EXPECT_EQ(request.error().at, at) << text << request.error().message;
  EXPECT_THAT(request.error().message, testing::HasSubstr(words)) << text;
}

TEST(LlamaCppRequest, WhatItDoesNotSayIsAsLlamaCppHasIt) {
  const auto request = request_of(R"({"prompt": "x"})");
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.several);
  EXPECT_EQ(request.generate.max_tokens, -1);
  EXPECT_FALSE(request.generate.sampling.logprobs);
  EXPECT_EQ(request.generate.salt, 0u);
}

TEST(LlamaCppRequest, FieldsAreHonoured) {
  const auto request = request_of(with(R"("n_predict": 5, "stream": true, "temperature": 0, "top_k": 3, "top_p": 0.5,
    "min_p": 0.25, "typical_p": 0.75, "repeat_penalty": 1.5, "repeat_last_n": 8, "presence_penalty": 1,
    "frequency_penalty": 0.5, "seed": 7, "stop": ["a"], "ignore_eos": true, "n_probs": 4, "return_tokens": true,
    "timings_per_token": true, "cache_prompt": false, "id_slot": 3, "n_keep": -1, "mirostat": 2, "samplers": "kt",
    "dry_multiplier": 0.5, "xtc_probability": 0.25, "t_max_predict_ms": 50, "grammar": "", "lora": [], "n_cmpl": 2,
    "response_fields": ["content", "timings/prompt_n"], "post_sampling_probs": true, "return_progress": true)"));
  EXPECT_EQ(request.choices, 2);
  EXPECT_TRUE(request.several);
  EXPECT_THAT(request.response_fields, ElementsAre("content", "timings/prompt_n"));
  EXPECT_TRUE(request.generate.reports_prefill);
  EXPECT_EQ(request.generate.line_time_max.count(), 50);
  EXPECT_TRUE(request.stream && request.return_tokens && request.timings_per_token);
  EXPECT_EQ(request.generate.max_tokens, 5);
  EXPECT_TRUE(request.generate.ignore_eos);
  EXPECT_THAT(request.generate.stop, ElementsAre("a"));
  EXPECT_NE(request.generate.salt, 0u);
  const auto& sampling = request.generate.sampling;
  EXPECT_EQ(sampling.temperature, 0);
  EXPECT_EQ(sampling.mirostat, 2);
  EXPECT_THAT(sampling.steps, ElementsAre(sampling::SamplerStep::kTopK, sampling::SamplerStep::kTemperature));
  EXPECT_EQ(sampling.dry.multiplier, 0.5f);
  EXPECT_EQ(sampling.xtc_probability, 0.25f);
  EXPECT_TRUE(sampling.filtered_logprobs);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.top_p, 0.5f);
  EXPECT_EQ(sampling.min_p, 0.25f);
  EXPECT_EQ(sampling.typical_p, 0.75f);
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.penalty_last, 8);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, 0.5f);
  EXPECT_EQ(sampling.seed, 7u);
  EXPECT_TRUE(sampling.logprobs);
  EXPECT_EQ(sampling.top_logprobs, 4);
}

TEST(LlamaCppRequest, NoTokensCacheThePrompt) {
  EXPECT_EQ(request_of(with(R"("n_predict": 0)")).generate.max_tokens, 0);
}

TEST(LlamaCppRequest, AnySeedHasTwoNames) {
  for (const std::string_view any : {R"("seed": -1)", R"("seed": 4294967295)"}) {
    EXPECT_NE(request_of(with(any)).generate.sampling.seed, request_of(with(any)).generate.sampling.seed);
  }
}

TEST(LlamaCppRequest, LogitBiasIsPairsOrAnObject) {
  using Pair = std::pair<TokenId, float>;
  EXPECT_THAT(request_of(with(R"("logit_bias": [[5, 1.5], [6, false], [5, -1]])")).generate.sampling.logit_bias,
              ElementsAre(Pair{TokenId{5}, 1.5f}, Pair{TokenId{6}, -100.0f}, Pair{TokenId{5}, -1.0f}));
  EXPECT_THAT(request_of(with(R"("logit_bias": {"5": 2})")).generate.sampling.logit_bias,
              ElementsAre(Pair{TokenId{5}, 2.0f}));
  EXPECT_TRUE(request_of(with(R"("logit_bias": [])")).generate.sampling.logit_bias.empty());
  for (const std::string_view bad : {"[5]", "[[5]]", "[[-1, 1]]", "[[5, true]]", "[[5, 101]]", "[[1e10, 1]]", "5"})
    expect_refused(with(fmt::format(R"("logit_bias": {})", bad)), Code::kInvalidArgument, "logit_bias", "must");
}

// "text 'x', ids 1 2 | text 'y'": pieces and prompts.
std::string prompts(std::string_view prompt) {
  const auto request = request_of(fmt::format(R"({{"prompt": {}}})", prompt));
  std::string shown = request.several ? "several: " : "";
  for (const auto& mixed : request.prompts) {
    for (const auto& piece : mixed) {
      if (const auto* text = std::get_if<std::string>(&piece)) {
        shown += "'" + *text + "' ";
      } else {
        for (const TokenId id : std::get<std::vector<TokenId>>(piece)) shown += fmt::format("{} ", index(id));
      }
    }
    shown += "| ";
  }
  return shown;
}

TEST(LlamaCppRequest, PromptsAreTextIdsOrBoth) {
  EXPECT_EQ(prompts(R"("x")"), "'x' | ");
  EXPECT_EQ(prompts("[1, 2, 3]"), "1 2 3 | ");
  EXPECT_EQ(prompts(R"([1, "x", 2, 3])"), "1 'x' 2 3 | ");
  EXPECT_EQ(prompts(R"({"prompt_string": "x"})"), "'x' | ");
  EXPECT_EQ(prompts(R"(["x", "y"])"), "several: 'x' | 'y' | ");
  EXPECT_EQ(prompts(R"([[1, "x"], "y", {"prompt_string": "z"}])"), "several: 1 'x' | 'y' | 'z' | ");
  EXPECT_EQ(prompts("[[1, 2]]"), "several: 1 2 | ");
  for (const std::string_view bad : {"1", "[]", "[1.5]", "[-1]", "[true]", R"(["x", true])"})
    expect_refused(fmt::format(R"({{"prompt": {}}})", bad), Code::kInvalidArgument, "prompt", "prompt");
  expect_refused("{}", Code::kInvalidArgument, "prompt", "missing");
  expect_refused(R"({"prompt": [[]]})", Code::kInvalidArgument, "prompt[0]", "must have 1");
  expect_refused(R"({"prompt": {"prompt_string": "x", "multimodal_data": ["y"]}})", Code::kUnsupported,
                 "prompt.multimodal_data", "text only");
}

TEST(LlamaCppRequest, AdaptersAreReadAndWhatIsNoneIsNamed) {
  EXPECT_FALSE(request_of(with(R"("seed": 1)")).generate.adapters.has_value());
  const auto adapters =
      request_of(with(R"("lora": [{"id": 1, "scale": 0.5}, {"id": 0}, {"id": 2, "scale": -1}])")).generate.adapters;
  ASSERT_TRUE(adapters.has_value());
  std::vector<std::pair<int32_t, float>> read;
  for (const auto& [id, scale] : *adapters) read.emplace_back(id, scale);
  EXPECT_THAT(read, ElementsAre(std::pair(1, 0.5F), std::pair(0, 0.0F), std::pair(2, -1.0F)));
  EXPECT_TRUE(request_of(with(R"("lora": [])")).generate.adapters->empty());
  for (const std::string_view wrong : {"1", "{}", "[1]", "[{}]", R"([{"id": "0"}])", R"([{"id": -1}])",
                                       R"([{"id": 0.5}])", R"([{"id": 0, "scale": "1"}])"}) {
    expect_refused(with(fmt::format(R"("lora": {})", wrong)), Code::kInvalidArgument, "lora", "must be an array");
  }
}

TEST(LlamaCppRequest, WhatIsNotAvailableIsRefusedByName) {
  for (const std::string field : {R"("tfs_z": 0.5)", R"("image_data": [{}])", R"("banned_tokens": [5])",
                                  R"("use_beam_search": true)", R"("prompt_logprobs": 0)"}) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    expect_refused(with(field), Code::kUnsupported, name, name + " is not supported");
  }
  expect_refused(with(R"("n_predict": 4, "max_tokens": 5)"), Code::kInvalidArgument, "n_predict", "contradicts");
  expect_refused(with(R"("adaptive_target": 1.5)"), Code::kInvalidArgument, "adaptive_target", "to 1");
  expect_refused(with(R"("adaptive_decay": 1)"), Code::kInvalidArgument, "adaptive_decay", "from 0 to 0.99");
  EXPECT_EQ(request_of(with(R"("adaptive_target": 0.5, "adaptive_decay": 0.5)")).generate.sampling.adaptive_target,
            0.5f);
  expect_refused(with(R"("n_probs": 1001)"), Code::kInvalidArgument, "n_probs", "from 0 to 1000");
  expect_refused(with(R"("temprature": 1)"), Code::kInvalidArgument, "temprature", "not a known field");
  EXPECT_EQ(request_of(with(R"("n_predict": 4, "max_tokens": 4)")).generate.max_tokens, 4);
  EXPECT_EQ(request_of(with(R"("n_predict": -1, "top_n_sigma": -1, "n_cmpl": 1)")).generate.max_tokens, -1);
}

TEST(LlamaCppRequest, SamplersOfOtherServersAreRefusedByNameOnceTheyAreOn) {
  for (const std::string field :
       {R"("bad_words_ids": [[5]])", R"("force_words_ids": [[5]])", R"("skip_special_tokens": false)",
        R"("detokenize": false)", R"("no_repeat_ngram_size": 3)", R"("penalty_alpha": 0.6)",
        R"("encoder_repetition_penalty": 1.2)", R"("epsilon_cutoff": 3)", R"("eta_cutoff": 3)",
        R"("smoothing_factor": 0.2)", R"("guidance_scale": 1.5)", R"("cfg_scale": 2)"}) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    expect_refused(with(field), Code::kUnsupported, name, name + " is not supported");
  }
}

TEST(LlamaCppRequest, ChoicesOfAllPromptsAreLimited) {
  EXPECT_EQ(request_of(R"({"prompt": ["x", "y"], "n": 3})").choices, 3);
  expect_refused(R"({"prompt": ["x", "y"], "n_cmpl": 100})", Code::kInvalidArgument, "n_cmpl", "128 choices");
  expect_refused(with(R"("n": 2, "n_cmpl": 3)"), Code::kInvalidArgument, "n", "contradicts n_cmpl");
}

// Settings of SillyTavern for llama.cpp, which it always sends.
TEST(LlamaCppRequest, FieldsOfOtherServersWithoutAMeaningHereAreTaken) {
  const auto request = request_of(R"({"prompt": "User: hi", "max_new_tokens": 8, "max_tokens": 8, "n_predict": 8,
    "num_predict": 8, "top_a": 0, "tfs": 1, "typical": 1, "typical_p": 1, "smoothing_factor": 0, "add_bos_token": true,
    "truncation_length": 2048, "ban_eos_token": false, "mirostat_mode": 0, "mirostat": 0, "mirostat_tau": 5,
    "dry_sequence_breakers": ["\n", ":"], "dry_penalty_last_n": 0, "rep_pen": 1, "guidance_scale": 1, "cfg_scale": 1,
    "skip_special_tokens": true, "detokenize": true, "no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1,
    "penalty_alpha": 0, "epsilon_cutoff": 0, "eta_cutoff": 0, "bad_words_ids": [], "force_words_ids": null,
    "negative_prompt": "", "custom_token_bans": "", "banned_strings": [], "nsigma": 0, "top_n_sigma": 0, "min_keep": 0,
    "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]})");
  EXPECT_EQ(request.generate.max_tokens, 8);
  EXPECT_EQ(request.generate.sampling.steps.size(), 9) << "all that are named";
  EXPECT_THAT(request.generate.sampling.dry.breakers, ElementsAre("\n", ":"));
}

TEST(LlamaCppRequest, InfillHasAPrefixASuffixAndFiles) {
  RequestContext context;
  const auto parsed = parse_infill(context, parse_object(R"({"input_prefix": "a", "input_suffix": "b", "prompt": "c",
    "input_extra": [{"filename": "x.h", "text": "int x;"}, {"text": "y"}], "n_predict": 4})")
                                                .value());
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text();
  ASSERT_TRUE(parsed->infill.has_value());
  EXPECT_EQ(parsed->infill->prefix, "a");
  EXPECT_EQ(parsed->infill->suffix, "b");
  EXPECT_EQ(parsed->infill->prompt, "c");
  ASSERT_EQ(parsed->infill->files.size(), 2U);
  EXPECT_EQ(parsed->infill->files[0].name, "x.h");
  EXPECT_EQ(parsed->infill->files[1].text, "y");
  EXPECT_EQ(parsed->generate.max_tokens, 4);
  const std::pair<const char*, const char*> bad[] = {
      {R"({"input_suffix": "b"})", "input_prefix"},
      {R"({"input_prefix": "b"})", "input_suffix"},
      {R"({"input_prefix": "", "input_suffix": "", "input_extra": {}})", "input_extra"},
      {R"({"input_prefix": "", "input_suffix": "", "input_extra": [1]})", "input_extra[0]"},
      {R"({"input_prefix": "", "input_suffix": "", "input_extra": [{}]})", "input_extra[0].text"},
      {R"({"input_prefix": "", "input_suffix": "", "prompt": [1]})", "prompt"},
  };
  for (const auto& [body, at] : bad) {
    const auto refused = parse_infill(context, parse_object(body).value());
    ASSERT_FALSE(refused.has_value()) << body;
    EXPECT_EQ(refused.error().at, at) << body;
  }
}

}  // namespace
}  // namespace cairn::api::llama_cpp
