// Tests each kind of vocabulary on examples small enough to follow by hand.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/test_support.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> made(const test::MetadataBuilder& builder) {
  auto loaded = builder.load();
  EXPECT_TRUE(loaded.has_value()) << loaded.error().text();
  return loaded ? std::move(*loaded) : nullptr;
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  const auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.has_value()) << ids.error().text();
  return ids ? test::numbers(*ids) : Ids{};
}

TEST(Bpe, MergesTheBestRankFirst) {
  const auto tokenizer = made(test::byte_level_vocabulary({"a b", "b c", "ab c", "\u0120 d"}, {}));
  // Tokens 256 "ab", 257 "bc", 258 "abc", 259 " d".
  EXPECT_EQ(encode(*tokenizer, "abc"), Ids{258});
  const int32_t space = encode(*tokenizer, " ")[0], d = encode(*tokenizer, "d")[0];
  EXPECT_EQ(encode(*tokenizer, "bc bcd d"), (Ids{257, space, 257, d, 259}));
  EXPECT_EQ(tokenizer->decode(std::vector{TokenId{258}, TokenId{259}}, false), "abc d");
}

TEST(Bpe, WithIgnoreMergesAWholeWordComesFirst) {
  auto builder = test::byte_level_vocabulary({"b c", "a b"}, {}, "llama3");
  const gguf::Metadata metadata = builder.metadata();
  const auto texts = metadata.strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(texts.has_value());
  std::vector<std::string> tokens(texts->begin(), texts->end());
  tokens.emplace_back("abc");
  builder.remove("tokenizer.ggml.token_type").set_strings("tokenizer.ggml.tokens", tokens);
  const int32_t a = encode(*made(builder), "a")[0];
  EXPECT_EQ(encode(*made(builder), "abc"), Ids{258});
  builder.set("tokenizer.ggml.pre", "gpt-2");
  EXPECT_EQ(encode(*made(builder), "abc"), (Ids{a, 256}));
}

TEST(Bpe, AMergeThatGivesNoTokenFallsBackToBytes) {
  auto builder = test::byte_level_vocabulary({"x y"}, {});
  builder.set_strings("tokenizer.ggml.merges", {"x y", "xy z", "q nowhere"});
  const auto tokenizer = made(builder);
  const Ids bytes = {encode(*tokenizer, "x")[0], encode(*tokenizer, "y")[0], encode(*tokenizer, "z")[0]};
  EXPECT_EQ(encode(*tokenizer, "xyz"), bytes) << "\"xyz\" is no token, though a merge makes it";
  EXPECT_EQ(encode(*tokenizer, "xy"), Ids{256});
}

