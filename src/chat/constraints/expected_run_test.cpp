// Keys and punctuation that a grammar leaves no choice about are expected, values are not.
#include "chat/constraints/expected_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/test_data.h"
#include "grammar/grammar_source.h"

namespace cairn::chat {
namespace {

using grammar::GrammarSource;

class ExpectedRunTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = gguf::Reader::open(test_data("/models/llama.gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().text();
    tokenizer_ = tokenizer::Tokenizer::load(file->metadata()).value();
  }
  grammar::Matcher matcher(const char* schema) {
    GrammarSource source{.kind = GrammarSource::Kind::kJsonSchema, .schema = nlohmann::ordered_json::parse(schema)};
    return grammar::Matcher(grammar::compile(source).value());
  }
  /// What is expected after more text, the last token of which is taken by itself.
  std::span<const TokenId> take(std::string_view more, ExpectedRun& run, grammar::Matcher& matcher) {
    EXPECT_EQ(matcher.push(more), more.size());
    return run.after(tokenizer_->encode(more, {}).value().back(), more, matcher);
  }
  std::string text(std::span<const TokenId> tokens) {
    std::string text;
    for (const TokenId token : tokens) text += tokenizer_->piece(token, false);
    return text;
  }
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

constexpr const char* kSchema =
    R"({"type": "object", "properties": {"colour": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["colour", "count"], "additionalProperties": false})";

TEST_F(ExpectedRunTest, KeysAndPunctuationAreExpectedUpToAValue) {
  grammar::Matcher m = matcher(kSchema);
  ExpectedRun run(*tokenizer_);
  EXPECT_TRUE(run.after(kNoToken, "", m).empty());
  EXPECT_EQ(text(take("{", run, m)), R"("colour": ")");
  EXPECT_EQ(m.position(), 1u);
  ExpectedRun later(*tokenizer_);
  EXPECT_EQ(text(take(R"("colour": "red")", later, m)), R"(, "count": )");
}

TEST_F(ExpectedRunTest, TokensThatComeAsExpectedLeaveTheRest) {
  grammar::Matcher m = matcher(kSchema);
  ExpectedRun run(*tokenizer_);
  const auto all = take("{", run, m);
  const std::vector<TokenId> tokens(all.begin(), all.end());
  ASSERT_GT(tokens.size(), 2u);
  m.push(tokenizer_->piece(tokens[0], false));
  const auto rest = run.after(tokens[0], tokenizer_->piece(tokens[0], false), m);
  EXPECT_EQ(std::vector(rest.begin(), rest.end()), std::vector(tokens.begin() + 1, tokens.end()));
}

TEST_F(ExpectedRunTest, HowAnAnswerInLinesGoesOnBehindABraceIsNotAssumed) {
  grammar::Matcher m = matcher(kSchema);
  ExpectedRun run(*tokenizer_);
  EXPECT_TRUE(take("{\n", run, m).empty());
  EXPECT_EQ(text(take("  \"col", run, m)), "our\": \"");
}

}  // namespace
}  // namespace cairn::chat
