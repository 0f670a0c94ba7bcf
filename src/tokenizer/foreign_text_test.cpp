// Control tokens are found in the template's text and not in foreign text; for texts without any, nothing changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "gguf/reader.h"
#include "tokenizer/test_support.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {
namespace {

class ForeignText : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto reader = gguf::Reader::open(test::vocabulary_file(test_data(), GetParam()));
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    auto loaded = Tokenizer::load(reader->metadata());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    tokenizer_ = std::move(*loaded);
    for (int32_t i = 0; i < tokenizer_->size(); ++i) {
      const TokenId id{i};
      if (tokenizer_->is_control(id) && id != tokenizer_->special().unknown && tokenizer_->entry(id).size() > 1)
        controls_.emplace_back(tokenizer_->entry(id));
    }
    ASSERT_FALSE(controls_.empty());
  }
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const {
    auto tokens = tokenizer_->encode(text, options);
    EXPECT_TRUE(tokens.has_value()) << text;
    return tokens ? std::move(*tokens) : std::vector<TokenId>();
  }
  size_t control_count(const std::vector<TokenId>& tokens) const {
    // With WordPiece, any word that the vocabulary lacks becomes the unknown token.
    return static_cast<size_t>(std::ranges::count_if(
        tokens, [&](TokenId id) { return tokenizer_->is_control(id) && id != tokenizer_->special().unknown; }));
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> controls_;
};

TEST_P(ForeignText, IsEncodedAsPlainText) {
  for (const std::string& control : controls_) {
    for (const std::string& text : {control, "a" + control + " b", control + control, " " + control + "\n"}) {
      const ByteRange all{0, text.size()};
      const auto tokens = encode(text, {.parse_special = true, .foreign = {&all, 1}});
      EXPECT_EQ(tokens, encode(text)) << text;
      EXPECT_EQ(control_count(tokens), 0u) << text;
      EXPECT_EQ(encode(text, {.parse_special = true, .foreign = {}}), encode(text, {.parse_special = true}));
    }
  }
}

TEST_P(ForeignText, NeverBecomesPartOfAControlToken) {
  for (const std::string& control : controls_) {
    const std::string text = "a" + control + "b";
    for (size_t at = 0; at < control.size(); ++at) {
      const ByteRange one{1 + at, 2 + at};
      const auto tokens = encode(text, {.parse_special = true, .foreign = {&one, 1}});
      // A shorter control token may remain beside the byte, such as one within [gMASK]; the whole one is no longer
      // found.
      EXPECT_LE(control_count(tokens), control_count(encode(text.substr(0, 1 + at), {.parse_special = true})) +
                                           control_count(encode(text.substr(2 + at), {.parse_special = true})))
          << text << " " << at;
    }
  }
}

