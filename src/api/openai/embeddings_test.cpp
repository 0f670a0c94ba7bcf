#include "api/openai/embeddings.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "api/embedding/embedding_run.h"
#include "api/embedding/embeddings.h"
#include "api/params/request_context.h"
#include "api/params/request_fields.h"

namespace cairn::api::openai {
namespace {

EmbeddingsRequest parsed(std::string_view body) {
  RequestContext context;
  const auto request = parse_embeddings(context, parse_object(body).value());
  EXPECT_TRUE(request.has_value()) << request.error().text();
  return request.value_or(EmbeddingsRequest{});
}

void expect_refused(std::string_view body, std::string_view at, std::string_view said) {
  RequestContext context({.strict_fields = true});
  const auto request = parse_embeddings(context, parse_object(body).value());
  ASSERT_FALSE(request.has_value()) << body;
  EXPECT_EQ(request.error().at, at);
  EXPECT_NE(request.error().message.find(said), std::string::npos) << request.error().message;
}

TEST(EmbeddingsRequest, InputIsATextOrIdsOrManyOfThem) {
  const auto text = parsed(R"({"input": "Hello", "model": "m", "user": "u"})");
  EXPECT_EQ(std::get<std::string>(text.inputs.at(0)), "Hello");
  EXPECT_EQ(text.model, "m");
  EXPECT_FALSE(text.is_array || text.base64 || text.truncate);
  EXPECT_EQ(text.dimensions, 0);

  const auto ids = parsed(R"({"input": [3, 4, 5], "dimensions": 7, "encoding_format": "base64", "truncate": true})");
  EXPECT_EQ(ids.inputs.size(), 1u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(ids.inputs[0]), (std::vector{TokenId{3}, TokenId{4}, TokenId{5}}));
  EXPECT_FALSE(ids.is_array);
  EXPECT_TRUE(ids.base64 && ids.truncate);
  EXPECT_EQ(ids.dimensions, 7);

  const auto many = parsed(R"({"input": ["a", [1], "b", [2, 3]]})");
  ASSERT_EQ(many.inputs.size(), 4u);
  EXPECT_TRUE(many.is_array);
  EXPECT_EQ(std::get<std::string>(many.inputs[2]), "b");
  EXPECT_EQ(std::get<std::vector<TokenId>>(many.inputs[3]).size(), 2u);
}

TEST(EmbeddingsRequest, IdsAndTextsMayBeOneInput) {
  const auto mixed = parsed(R"({"input": [12, 34, "string", 56]})");
  ASSERT_EQ(mixed.inputs.size(), 1u);
  EXPECT_FALSE(mixed.is_array);
  const auto& pieces = std::get<EmbeddingPieces>(mixed.inputs[0]);
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(std::get<std::string>(pieces[2]), "string");
  EXPECT_EQ(std::get<TokenId>(pieces[3]), TokenId{56});
  EXPECT_EQ(parsed(R"({"input": ["a", [1, "b"]]})").inputs.size(), 2u);
  EXPECT_EQ(std::get<std::string>(parsed(R"({"content": "a"})").inputs[0]), "a");
  EXPECT_FALSE(parsed(R"({"input": "a", "embd_normalize": -1})").normalise);
  EXPECT_FALSE(parsed(R"({"input": "a", "normalize": false})").normalise);
}

TEST(EmbeddingsRequest, ATextMayBeAnObjectOfLlamaCpps) {
  const auto alone = parsed(R"({"input": {"prompt_string": "a"}})");
  EXPECT_EQ(std::get<std::string>(alone.inputs.at(0)), "a");
  EXPECT_FALSE(alone.is_array);
  const auto many = parsed(
      R"({"input": ["a", {"prompt_string": "b"}, {"content": [{"type": "text", "text": "c "}, {"type": "text", "text": "d"}]}]})");
  ASSERT_EQ(many.inputs.size(), 3u);
  EXPECT_EQ(std::get<std::string>(many.inputs[1]), "b");
  EXPECT_EQ(std::get<std::string>(many.inputs[2]), "c d");
  expect_refused(R"({"input": {"content": "a"}})", "input", "must be");
  expect_refused(R"({"input": {"prompt_string": 5}})", "input", "must be");
  expect_refused(R"({"input": ["a", {"content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]})", "input[1]",
                 "must be");
}

