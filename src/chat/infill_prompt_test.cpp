#include "chat/infill_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/testing/test_data.h"
#include "chat/completion_prompt.h"

namespace cairn::chat {
namespace {

/// A vocabulary that takes two of its tokens for those of repositories and files.
class WithFiles final : public tokenizer::Tokenizer {
 public:
  explicit WithFiles(const tokenizer::Tokenizer& other) : other_(other), special_(other.special()) {
    special_.fim.repository = TokenId{100};
    special_.fim.file = TokenId{101};
  }
  Result<std::vector<TokenId>> encode(std::string_view text, tokenizer::EncodeOptions options) const override {
    return other_.encode(text, options);
  }
  std::string_view piece(TokenId id, bool shown) const override {
    if (id == special_.fim.repository) return "<repo>";
    return id == special_.fim.file ? "<file>" : other_.piece(id, shown);
  }
  std::string decode(std::span<const TokenId> ids, bool shown) const override {
    std::string text;
    for (const TokenId id : ids) text += piece(id, shown);
    return text;
  }
  int32_t size() const override { return other_.size(); }
  const tokenizer::SpecialTokens& special() const override { return special_; }
  bool ends_generation(TokenId id) const override { return other_.ends_generation(id); }
  bool is_special(TokenId id) const override { return other_.is_special(id); }
  std::string_view entry(TokenId id) const override { return other_.entry(id); }

 private:
  const tokenizer::Tokenizer& other_;
  tokenizer::SpecialTokens special_;
};

class InfillPrompt : public testing::Test {
 protected:
  InfillPrompt() : template_(ChatTemplate::create("", "", "").value()) {}

  /// A vocabulary of a published model, by the name of its file.
  void load(const std::string& name) {
    auto file = gguf::Reader::open(test_data("/tokenizers/ggml-vocab-") + name + ".gguf");
    ASSERT_TRUE(file.has_value()) << file.error().text();
    loaded_ = tokenizer::Tokenizer::load(file->metadata()).value();
  }
  Result<std::vector<TokenId>> tokens_of(const InfillInput& input, int32_t context = 1'000, int32_t answer = 10) {
    return infill_prompt_tokens({"m", *loaded_, template_, format_, context}, input, answer);
  }
  std::string text_of(const InfillInput& input, int32_t context = 1'000) {
    const auto tokens = tokens_of(input, context);
    EXPECT_TRUE(tokens.has_value()) << tokens.error().text();
    return tokens ? loaded_->decode(*tokens, true) : "";
  }

  std::unique_ptr<tokenizer::Tokenizer> loaded_;
  ChatTemplate template_;
  OutputFormat format_;
};

TEST_F(InfillPrompt, HasThePrefixTheSuffixAndThenTheMiddle) {
  load("starcoder");
  EXPECT_EQ(text_of({.prefix = "int x", .suffix = ";\n", .prompt = " ="}),
            "<fim_prefix>int x =<fim_suffix>;\n<fim_middle>");
}

TEST_F(InfillPrompt, NoTextBecomesASpecialToken) {
  load("starcoder");
  const auto tokens = tokens_of({.prefix = "<fim_suffix>", .suffix = ""});
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(std::ranges::count(*tokens, loaded_->special().fim.suffix), 1);
}

TEST_F(InfillPrompt, OtherFilesComeFirst) {
  load("starcoder");
  const InfillInput input{.prefix = "a", .suffix = "b", .files = {{"x.h", "int x;"}, {"", "int y;"}}};
  EXPECT_EQ(text_of(input),
            "\n\n--- snippet ---\n\nint x;\n\n--- snippet ---\n\nint y;<fim_prefix>a<fim_suffix>b<fim_middle>");
  const WithFiles files(*loaded_);
  const auto tokens = infill_prompt_tokens({"m", files, template_, format_, 1'000}, input, 10);
  ASSERT_TRUE(tokens.has_value()) << tokens.error().text();
  EXPECT_EQ(
      files.decode(*tokens, true),
      "<repo>myproject\n<file>x.h\nint x;<file>tmp\nint y;<file>filename\n<fim_prefix>a<fim_suffix>b<fim_middle>");
}

TEST_F(InfillPrompt, OfOtherFilesTheLastPartIsKeptThatFits) {
  load("starcoder");
  const InfillInput input{.prefix = "a", .suffix = "b", .files = {{"", "one two three four five six seven eight"}}};
  const auto tokens = tokens_of(input, 20, 10);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(tokens->size(), 10U);
  EXPECT_TRUE(loaded_->decode(*tokens, true).ends_with("seven eight<fim_prefix>a<fim_suffix>b<fim_middle>"));
  EXPECT_EQ(text_of(input, 5), "<fim_prefix>a<fim_suffix>b<fim_middle>");
}

TEST_F(InfillPrompt, AVocabularyWithoutTheTokensIsRefused) {
  load("qwen2");
  const auto tokens = tokens_of({.prefix = "a", .suffix = "b"});
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().code, Code::kUnsupported);
  EXPECT_THAT(tokens.error().message, testing::HasSubstr("cannot fill in the middle"));
}

}  // namespace
}  // namespace cairn::chat
