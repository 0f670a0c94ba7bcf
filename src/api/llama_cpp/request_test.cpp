#include "api/llama_cpp/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/params/request_fields.h"
#include "api/params/request_notes.h"

namespace cairn::api::llama_cpp {
namespace {

using testing::ElementsAre;

CompletionRequest request_of(std::string_view text) {
  auto request = parse_completion(parse_object(text).value());
  EXPECT_TRUE(request.has_value()) << text << request.error().text();
  return request ? std::move(*request) : CompletionRequest{};
}

std::string with(std::string_view more) { return fmt::format(R"({{"prompt": "x", {}}})", more); }

void expect_refused(std::string_view text, Code code, const std::string& at, const std::string& words) {
  const RequestNotes strict(true);
  const auto request = parse_completion(parse_object(text).value());
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
  const auto& sampling = request.generate.sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.8f);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.95f);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.05f);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1);
  EXPECT_FALSE(sampling.logprobs);
  EXPECT_EQ(request.generate.salt, 0u);
}

TEST(LlamaCppRequest, FieldsAreHonoured) {
  const auto request = request_of(with(R"("n_predict": 5, "stream": true, "temperature": 0, "top_k": 3, "top_p": 0.5,
    "min_p": 0.25, "typical_p": 0.75, "repeat_penalty": 1.5, "repeat_last_n": 8, "presence_penalty": 1,
    "frequency_penalty": 0.5, "seed": 7, "stop": ["a"], "ignore_eos": true, "n_probs": 4, "return_tokens": true,
    "timings_per_token": true, "cache_prompt": false, "id_slot": 3, "n_keep": -1, "mirostat": 0, "samplers": [],
    "dry_multiplier": 0.0, "xtc_probability": 0, "t_max_predict_ms": 0, "grammar": "", "lora": [])"));
  EXPECT_TRUE(request.stream && request.return_tokens && request.timings_per_token);
  EXPECT_EQ(request.generate.max_tokens, 5);
  EXPECT_TRUE(request.generate.ignore_eos);
  EXPECT_THAT(request.generate.stop, ElementsAre("a"));
  EXPECT_NE(request.generate.salt, 0u);
  const auto& sampling = request.generate.sampling;
  EXPECT_EQ(sampling.temperature, 0);
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
  const auto request = request_of(with(R"("n_predict": 0)"));
  EXPECT_TRUE(request.only_prompt);
  EXPECT_EQ(request.generate.max_tokens, 1);
  EXPECT_FALSE(request_of(with(R"("n_predict": 1)")).only_prompt);
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
  for (const std::string_view bad : {"[5]", "[[5]]", "[[-1, 1]]", "[[5, true]]", "[[5, 101]]", "[[1e10, 1]]"})
    expect_refused(with(fmt::format(R"("logit_bias": {})", bad)), Code::kInvalidArgument, "logit_bias", "must hold");
  expect_refused(with(R"("logit_bias": [["Hello", 1]])"), Code::kInvalidArgument, "logit_bias", "/tokenize");
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

TEST(LlamaCppRequest, WhatIsNotAvailableIsRefusedByName) {
  for (const std::string field :
       {R"("grammar": "root ::= x")", R"("json_schema": {})", R"("mirostat": 1)", R"("samplers": ["top_k"])",
        R"("dry_multiplier": 0.8)", R"("xtc_probability": 0.5)", R"("dynatemp_range": 1)", R"("top_n_sigma": 1)",
        R"("t_max_predict_ms": 5)", R"("n_indent": 4)", R"("min_keep": 3)", R"("n_cmpl": 2)", R"("lora": [{"id": 0}])",
        R"("response_fields": ["content"])", R"("post_sampling_probs": true)", R"("return_progress": true)"}) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    expect_refused(with(field), Code::kUnsupported, name, name + " is not supported");
  }
  expect_refused(with(R"("n_predict": 4, "max_tokens": 5)"), Code::kInvalidArgument, "max_tokens", "contradicts");
  expect_refused(with(R"("n_probs": 21)"), Code::kInvalidArgument, "n_probs", "from 0 to 20");
  expect_refused(with(R"("temprature": 1)"), Code::kInvalidArgument, "temprature", "not a known field");
  EXPECT_EQ(request_of(with(R"("n_predict": 4, "max_tokens": 4)")).generate.max_tokens, 4);
  EXPECT_EQ(request_of(with(R"("n_predict": -1, "top_n_sigma": -1, "n_cmpl": 1)")).generate.max_tokens, -1);
}

}  // namespace
}  // namespace cairn::api::llama_cpp
