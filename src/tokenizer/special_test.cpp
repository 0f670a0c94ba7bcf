// Special tokens: how they are found in texts, which of them end generation, and which are hidden.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/special_split.h"
#include "tokenizer/test_support.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {
namespace {

// A vocabulary with these entries and types.
test::MetadataBuilder entries(const std::vector<std::string>& texts, const std::vector<TokenType>& types) {
  std::vector<int32_t> numbers;
  for (const TokenType type : types) numbers.push_back(static_cast<int32_t>(type));
  test::MetadataBuilder out;
  out.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "gpt-2");
  out.set_strings("tokenizer.ggml.tokens", texts).set_integers("tokenizer.ggml.token_type", numbers);
  return out.set_strings("tokenizer.ggml.merges", {});
}

// "[3]plain[4]" for token 3, text "plain", token 4.
std::string shown(const Vocabulary& vocabulary, std::string_view text, bool parse_special) {
  std::string out;
  for (const Fragment& fragment : SpecialSplitter(vocabulary).split(vocabulary, text, parse_special)) {
    out += fragment.token == kNoToken ? std::string(fragment.text) : "[" + std::to_string(index(fragment.token)) + "]";
  }
  return out;
}

TEST(SpecialSplit, LongerTokensWinThenEarlierOnes) {
  using enum TokenType;
  const auto vocabulary =
      Vocabulary::load(entries({"<a>", "<a><b>", "b><a", "  ", "   ", "x"},
                               {kControl, kControl, kUserDefined, kUserDefined, kUserDefined, kNormal})
                           .metadata());
  ASSERT_TRUE(vocabulary.has_value());
  EXPECT_EQ(shown(*vocabulary, "x<a><b>x", true), "x[1]x");
  EXPECT_EQ(shown(*vocabulary, "x<a><b>x", false), "x<a><b>x") << "control tokens are text unless asked for";
  EXPECT_EQ(shown(*vocabulary, "<b><a>", true), "<[2]>");
  EXPECT_EQ(shown(*vocabulary, "<b><a>", false), "<[2]>") << "user-defined tokens are always found";
  EXPECT_EQ(shown(*vocabulary, "<b><a><b>", true), "<b>[1]") << "the longer one wins though it begins later";
  EXPECT_EQ(shown(*vocabulary, "a        b", false), "a[4][4][3]b");
  EXPECT_EQ(shown(*vocabulary, "", true), "");
  EXPECT_EQ(shown(*vocabulary, "<a", true), "<a");
}

TEST(SpecialSplit, TokensMayStripTheWhiteSpaceBesideThem) {
  using enum TokenType;
  auto vocabulary = Vocabulary::load(entries({"<l>", "<r>"}, {kControl, kControl}).metadata());
  ASSERT_TRUE(vocabulary.has_value());
  vocabulary->set_strips_left(TokenId{0}, true);
  vocabulary->set_strips_right(TokenId{1}, true);
  EXPECT_EQ(shown(*vocabulary, "a \n<l> b", true), "a[0] b");
  EXPECT_EQ(shown(*vocabulary, "a <r> \t b", true), "a [1]b");
  EXPECT_EQ(shown(*vocabulary, "  <l>", true), "[0]");
  EXPECT_EQ(shown(*vocabulary, "<r>  ", true), "[1]");
  EXPECT_EQ(shown(*vocabulary, "<r>  <l>", true), "[1][0]");
  EXPECT_EQ(shown(*vocabulary, "a\u3000<l>\u00a0b", true), "a[0]\u00a0b") << "of any script";
  EXPECT_EQ(shown(*vocabulary, "a\u3000<r>\u2028\u00a0b", true), "a\u3000[1]b");
}

TEST(SpecialSplit, AMegabyteOfTokenPrefixesTakesLinearTime) {
  std::vector<std::string> texts = {"x"};
  std::vector<TokenType> types = {TokenType::kNormal};
  for (size_t spaces = 2; spaces <= 32; ++spaces) {
    texts.emplace_back(spaces, ' ');
    types.push_back(TokenType::kUserDefined);
  }
  const auto vocabulary = Vocabulary::load(entries(texts, types).metadata());
  ASSERT_TRUE(vocabulary.has_value());
  const std::string text(1 << 20, ' ');
  EXPECT_EQ(SpecialSplitter(*vocabulary).split(*vocabulary, text, false).size(), text.size() / 32);
}

// Which of the texts end generation, if all are control tokens.
std::vector<std::string> ends_of(const std::vector<std::string>& texts) {
  const auto tokenizer = entries(texts, std::vector(texts.size(), TokenType::kControl)).load();
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
  std::vector<std::string> out;
  for (int32_t i = 0; i < (*tokenizer)->size(); ++i) {
    if ((*tokenizer)->ends_generation(TokenId{i})) out.push_back(texts[i]);
  }
  return out;
}