TEST(Bpe, Gemma4EscapesSpacesAndFallsBackToBytes) {
  const auto tokenizer = made(test::gemma4_vocabulary({"a", "\u2581", "\n", "\n\n"}, {"\u2581 a"}));
  EXPECT_EQ(encode(*tokenizer, "a a"), (Ids{259, 263}));
  EXPECT_EQ(encode(*tokenizer, "\n\na\n"), (Ids{262, 259, 261})) << "runs of line ends need no merges";
  EXPECT_EQ(encode(*tokenizer, "\u00e9"), (Ids{3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(encode(*tokenizer, "a", {.add_special = true}), (Ids{1, 259}));
  EXPECT_EQ(tokenizer->decode(std::vector{TokenId{3 + 0xC3}, TokenId{3 + 0xA9}, TokenId{263}}, false), "\u00e9 a");
}

TEST(Spm, MergesTheBestScoreFirst) {
  const auto tokenizer = made(test::sentencepiece_vocabulary("llama", {"\u2581", "a", "b", "ab", "\u2581a", "bb"}));
  // Tokens 259 "▁", 260 a, 261 b, 262 ab (-4), 263 ▁a (-5), 264 bb (-6).
  EXPECT_EQ(encode(*tokenizer, "ab"), (Ids{259, 262}));
  EXPECT_EQ(encode(*tokenizer, "a"), Ids{263});
  EXPECT_EQ(encode(*tokenizer, "abbb"), (Ids{259, 262, 264}));
  EXPECT_EQ(encode(*tokenizer, "\u00e9"), (Ids{259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(encode(*tokenizer, "<s>a</s>b", {.add_special = true, .parse_special = true}),
            (Ids{1, 1, 263, 2, 259, 261}))
      << "a space is put after each special token";
  EXPECT_EQ(tokenizer->decode(std::vector{TokenId{263}, TokenId{263}}, false), "a a");
  EXPECT_EQ(tokenizer->decode(std::vector{TokenId{1}, TokenId{263}}, true), "<s> a");
  EXPECT_EQ(tokenizer->decode(std::vector{TokenId{1}, TokenId{263}}, false), "a");
}

TEST(Spm, AddsNoSpaceWhereATextContinues) {
  const auto tokenizer = made(test::sentencepiece_vocabulary("llama", {"\u2581", "a", "b", "ab", "\u2581a", "bb"}));
  EXPECT_EQ(encode(*tokenizer, "a", {.after = TokenId{261}}), Ids{260});
  EXPECT_EQ(encode(*tokenizer, " a</s>b", {.parse_special = true, .after = TokenId{261}}), (Ids{263, 2, 259, 261}));
  EXPECT_EQ(encode(*tokenizer, "a", {.after = TokenId{2}}), Ids{263}) << "a space is put after a special token";
  EXPECT_EQ(encode(*tokenizer, "a", {.after = TokenId{0}}), Ids{263}) << "the unknown token is one";
  EXPECT_EQ(encode(*tokenizer, "a", {.after = TokenId{99'999}}), Ids{260});
  EXPECT_EQ(encode(*tokenizer, "a", {.add_special = true, .after = TokenId{261}}), (Ids{1, 263}));
}

TEST(Unigram, ChoosesTheBestTotalScoreNotTheLongestPiece) {
  auto builder = test::sentencepiece_vocabulary("t5", {"\u2581", "a", "b", "c", "bc", "ab"});
  // With scores -1 .. -6, "abc" as ab + c has -10, as a + bc -7.
  EXPECT_EQ(encode(*made(builder), "abc"), (Ids{4, 7}));
  EXPECT_EQ(encode(*made(builder), "xyxa", {.add_special = true}), (Ids{0, 4, 2})) << "unknown ones beside each other";
  builder.set_boolean("tokenizer.ggml.add_space_prefix", true);
  EXPECT_EQ(encode(*made(builder), "a  b"), (Ids{3, 4, 3, 3, 5}));
  builder.set_boolean("tokenizer.ggml.remove_extra_whitespaces", true);
  EXPECT_EQ(encode(*made(builder), " a  b "), (Ids{3, 4, 3, 5}));
  EXPECT_EQ(made(builder)->decode(std::vector{TokenId{3}, TokenId{4}, TokenId{3}, TokenId{5}}, false), "a b");
}

TEST(Unigram, AddsNoSpaceWhereATextContinues) {
  auto builder = test::sentencepiece_vocabulary("t5", {"\u2581", "a", "b", "c", "bc", "ab"});
  builder.set_boolean("tokenizer.ggml.add_space_prefix", true);
  EXPECT_EQ(encode(*made(builder), "a b", {.after = TokenId{5}}), (Ids{4, 3, 5}));
  EXPECT_EQ(encode(*made(builder), "a", {.after = TokenId{1}}), (Ids{3, 4}));
  builder.set_boolean("tokenizer.ggml.remove_extra_whitespaces", true);
  EXPECT_EQ(encode(*made(builder), "a  b", {.after = TokenId{5}}), (Ids{4, 3, 5}));
  EXPECT_EQ(encode(*made(builder), "  a", {.after = TokenId{5}}), (Ids{3, 4}));
  EXPECT_EQ(encode(*made(builder), "a", {.after = TokenId{1}}), (Ids{3, 4}));
}

TEST(WordPiece, CutsCleanedWordsIntoTheLongestPieces) {
  const auto tokenizer =
      made(test::wordpiece_vocabulary({"\u2581un", "able", "\u2581caf", "e", "\u2581!", "\u2581日"}));
  EXPECT_EQ(encode(*tokenizer, "Unable CAF\u00c9!", {.add_special = true}), (Ids{2, 4, 5, 6, 7, 8, 3}));
  EXPECT_EQ(encode(*tokenizer, "日日"), (Ids{9, 9}));
  EXPECT_EQ(encode(*tokenizer, "unx un"), (Ids{1, 4})) << "a word that cannot be cut to its end is unknown as a whole";
  EXPECT_EQ(encode(*tokenizer, std::string(100'000, 'u')), Ids{1});
  EXPECT_EQ(tokenizer->decode(std::vector{TokenId{4}, TokenId{5}, TokenId{8}}, false), " unable!");
}

TEST(WordPiece, KeepsCaseAndAccentsIfTheFileSaysSo) {
  auto builder = test::wordpiece_vocabulary({"\u2581caf", "\u2581Caf", "e", "\u00e9"});
  builder.set_boolean("tokenizer.ggml.normalizer.lowercase", false);
  EXPECT_EQ(encode(*made(builder), "Caf\u00e9"), (Ids{5, 7}));
  builder.set_boolean("tokenizer.ggml.normalizer.strip_accents", true);
  EXPECT_EQ(encode(*made(builder), "Caf\u00e9"), (Ids{5, 6}));
}

// The expected results are those of BertNormalizer and BertPreTokenizer of the tokenizers library.
TEST(WordPiece, CleansTextAsTheTokenizersLibraryDoes) {
  const auto tokenizer = made(test::wordpiece_vocabulary({"\u2581x", "y", "\u2581y", "\u1112", "\u1161", "\u11ab",
                                                          "\u093e", "i", "\u2581\u65e5", "\u2581;", "\U0001f600"}));
  // Tokens 4 ▁x, 5 y, 6 ▁y, 7 8 9 the parts of 한, 10 a vowel sign, 11 i, 12 ▁日, 13 ▁;, 14 an emoji.
  EXPECT_EQ(encode(*tokenizer, "x\ud55cy"), (Ids{4, 7, 8, 9, 5})) << "a syllable of Hangul is its parts";
  EXPECT_EQ(encode(*tokenizer, "x\u093ey"), (Ids{4, 10, 5})) << "spacing marks are letters";
  EXPECT_EQ(encode(*tokenizer, "x\u094d\u0301y"), (Ids{4, 5})) << "marks without a width are accents";
  EXPECT_EQ(encode(*tokenizer, "x\u0130y"), (Ids{4, 11, 5}));
  EXPECT_EQ(encode(*tokenizer, "x\v\f\u0085\u200d\u00ady"), (Ids{4, 5})) << "control characters are left out";
  EXPECT_EQ(encode(*tokenizer, "x\t\u00a0\u3000\u2028y"), (Ids{4, 6}));
  EXPECT_EQ(encode(*tokenizer, "x\u65e5\u65e5y"), (Ids{4, 12, 12, 6}));
  EXPECT_EQ(encode(*tokenizer, "x\u037ey"), (Ids{4, 13, 6})) << "the Greek question mark is a semicolon";
  EXPECT_EQ(encode(*tokenizer, "x\U0001f600\ufe0fy"), (Ids{4, 14, 5})) << "emoji are letters";
  EXPECT_EQ(encode(*tokenizer, "x\uac01y"), Ids{1});
}

TEST(WordPiece, AWordOfMoreThanAHundredCharactersIsUnknown) {
  const auto tokenizer = made(test::wordpiece_vocabulary({"\u2581\u00df", "\u00df"}));
  std::string word;
  for (int i = 0; i < 100; ++i) word += "\u00df";
  EXPECT_EQ(encode(*tokenizer, word).size(), 100u);
  EXPECT_EQ(encode(*tokenizer, word + "\u00df \u00df"), (Ids{1, 4}));
}

TEST(WordPiece, TheSeparatorEndsEveryTextWhateverTheKeysSay) {
  auto builder = test::wordpiece_vocabulary({"\u2581a", "\u2581b"});
  const auto layouts = [&] {
    const auto tokenizer = made(builder);
    Ids pair = test::numbers(tokenizer->encode_first("a").value());
    const Ids second = test::numbers(tokenizer->encode_second("b").value());
    pair.insert(pair.end(), second.begin(), second.end());
    return std::pair(encode(*tokenizer, "a", {.add_special = true}), pair);
  };
  const std::pair usual(Ids{2, 4, 3}, Ids{2, 4, 3, 5, 3});
  EXPECT_EQ(layouts(), usual) << "a file of an older converter";
  builder.set_boolean("tokenizer.ggml.add_sep_token", true);
  EXPECT_EQ(layouts(), usual);
  builder.set_boolean("tokenizer.ggml.add_sep_token", false);
  EXPECT_EQ(layouts(), usual);
  builder.set_boolean("tokenizer.ggml.add_eos_token", false);
  EXPECT_EQ(layouts(), usual);
  builder.set_boolean("tokenizer.ggml.add_eos_token", true).set_boolean("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(layouts(), usual) << "a file of today's converter";
  builder.set_boolean("tokenizer.ggml.add_sep_token", true);
  EXPECT_EQ(layouts(), std::pair(Ids({2, 4, 3}), Ids({2, 4, 3, 3, 5, 3})));
}

TEST(Kinds, PairsHaveTheSpecialTokensThatTheFileNames) {
  const auto pair_of = [](const test::MetadataBuilder& builder) {
    const auto tokenizer = made(builder);
    Ids pair = test::numbers(tokenizer->encode_first("a").value());
    const Ids second = test::numbers(tokenizer->encode_second("b").value());
    pair.insert(pair.end(), second.begin(), second.end());
    return pair;
  };
  auto unigram = test::sentencepiece_vocabulary("t5", {"a", "b"});
  EXPECT_EQ(pair_of(unigram), (Ids{3, 2, 2, 4, 2}))
      << "closing token and separator are a unigram vocabulary's defaults";
  unigram.set_boolean("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(pair_of(unigram), (Ids{1, 3, 2, 2, 4, 2})) << "XLM-RoBERTa, whose eos stands in for a separator";
  unigram.set_boolean("tokenizer.ggml.add_sep_token", false);
  EXPECT_EQ(pair_of(unigram), (Ids{1, 3, 2, 4, 2}));

  auto bpe = test::byte_level_vocabulary({}, {"<s>", "</s>", "<sep>"}, "roberta-bpe");
  bpe.set_integer("tokenizer.ggml.bos_token_id", 256).set_integer("tokenizer.ggml.eos_token_id", 257);
  bpe.set_integer("tokenizer.ggml.seperator_token_id", 258);
  const int32_t a = encode(*made(bpe), "a")[0], b = encode(*made(bpe), "b")[0];
  EXPECT_EQ(pair_of(bpe), (Ids{a, 258, b})) << "RoBERTa's pre-tokenizer has the separator by default";
  bpe.set_boolean("tokenizer.ggml.add_bos_token", true).set_boolean("tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(pair_of(bpe), (Ids{256, a, 257, 258, b, 257}));
  bpe.set("tokenizer.ggml.pre", "gpt-2");
  EXPECT_EQ(pair_of(bpe), (Ids{256, a, 257, b, 257}));
  bpe.set_boolean("tokenizer.ggml.add_sep_token", true);
  EXPECT_EQ(pair_of(bpe), (Ids{256, a, 257, 258, b, 257}));
  EXPECT_EQ(pair_of(test::sentencepiece_vocabulary("llama", {"\u2581a", "\u2581b"})), (Ids{1, 259, 260}));
}

// One word of a megabyte, in each kind: quadratic merging would take hours.
TEST(Kinds, AMegabyteOfOneLetterTakesLinearTime) {
  const std::string text(1 << 20, 'a');
  const auto bpe = made(test::byte_level_vocabulary({"a a", "aa aa", "aaaa aaaa"}, {}));
  EXPECT_EQ(encode(*bpe, text).size(), text.size() / 8);
  const auto spm = made(test::sentencepiece_vocabulary("llama", {"\u2581", "aaaa", "aa", "a"}));
  EXPECT_EQ(encode(*spm, text).size(), text.size() / 4 + 1);
  const auto unigram = made(test::sentencepiece_vocabulary("t5", {"aaaa", "aa", "a"}));
  EXPECT_EQ(encode(*unigram, text).size(), text.size() / 4);
  const auto wordpiece = made(test::wordpiece_vocabulary({"\u2581a", "aaaa", "a"}));
  EXPECT_EQ(encode(*wordpiece, text), Ids{1}) << "a word of that many characters is unknown";
}

}  // namespace
}  // namespace cairn::tokenizer
