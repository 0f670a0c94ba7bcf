#include "api/params/generation_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/params/llama_options.h"
#include "api/params/request_context.h"

namespace cairn::api {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

const ordered_json kNothing = ordered_json::object();

Result<engine::GenerateRequest> parse(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  engine::GenerateRequest request;
  read_generation_params(fields, request);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<engine::GenerateRequest> parse(const ordered_json& body) {
  RequestContext context;
  return parse(context, body);
}

engine::GenerateRequest request_of(const ordered_json& body) {
  auto parsed = parse(body);
  EXPECT_TRUE(parsed.has_value()) << parsed.error().text();
  return parsed ? std::move(*parsed) : engine::GenerateRequest{};
}

void expect_params_refused(const ordered_json& body, const std::string& at, const std::string& words) {
  const auto parsed = parse(body);
  ASSERT_FALSE(parsed.has_value()) << body;
  EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  EXPECT_EQ(parsed.error().at, at);
  EXPECT_THAT(parsed.error().message, testing::HasSubstr(words));
}

TEST(GenerationParams, PriorityIsInteractiveOrBatch) {
  EXPECT_EQ(request_of(kNothing).priority, engine::Priority::kInteractive);
  EXPECT_EQ(request_of({{"priority", nullptr}}).priority, engine::Priority::kInteractive);
  EXPECT_EQ(request_of({{"priority", "interactive"}}).priority, engine::Priority::kInteractive);
  EXPECT_EQ(request_of({{"priority", "batch"}}).priority, engine::Priority::kBatch);
  expect_params_refused({{"priority", "urgent"}}, "priority", "must be \"interactive\" or \"batch\", not \"urgent\"");
  expect_params_refused({{"priority", 5}}, "priority", "not 5");  // vLLM's
  expect_params_refused({{"priority", ordered_json::array()}}, "priority", "not an array");
}

TEST(GenerationParams, EndsHaveTheNamesOfOtherServersToo) {
  EXPECT_TRUE(request_of({{"ban_eos_token", true}}).ignore_eos);
  EXPECT_FALSE(request_of({{"ban_eos_token", false}}).ignore_eos);
  EXPECT_TRUE(request_of({{"ban_eos_token", true}, {"ignore_eos", true}}).ignore_eos);
  EXPECT_EQ(request_of({{"min_new_tokens", 7}}).min_tokens, 7);
  EXPECT_EQ(request_of({{"min_new_tokens", 7}, {"min_tokens", 7}}).min_tokens, 7);
  expect_params_refused({{"min_new_tokens", 7}, {"min_tokens", 8}}, "min_new_tokens", "contradicts min_tokens");
}

TEST(GenerationParams, LatencyTargetsAreMillisecondsAsNumbersOrText) {
  EXPECT_EQ(request_of(kNothing).target_ttft, 0ms);
  const auto request = request_of({{"metadata", {{"target_ttft_ms", "250"}, {"target_tbt_ms", 40}, {"user", "me"}}}});
  EXPECT_EQ(request.target_ttft, 250ms);
  EXPECT_EQ(request.target_tbt, 40ms);
  for (const ordered_json& bad : {ordered_json(-1), ordered_json(0), ordered_json("-5"), ordered_json("soon"),
                                  ordered_json(""), ordered_json("5 ms"), ordered_json("nan"), ordered_json("1e99"),
                                  ordered_json(3'600'001), ordered_json(true), ordered_json::object()}) {
    expect_params_refused({{"metadata", {{"target_ttft_ms", bad}}}}, "metadata.target_ttft_ms", "from 1 to 3600000");
    expect_params_refused({{"metadata", {{"target_tbt_ms", bad}}}}, "metadata.target_tbt_ms", "from 1 to 3600000");
  }
  expect_params_refused({{"metadata", "x"}}, "metadata", "must be an object, not a string");
}

TEST(GenerationParams, RequestsWithUnlikeCacheSaltsGetUnlikeSalts) {
  EXPECT_EQ(request_of(kNothing).salt, 0u);
  const uint64_t salt = request_of({{"cache_salt", "one"}}).salt;
  EXPECT_NE(salt, 0u);
  EXPECT_EQ(request_of({{"cache_salt", "one"}}).salt, salt);
  EXPECT_NE(request_of({{"cache_salt", "two"}}).salt, salt);
  EXPECT_NE(request_of({{"cache_salt", std::string(kCacheSaltBytesMax, 'a')}}).salt, 0u);
  expect_params_refused({{"cache_salt", ""}}, "cache_salt", "1 to 256 bytes");
  expect_params_refused({{"cache_salt", std::string(kCacheSaltBytesMax + 1, 'a')}}, "cache_salt", "1 to 256 bytes");
  expect_params_refused({{"cache_salt", 7}}, "cache_salt", "must be a string");
}

TEST(GenerationParams, NumbersWithTwoNamesMustAgree) {
  EXPECT_EQ(request_of({{"typ_p", 0.5}}).sampling.typical_p, 0.5f);
  EXPECT_EQ(request_of({{"repeat_penalty", 1.5}, {"repetition_penalty", 1.5}}).sampling.repetition_penalty, 1.5f);
  expect_params_refused({{"typical_p", 0.5}, {"typ_p", 0.25}}, "typ_p", "contradicts typical_p");
  expect_params_refused({{"repeat_penalty", 1.5}, {"repetition_penalty", 2}}, "repeat_penalty", "contradicts");
  expect_params_refused({{"repeat_penalty", 0}}, "repeat_penalty", "above 0");
}

TEST(GenerationParams, TheLeastAndTheMostOfOtherServersAreTaken) {
  const auto request = request_of({{"top_p", 0}, {"min_p", 1}, {"temperature", 5}, {"stop", {"", "x"}}, {"top_k", -1}});
  EXPECT_EQ(request.sampling.top_p, 0);
  EXPECT_EQ(request.sampling.min_p, 1);
  EXPECT_EQ(request.sampling.temperature, 5);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_THAT(request.stop, testing::ElementsAre("x"));
  EXPECT_TRUE(request_of({{"stop", ""}}).stop.empty());
}

TEST(GenerationParams, EndsOfAnAnswerAreVllms) {
  const auto request = request_of({{"stop", {"a", "b"}},
                                   {"stop_token_ids", {7, 9}},
                                   {"include_stop_str_in_output", true},
                                   {"min_tokens", 4},
                                   {"ignore_eos", true}});
  EXPECT_THAT(request.stop_tokens, testing::ElementsAre(TokenId{7}, TokenId{9}));
  EXPECT_TRUE(request.shows_stop_tokens);
  EXPECT_EQ(request.shown_stops, 2U);
  EXPECT_EQ(request.min_tokens, 4);
  EXPECT_TRUE(request.ignore_eos);
  expect_params_refused({{"stop_token_ids", {-1}}}, "stop_token_ids", "token ids");
  expect_params_refused({{"stop_token_ids", 5}}, "stop_token_ids", "token ids");
  expect_params_refused({{"min_tokens", -1}}, "min_tokens", "from 0");
}

TEST(GenerationParams, ExpressionsThatEndTheAnswerAreOneOrSeveral) {
  EXPECT_THAT(request_of({{"stop_regex", "a+"}}).stop_regexes, testing::ElementsAre("a+"));
  EXPECT_THAT(request_of({{"stop_regex", {"a+", "", "b"}}}).stop_regexes, testing::ElementsAre("a+", "b"));
  for (const ordered_json& none : {ordered_json(""), ordered_json::array(), ordered_json(nullptr)})
    EXPECT_TRUE(request_of({{"stop_regex", none}}).stop_regexes.empty());
  expect_params_refused({{"stop_regex", 5}}, "stop_regex", "an expression or an array of expressions");
  expect_params_refused({{"stop_regex", std::string(1025, 'a')}}, "stop_regex", "at most 1024 bytes");
  expect_params_refused({{"stop_regex", ordered_json(9, "a")}}, "stop_regex", "at most 8 expressions, not 9");
}

TEST(GenerationParams, AllowedTokensAreAListOfAtLeastOne) {
  EXPECT_THAT(request_of({{"allowed_token_ids", {7, 9}}}).allowed_tokens, testing::ElementsAre(TokenId{7}, TokenId{9}));
  EXPECT_TRUE(request_of({{"allowed_token_ids", nullptr}}).allowed_tokens.empty());
  for (const ordered_json& wrong : {ordered_json::array(), ordered_json(5), ordered_json({-1}), ordered_json({"a"})})
    expect_params_refused({{"allowed_token_ids", wrong}}, "allowed_token_ids", "at least one token id");
}

TEST(GenerationParams, BannedTextsAreWordsWithoutTheSpaceBeforeThemOrStringsAsTheyAre) {
  EXPECT_THAT(request_of({{"bad_words", {"a", "  b c ", "\n\n"}}, {"banned_strings", ordered_json::array({" d"})}})
                  .banned_texts,
              testing::ElementsAre("a", "b c ", "\n\n", " d"));
  EXPECT_TRUE(request_of({{"bad_words", ordered_json::array()}, {"banned_strings", nullptr}}).banned_texts.empty());
  for (const char* name : {"bad_words", "banned_strings"}) {
    for (const ordered_json& wrong :
         {ordered_json("a"), ordered_json({""}), ordered_json({1}), ordered_json({std::string(257, 'x')})})
      expect_params_refused({{name, wrong}}, name, "must be an array of strings of 1 to 256 bytes");
    ordered_json many(256, "x");
    EXPECT_EQ(request_of({{name, many}}).banned_texts.size(), 256U);
    many.push_back("y");
    expect_params_refused({{name, many}}, name, "at most 256 strings with 8192 bytes together, not 257 with 257");
    expect_params_refused({{name, ordered_json(33, std::string(256, 'x'))}}, name, "not 33 with 8448");
  }
}

TEST(GenerationParams, BiasesNameTokensOrTexts) {
  const auto pairs = request_of({{"logit_bias", {{"Hello", -5}, {15, false}}}});
  ASSERT_EQ(pairs.text_bias.size(), 1U);
  EXPECT_EQ(pairs.text_bias[0], (std::pair<std::string, float>{"Hello", -5}));
  EXPECT_EQ(pairs.sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{TokenId{15}, -100.0f}}));
  const auto object = request_of({{"logit_bias", ordered_json::parse(R"({"Hello": 1, "15": false})")}});
  EXPECT_EQ(object.text_bias.size(), 1U);
  EXPECT_EQ(object.sampling.logit_bias, pairs.sampling.logit_bias);
  expect_params_refused({{"logit_bias", ordered_json::parse(R"({"15": 101})")}}, "logit_bias", "from -100 to 100");
  expect_params_refused({{"logit_bias", ordered_json::parse(R"({"": 1})")}}, "logit_bias", "ids or texts");
}

