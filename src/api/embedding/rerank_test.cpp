#include "api/embedding/rerank.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "api/embedding/embedding_run.h"
#include "api/params/request_context.h"
#include "api/params/request_fields.h"
#include "chat/pair_prompts.h"

namespace cairn::api {
namespace {

void expect_rerank_refused(std::string_view body, std::string_view at, std::string_view said) {
  RequestContext context({.strict_fields = true});
  const auto request = parse_rerank(context, parse_object(body).value());
  ASSERT_FALSE(request.has_value()) << body;
  EXPECT_EQ(request.error().at, at);
  EXPECT_NE(request.error().message.find(said), std::string::npos) << request.error().message;
}

TEST(RerankRequest, DocumentsAreTextsOfBothShapes) {
  RequestContext context;
  const auto request =
      parse_rerank(context, parse_object(R"({"model": "m", "query": "q", "documents": ["a", {"text": "b"}],
    "top_n": 1, "return_documents": true, "truncate": true})")
                                .value());
  ASSERT_TRUE(request.has_value()) << request.error().text();
  EXPECT_EQ(request->documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->query, "q");
  EXPECT_EQ(request->top_n, 1u);
  EXPECT_TRUE(request->return_documents && request->truncate);
}

// Search results have ids and sources beside their text.
TEST(RerankRequest, OtherKeysOfADocumentAreKeptWhereTheyComeBack) {
  constexpr std::string_view kDocuments = R"(["a", {"id": 7, "text": "b", "at": [1]}, {"text": "c"}])";
  RequestContext context;
  const auto of = [&](std::string_view name, std::string_view more) {
    return parse_rerank(context,
                        parse_object(fmt::format(R"({{"query": "q", "{}": {}{}}})", name, kDocuments, more)).value());
  };
  const auto request = of("documents", R"(, "return_documents": true)");
  ASSERT_TRUE(request.has_value()) << request.error().text();
  EXPECT_EQ(request->documents, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(request->document_keys, (std::vector<std::string>{"", R"({"id":7,"at":[1]})", ""}));
  EXPECT_TRUE(of("documents", "")->document_keys.empty());
  EXPECT_EQ(of("texts", R"(, "return_text": true)")->document_keys, std::vector<std::string>());
  EXPECT_EQ(context.warnings(), std::vector<std::string>{"texts[1] has keys besides its text, which are left out"});
}

TEST(RerankRequest, TeiHasTexts) {
  RequestContext context;
  const auto request = parse_rerank(
      context,
      parse_object(R"({"query": "q", "texts": ["a", "b"], "raw_scores": true, "return_text": true, "top_n": 1})")
          .value());
  ASSERT_TRUE(request.has_value()) << request.error().text();
  EXPECT_EQ(request->documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request->tei && request->raw_scores && request->return_documents);
  const auto documents = parse_rerank(
      context,
      parse_object(R"({"query": "q", "documents": ["a"], "raw_scores": true, "max_tokens_per_doc": 7})").value());
  ASSERT_TRUE(documents.has_value()) << documents.error().text();
  EXPECT_FALSE(documents->tei || documents->raw_scores);
  EXPECT_EQ(documents->document_tokens_max, 7u);
}

TEST(RerankRequest, WhatIsWrongIsNamed) {
  expect_rerank_refused(R"({"documents": ["a"]})", "query", "text");
  expect_rerank_refused(R"({"query": "q"})", "documents", "array");
  expect_rerank_refused(R"({"query": "q", "documents": []})", "documents", "at least one");
  expect_rerank_refused(R"({"query": "q", "documents": ["a", 3]})", "documents[1]", "text");
  expect_rerank_refused(R"({"query": "q", "texts": ["a", 3]})", "texts[1]", "text");
  expect_rerank_refused(R"({"query": "q", "documents": ["a"], "max_tokens_per_doc": 0})", "max_tokens_per_doc",
                        "from 1");
  expect_rerank_refused(R"({"query": "q", "documents": [{"title": "b"}]})", "documents[0]", "text");
  expect_rerank_refused(R"({"query": "q", "documents": [{"text": 3}]})", "documents[0]", "text");
  expect_rerank_refused(R"({"query": "q", "documents": ["a"], "top_n": 0})", "top_n", "from 1");
  expect_rerank_refused(R"({"query": "q", "documents": ["a"], "rank_fields": []})", "rank_fields", "not a known field");
  nlohmann::ordered_json many = {{"query", "q"}, {"documents", std::vector<std::string>(kEmbedTextsMax + 1, "a")}};
  expect_rerank_refused(many.dump(), "documents", "16384 is the most");
}

TEST(RerankTemplate, TextsStandWhereTheirNamesDo) {
  EXPECT_EQ(chat::fill_rerank_template("Q: {query} D: {document}.", "x", "y").text, "Q: x D: y.");
  EXPECT_EQ(chat::fill_rerank_template("{document}{query}{query}", "x", "y").text, "yxx");
  EXPECT_EQ(chat::fill_rerank_template("{query}|{document}", "{document}", "{query}").text, "{document}|{query}");
  EXPECT_EQ(chat::fill_rerank_template("{ {quer {other}", "x", "y").text, "{ {quer {other}");
  EXPECT_EQ(chat::fill_rerank_template("", "x", "y").text, "");
}

TEST(RerankTemplate, TextsAreForeignAndTheRestIsNot) {
  const auto ranges = [](std::string_view source) { return chat::fill_rerank_template(source, "ab", "cde").foreign; };
  EXPECT_EQ(ranges("Q: {query} D: {document}."), (std::vector<ByteRange>{{3, 5}, {9, 12}}));
  EXPECT_EQ(ranges("{document}{query}!"), (std::vector<ByteRange>{{0, 5}}));
  EXPECT_TRUE(ranges("{quer").empty());
  EXPECT_TRUE(chat::fill_rerank_template("{query}", "", "").foreign.empty());
}

}  // namespace
}  // namespace cairn::api