// With own and foreign parts in turn, the prompt has exactly the control tokens that it has with the foreign parts
// masked.
TEST_P(ForeignText, IsTrackedBetweenOwnParts) {
  std::mt19937 random(1);
  const auto any = [&](size_t count) { return static_cast<size_t>(random()) % count; };
  const std::vector<std::string> words = {"one", " two", "\n", "<", "|>", "three ", "é", "[", "/", " "};
  for (int i = 0; i < 200; ++i) {
    std::string text;
    std::vector<ByteRange> foreign;
    size_t wanted = 0;
    for (size_t part = 0, parts = 1 + any(8); part < parts; ++part) {
      const std::string& control = controls_[any(controls_.size())];
      // Words around a foreign part keep it from completing a token of the own parts, and the reverse.
      text += words[any(2)];
      if (any(2) == 0) {
        text += control;
        ++wanted;
      } else {
        const std::string written = words[any(words.size())] + control + control.substr(0, any(control.size()));
        foreign.push_back({text.size(), text.size() + written.size()});
        text += written;
      }
      text += words[any(2)];
    }
    const auto tokens = encode(text, {.parse_special = true, .foreign = foreign});
    EXPECT_EQ(control_count(tokens), wanted) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, ForeignText,
                         testing::Values("llama-bpe", "llama-spm", "qwen2", "qwen35", "phi-3", "gemma-4",
                                         "deepseek-llm", "command-r", "falcon", "starcoder", "bert-bge",
                                         "nomic-bert-moe"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

std::unique_ptr<Tokenizer> loaded(const test::MetadataBuilder& builder) {
  auto tokenizer = Tokenizer::load(builder.metadata());
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

// If merges of plain text would make a control token's text, they stop before it.
TEST(ForeignTextOfHostileVocabularies, IsNotMergedIntoAControlToken) {
  const auto sentencepiece = loaded(test::sentencepiece_vocabulary("llama", {"</", "s>", "s", ">", "<", "/"}));
  ASSERT_NE(sentencepiece, nullptr);
  const auto tokens = sentencepiece->encode("</s>", {}).value();
  EXPECT_EQ(std::ranges::count(tokens, sentencepiece->special().eos), 0);
  EXPECT_GT(tokens.size(), 1u);

  const auto words = loaded(test::wordpiece_vocabulary({"\xE2\x96\x81x", "s", "e", "p"}));
  ASSERT_NE(words, nullptr);
  const auto pieces = words->encode("x[SEP]", {}).value();
  for (const TokenId id : pieces) EXPECT_TRUE(!words->is_control(id) || id == words->special().unknown);
}

// "▁" in a text is read as a space, which shifts the text after it.
TEST(ForeignTextOfSentencePiece, IsTrackedAfterSpacesWrittenAsUnderscores) {
  const auto tokenizer = loaded(test::sentencepiece_vocabulary("llama", {"a", "b", "<", "/", "s", ">"}));
  ASSERT_NE(tokenizer, nullptr);
  const std::string space = "\xE2\x96\x81";
  const std::string text = space + space + "a</s>" + space + "</s>b";
  const size_t second = text.rfind("</s>");
  const auto eos_count = [&](ByteRange foreign) {
    const auto tokens = tokenizer->encode(text, {.parse_special = true, .foreign = {&foreign, 1}}).value();
    return std::ranges::count(tokens, tokenizer->special().eos);
  };
  EXPECT_EQ(eos_count({0, 0 + space.size()}), 2);
  EXPECT_EQ(eos_count({1, 2}), 2);
  EXPECT_EQ(eos_count({second, second + 1}), 1);
  EXPECT_EQ(eos_count({second + 3, second + 4}), 1);
  EXPECT_EQ(eos_count({second + 4, second + 5}), 2);
  EXPECT_EQ(eos_count({0, text.size()}), 0);
}

TEST(ForeignTextOfSentencePiece, IsTrackedAfterWhiteSpaceThatATokenStrips) {
  auto reader = gguf::Reader::open(test::vocabulary_file(test_data(), "phi-3"));
  ASSERT_TRUE(reader.has_value()) << reader.error().text();
  const auto tokenizer = Tokenizer::load(reader->metadata()).value();
  const TokenId end = tokenizer->encode("<|end|>", {.parse_special = true}).value().at(0);
  ASSERT_EQ(tokenizer->encode("  a", {.after = end}).value(), tokenizer->encode("a", {.after = end}).value());
  const auto end_count = [&](ByteRange foreign) {
    const auto tokens =
        tokenizer->encode("  a<|end|>b", {.parse_special = true, .after = end, .foreign = {&foreign, 1}}).value();
    return std::ranges::count(tokens, end);
  };
  EXPECT_EQ(end_count({3, 4}), 0);
  EXPECT_EQ(end_count({9, 10}), 0);
  EXPECT_EQ(end_count({0, 3}), 1);
  EXPECT_EQ(end_count({10, 11}), 1);
}

}  // namespace
}  // namespace cairn::tokenizer