TEST(GenerationParams, SamplersAreNamesOrLetters) {
  using enum sampling::SamplerStep;
  EXPECT_THAT(request_of({{"samplers", "tk"}}).sampling.steps, testing::ElementsAre(kTemperature, kTopK));
  EXPECT_THAT(request_of({{"samplers", {"nucleus", "xtc"}}}).sampling.steps, testing::ElementsAre(kTopP, kXtc));
  EXPECT_TRUE(request_of({{"samplers", ordered_json::array()}}).sampling.steps.empty());
  EXPECT_EQ(request_of(kNothing).sampling.steps.size(), sampling::kDefaultSamplerSteps.size());
  expect_params_refused({{"samplers", {"frobnicate"}}}, "samplers", "no step \"frobnicate\"");
  expect_params_refused({{"samplers", "kz"}}, "samplers", "no step \"z\"");
  expect_params_refused({{"samplers", 5}}, "samplers", "array of names");
  expect_params_refused({{"samplers", std::string(sampling::kSamplerStepsMax + 1, 'k')}}, "samplers", "at most 32");
}

TEST(GenerationParams, ABaseBelowOneIsTheDefault) {
  EXPECT_EQ(request_of({{"dry_base", 0.5}}).sampling.dry.base, sampling::DryParams().base);
  EXPECT_EQ(request_of({{"dry_base", 2}}).sampling.dry.base, 2);
  expect_params_refused({{"dry_sequence_breakers", {""}}}, "dry_sequence_breakers", "1 to 256 bytes");
}