TEST(EmbeddingsRequest, TeiHasNamesOfItsOwn) {
  RequestContext context;
  const auto request =
      parse_tei_embed(context, parse_object(R"({"inputs": ["a", "b"], "normalize": false, "truncate": true})").value());
  ASSERT_TRUE(request.has_value()) << request.error().text();
  EXPECT_EQ(request->inputs.size(), 2u);
  EXPECT_FALSE(request->normalise);
  EXPECT_TRUE(request->truncate);
  EXPECT_EQ(request->shape, EmbeddingShape::kTei);
  EXPECT_FALSE(parse_tei_embed(context, parse_object(R"({"input": "a"})").value()).has_value());
}

TEST(EmbeddingsRequest, WhatIsWrongIsNamed) {
  expect_refused(R"({})", "input", "missing");
  expect_refused(R"({"input": []})", "input", "at least one");
  expect_refused(R"({"input": 3})", "input", "must be");
  expect_refused(R"({"input": [1, {}]})", "input", "ids and texts only");
  expect_refused(R"({"input": [1, -2]})", "input", "ids and texts only");
  expect_refused(R"({"input": [1.5]})", "input", "ids and texts only");
  expect_refused(R"({"input": ["a", {"text": "b"}]})", "input[1]", "must be");
  expect_refused(R"({"input": ["a", [1, true]]})", "input[1]", "must be");
  expect_refused(R"({"content": []})", "content", "at least one");
  expect_refused(R"({"input": "a", "embd_normalize": 1})", "embd_normalize", "must be 2");
  expect_refused(R"({"input": "a", "dimensions": 0})", "dimensions", "from 1");
  expect_refused(R"({"input": "a", "encoding_format": "int8"})", "encoding_format", "base64");
  expect_refused(R"({"input": "a", "truncate": "END"})", "truncate", "true or false");
  expect_refused(R"({"input": "a", "embd_normalize": 2, "normalize": false})", "normalize", "contradicts");
  nlohmann::ordered_json most = {{"input", std::vector<std::string>(kEmbedTextsMax, "a")}};
  RequestContext context;
  EXPECT_TRUE(parse_embeddings(context, most).has_value());
  most["input"].push_back("one more");
  expect_refused(most.dump(), "input", "16384 is the most");
}

TEST(EmbeddingsRequest, WhatWouldMakeAnotherVectorIsRefusedByName) {
  for (const char* field :
       {R"("input_type": "query")", R"("prompt_name": "query")", R"("instruction": "Find it.")", R"("pooling": "mean")",
        R"("task": "retrieval.query")", R"("late_chunking": true)", R"("add_special_tokens": false)"}) {
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    expect_refused(fmt::format(R"({{"input": "a", {}}})", field), name, "is not supported");
  }
  RequestContext context;
  const auto cut = [&](std::string_view value) {
    return parse_tei_embed(
        context, parse_object(fmt::format(R"({{"inputs": "a", "truncation_direction": "{}"}})", value)).value());
  };
  EXPECT_TRUE(cut("Right").has_value());
  EXPECT_EQ(cut("left").error().at, "truncation_direction");
}

TEST(Embeddings, VectorsAreBroughtToLengthOne) {
  EXPECT_EQ(normalised({3, 4}, 0).value(), (std::vector{0.6f, 0.8f}));
  EXPECT_EQ(normalised({3, 4, 100}, 2).value(), (std::vector{0.6f, 0.8f}));
  std::vector<float> tiny(100, 1e-30f);  // whose squares are nothing in float
  const auto longer = normalised(tiny, 0).value();
  EXPECT_NEAR(std::inner_product(longer.begin(), longer.end(), longer.begin(), 0.0), 1, 1e-6);
  EXPECT_FALSE(normalised({0, 0}, 0).has_value());
  EXPECT_FALSE(normalised({1, NAN}, 0).has_value());
  EXPECT_FALSE(normalised({1, std::numeric_limits<float>::infinity()}, 0).has_value());
}

TEST(Embeddings, Base64IsOfLittleEndianFloats) {
  EXPECT_EQ(base64_of({}), "");
  const float one[] = {1};  // 00 00 80 3f
  EXPECT_EQ(base64_of(one), "AACAPw==");
  const float two[] = {1, -2};  // 00 00 80 3f 00 00 00 c0
  EXPECT_EQ(base64_of(two), "AACAPwAAAMA=");
  const float three[] = {1, -2, 0.5f};  // ... 00 00 00 3f
  EXPECT_EQ(base64_of(three), "AACAPwAAAMAAAAA/");
}

}  // namespace
}  // namespace cairn::api::openai