TEST(SpecialTokens, WellKnownTextsEndGeneration) {
  const std::vector<std::string> all = {
      "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",
      "<|eom_id|>", "</s>",       "<EOT>",   "<|END_OF_TURN_TOKEN|>", "<|end_of_text|>",
      "<turn|>",    "[EOS]"};
  EXPECT_EQ(ends_of(all), all);
  EXPECT_EQ(ends_of({"<|im_start|>", "<s>", "the"}), std::vector<std::string>{});
}

TEST(SpecialTokens, TextsThatEndGenerationInOneFamilyOnlyDoNotInOthers) {
  EXPECT_EQ(ends_of({"<|return|>", "<|call|>", "<|end|>"}), (std::vector<std::string>{"<|return|>", "<|call|>"}));
  EXPECT_EQ(ends_of({"<|tool_response>", "</s>"}), std::vector<std::string>{"<|tool_response>"});
}

TEST(SpecialTokens, WordsOfALanguageDoNotEndGeneration) {
  using enum TokenType;
  const auto ends = [](const std::vector<std::string>& texts, const std::vector<TokenType>& types) {
    const auto tokenizer = *entries(texts, types).load();
    return tokenizer->ends_generation(TokenId{0});
  };
  EXPECT_FALSE(ends({"</s>", "<|im_end|>"}, {kNormal, kControl})) << "Qwen: the end of struck-out text in HTML";
  EXPECT_FALSE(ends({"</s>", "<eos>"}, {kUserDefined, kControl})) << "Gemma: tags are user-defined";
  EXPECT_TRUE(ends({"</s>", "<|end|>"}, {kUserDefined, kControl})) << "Phi 3";
  EXPECT_TRUE(ends({"</s>"}, {kControl}));
  EXPECT_TRUE(ends({"<|im_end|>"}, {kNormal})) << "no language has such a word";
}

TEST(SpecialTokens, KeysOfTheFileTakePrecedenceOverKnownTexts) {
  const std::vector<std::string> texts = {"<|im_end|>", "my-end", "my-turn", "plain"};
  auto builder = entries(texts, std::vector(texts.size(), TokenType::kControl));
  EXPECT_EQ((*builder.load())->special().eot, TokenId{0});
  builder.set_integer("tokenizer.ggml.eos_token_id", 1).set_integer("tokenizer.ggml.eot_token_id", 2);
  const auto tokenizer = builder.load();
  EXPECT_EQ((*tokenizer)->special().eos, TokenId{1});
  EXPECT_EQ((*tokenizer)->special().eot, TokenId{2});
  EXPECT_TRUE((*tokenizer)->ends_generation(TokenId{0}));
  EXPECT_TRUE((*tokenizer)->ends_generation(TokenId{1}));
  EXPECT_TRUE((*tokenizer)->ends_generation(TokenId{2}));
  EXPECT_FALSE((*tokenizer)->ends_generation(TokenId{3}));
  EXPECT_FALSE((*tokenizer)->ends_generation(kNoToken));
  EXPECT_FALSE((*tokenizer)->ends_generation(TokenId{4}));
}

TEST(SpecialTokens, ControlTokensAreHiddenAndUserDefinedOnesAreNot) {
  using enum TokenType;
  const auto tokenizer =
      *entries({"<c>", "<u>", "n", "<unk>", "gone"}, {kControl, kUserDefined, kNormal, kUnknown, kUnused}).load();
  const auto piece = [&](int32_t id, bool render_special) { return tokenizer->piece(TokenId{id}, render_special); };
  EXPECT_EQ(piece(0, false), "");
  EXPECT_EQ(piece(0, true), "<c>");
  EXPECT_EQ(piece(1, false), "<u>");
  EXPECT_EQ(piece(2, false), "n");
  EXPECT_EQ(piece(3, false), "");
  EXPECT_EQ(piece(3, true), "<unk>");
  EXPECT_EQ(piece(4, true), "");
  EXPECT_EQ(piece(5, true), "");
  EXPECT_EQ(piece(-1, true), "");
  EXPECT_EQ(tokenizer->entry(TokenId{4}), "gone");
  EXPECT_EQ(tokenizer->entry(TokenId{5}), "");
  EXPECT_TRUE(tokenizer->is_special(TokenId{0}));
  EXPECT_TRUE(tokenizer->is_special(TokenId{1}));
  EXPECT_FALSE(tokenizer->is_special(TokenId{2}));
  EXPECT_FALSE(tokenizer->is_special(TokenId{7}));
}

}  // namespace
}  // namespace cairn::tokenizer