TEST(GenerationParams, WithoutTheCacheTheSaltIsNobodyElses) {
  EXPECT_EQ(request_of({{"cache_prompt", true}}).salt, 0U);
  EXPECT_NE(request_of({{"cache_prompt", false}}).salt, request_of({{"cache_prompt", false}}).salt);
}

TEST(GenerationParams, TheServersDefaultsFillInWhatIsMissing) {
  GenerationDefaults defaults;
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters())
    if (parameter.name == "temperature") defaults.sampling.set(parameter, 0.25);
  defaults.seed = 42;
  defaults.predict = 7;
  RequestContext context;
  context.set_model(nullptr, defaults);
  const auto sampling_of = [&](const ordered_json& body) { return parse(context, body).value().sampling; };
  EXPECT_EQ(sampling_of(kNothing).temperature, 0.25f);
  EXPECT_EQ(sampling_of(kNothing).seed, 42U);
  EXPECT_EQ(sampling_of({{"temperature", 1}, {"seed", 5}}).temperature, 1);
  EXPECT_EQ(sampling_of({{"seed", 5}}).seed, 5U);
  EXPECT_NE(sampling_of({{"seed", -1}}).seed, 42U);
  const auto limit_of = [&](const ordered_json& body) {
    RequestFields fields(context, body);
    return read_token_limit(fields).value_or(16);
  };
  EXPECT_EQ(limit_of(kNothing), 7);
  EXPECT_EQ(limit_of({{"n_predict", -2}}), -1);
  EXPECT_EQ(limit_of({{"max_tokens", 3}}), 3);
}

// A value that the sampler takes and that is not the default.
double another_value(const sampling::SamplingParameter& parameter) {
  const double standard = parameter.get(sampling::SamplingParams());
  for (const double value : {0.5, 0.25, 1.0, 2.0})
    if (parameter.contains(value) && value != standard) return value;
  ADD_FAILURE() << parameter.name;
  return standard;
}

TEST(GenerationParams, EveryRowIsReadByItsNamesAndHasADefaultOfTheServers) {
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters()) {
    const double value = another_value(parameter);
    const ordered_json shown = parameter.whole() ? ordered_json(static_cast<int64_t>(value)) : ordered_json(value);
    for (const std::string_view name : {parameter.name, parameter.alias}) {
      if (name.empty()) continue;
      EXPECT_EQ(parameter.get(request_of({{name, shown}}).sampling), value) << name;
      expect_params_refused({{name, "x"}}, std::string(name), "must be");
      if (parameter.high != sampling::SamplingParameter::kNoHigh)
        expect_params_refused({{name, parameter.high + 1}}, std::string(name), "must be from");
    }
    GenerationDefaults defaults;
    defaults.sampling.set(parameter, value);
    RequestContext context;
    context.set_model(nullptr, defaults);
    EXPECT_EQ(parameter.get(parse(context, kNothing).value().sampling), value) << parameter.name;
  }
}

TEST(GenerationParams, NamesOfALimitMustAgree) {
  const ordered_json body = {{"max_tokens", 3}, {"n_predict", 4}};
  RequestContext context;
  RequestFields fields(context, body);
  (void)read_token_limit(fields);
  const auto done = fields.finish();
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().message, "n_predict contradicts max_tokens");
  const ordered_json none = {{"max_tokens", 0}};
  RequestFields nothing(context, none);
  EXPECT_EQ(read_token_limit(nothing), 0);
  EXPECT_TRUE(nothing.finish().has_value());
  for (const std::string_view name : kTokenLimitNames) {
    const ordered_json named = {{name, 7}};
    RequestFields other(context, named);
    EXPECT_EQ(read_token_limit(other), 7) << name;
  }
}

TEST(GenerationParams, StopStringsHaveTheNamesOfOtherServersToo) {
  for (const std::string_view name : kStopNames) {
    EXPECT_THAT(request_of({{name, {"a", "", "b"}}}).stop, testing::ElementsAre("a", "b")) << name;
    EXPECT_THAT(request_of({{name, "a"}, {"stop", {"a"}}}).stop, testing::ElementsAre("a")) << name;
    expect_params_refused({{name, {5}}}, std::string(name), "must be a string");
  }
  expect_params_refused({{"stopping_strings", {"a"}}, {"stop", "b"}}, "stopping_strings", "contradicts stop");
  EXPECT_TRUE(request_of({{"no_stop_trim", true}}).shows_stop_tokens);
}

TEST(GenerationParams, SamplingHasTheNamesOfOtherServersToo) {
  EXPECT_EQ(request_of({{"temperature", 0}, {"do_sample", false}}).sampling.temperature, 0);
  EXPECT_EQ(request_of({{"do_sample", false}}).sampling.temperature, 0);
  EXPECT_EQ(request_of({{"temperature", 2}, {"do_sample", true}}).sampling.temperature, 2);
  expect_params_refused({{"temperature", 0.5}, {"do_sample", false}}, "do_sample", "contradicts temperature");
  const auto sampling =
      request_of({{"rep_pen", 1.5}, {"rep_pen_range", 64}, {"typical", 0.5}, {"sampler_seed", 3}}).sampling;
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.penalty_last, 64);
  EXPECT_EQ(sampling.typical_p, 0.5f);
  EXPECT_EQ(sampling.seed, 3u);
  expect_params_refused({{"rep_pen", 1.5}, {"repetition_penalty", 2}}, "rep_pen", "contradicts repetition_penalty");
  expect_params_refused({{"sampler_seed", 3}, {"seed", 4}}, "sampler_seed", "contradicts seed");
}

TEST(GenerationParams, WhatOtherServersHaveAndThisOneHasNotIsRefusedByName) {
  for (const auto& [name, off, on] : std::initializer_list<std::tuple<const char*, ordered_json, ordered_json>>{
           {"top_a", 0, 0.2},
           {"tfs", 1, 0.9},
           {"smoothing_factor", 0, 0.5},
           {"dynamic_temperature", false, true},
           {"num_beams", 1, 4},
           {"sampler_order", ordered_json::array(), {6, 0}},
           {"add_bos_token", true, false}}) {
    EXPECT_TRUE(parse(ordered_json{{name, off}}).has_value()) << name;
    const auto refused = parse(ordered_json{{name, on}});
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_EQ(refused.error().code, Code::kUnsupported) << name;
    EXPECT_EQ(refused.error().at, name);
  }
  const auto length = parse(ordered_json{{"max_length", 50}});
  ASSERT_FALSE(length.has_value());
  EXPECT_THAT(length.error().message, testing::HasSubstr("use max_tokens"));
}

}  // namespace
}  // namespace cairn::api
