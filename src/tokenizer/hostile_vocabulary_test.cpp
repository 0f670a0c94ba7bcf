// Vocabularies that contradict themselves give an Error that names the key, or behave as the headers document.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tokenizer/models/charsmap.h"
#include "tokenizer/test_support.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {
namespace {

using test::MetadataBuilder;

MetadataBuilder bpe() { return test::byte_level_vocabulary({"a b"}, {"<|im_end|>"}); }
MetadataBuilder spm() { return test::sentencepiece_vocabulary("llama", {"\u2581", "a", "b", "ab"}); }
MetadataBuilder unigram() { return test::sentencepiece_vocabulary("t5", {"\u2581", "a", "b", "ab"}); }
MetadataBuilder wordpiece() { return test::wordpiece_vocabulary({"\u2581a", "b"}); }

void expect_refused(const MetadataBuilder& builder, Code code, std::string_view part) {
  const auto loaded = builder.load();
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, code) << loaded.error().text();
  EXPECT_NE(loaded.error().text().find(part), std::string::npos) << loaded.error().text();
}

std::vector<int32_t> encode(const MetadataBuilder& builder, std::string_view text, EncodeOptions options = {}) {
  const auto loaded = builder.load();
  if (!loaded) {
    ADD_FAILURE() << loaded.error().text();
    return {};
  }
  const auto ids = (*loaded)->encode(text, options);
  if (!ids) {
    ADD_FAILURE() << ids.error().text();
    return {};
  }
  for (const TokenId id : *ids) EXPECT_TRUE(index(id) >= 0 && index(id) < (*loaded)->size());
  return test::numbers(*ids);
}

TEST(HostileVocabulary, UnknownKindsAreListed) {
  expect_refused(bpe().set("tokenizer.ggml.model", "rwkv"), Code::kUnsupported, "gpt2, gemma4, llama, t5, bert");
  expect_refused(bpe().set("tokenizer.ggml.pre", "gpt-9"), Code::kUnsupported, "qwen2, qwen35");
  expect_refused(bpe().remove("tokenizer.ggml.model"), Code::kCorruptFile, "tokenizer.ggml.model");
}

TEST(HostileVocabulary, MissingKeysAreErrorsThatNameThem) {
  expect_refused(bpe().remove("tokenizer.ggml.tokens"), Code::kCorruptFile, "tokenizer.ggml.tokens");
  expect_refused(bpe().set_strings("tokenizer.ggml.tokens", {}), Code::kCorruptFile, "no tokens");
  expect_refused(bpe().remove("tokenizer.ggml.merges"), Code::kCorruptFile, "tokenizer.ggml.merges");
  expect_refused(spm().remove("tokenizer.ggml.scores"), Code::kCorruptFile, "tokenizer.ggml.scores");
  expect_refused(unigram().remove("tokenizer.ggml.scores"), Code::kCorruptFile, "tokenizer.ggml.scores");
  expect_refused(wordpiece()
                     .set_strings("tokenizer.ggml.tokens", {"a"})
                     .remove("tokenizer.ggml.token_type")
                     .remove("tokenizer.ggml.unknown_token_id"),
                 Code::kCorruptFile, "unknown_token_id");
}

TEST(HostileVocabulary, ArraysOfTheWrongSizeOrTypeAreErrors) {
  expect_refused(spm().set_floats("tokenizer.ggml.scores", {1, 2}), Code::kCorruptFile, "2 scores for 263 tokens");
  expect_refused(bpe().set_integers("tokenizer.ggml.token_type", {1}), Code::kCorruptFile, "1 types for 258 tokens");
  expect_refused(bpe().set("tokenizer.ggml.tokens", "a"), Code::kCorruptFile, "tokenizer.ggml.tokens");
  expect_refused(bpe().set("tokenizer.ggml.eos_token_id", "2"), Code::kCorruptFile, "eos_token_id");
  expect_refused(bpe().set_integer("tokenizer.ggml.add_bos_token", 1), Code::kCorruptFile, "add_bos_token");
  std::vector<float> scores(263, 0.0f);
  scores[7] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(spm().set_floats("tokenizer.ggml.scores", scores), Code::kCorruptFile, "token 7 is not a number");
}

TEST(HostileVocabulary, InfiniteScoresCountAsVeryBadOrVeryGood) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> scores(263, 0.0f);
  scores[262] = -kInfinity;  // "ab"
  EXPECT_EQ(encode(spm().set_floats("tokenizer.ggml.scores", scores), "ab"), (std::vector<int32_t>{259, 262}));
  EXPECT_EQ(encode(unigram().set_floats("tokenizer.ggml.scores", {0, 0, 0, -1, -1, -kInfinity, kInfinity}), "abb"),
            (std::vector<int32_t>{6, 5}));
}

TEST(HostileVocabulary, SpecialTokensBeyondTheVocabularyCountAsMissing) {
  auto builder = bpe().set_integer("tokenizer.ggml.eos_token_id", 258).set_integer("tokenizer.ggml.bos_token_id", -1);
  builder.set_integer("tokenizer.ggml.padding_token_id", int64_t{1} << 40);
  const auto loaded = builder.load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
  EXPECT_EQ((*loaded)->special().eos, kNoToken);
  EXPECT_EQ((*loaded)->special().bos, kNoToken);
  EXPECT_EQ((*loaded)->special().padding, kNoToken);
  EXPECT_EQ((*loaded)->special().eot, TokenId{257});
  expect_refused(builder.set_boolean("tokenizer.ggml.add_bos_token", true), Code::kCorruptFile, "add_bos_token");
}

TEST(HostileVocabulary, TokensOfUndefinedTypesHaveNoText) {
  std::vector<int32_t> types(258, 1);
  types[0] = 99;
  types[1] = -7;
  const auto loaded = bpe().set_integers("tokenizer.ggml.token_type", types).load();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ((*loaded)->piece(TokenId{0}, true), "");
  EXPECT_EQ((*loaded)->piece(TokenId{1}, true), "");
}

TEST(HostileVocabulary, MalformedMergesAreErrorsAndUnknownOnesIgnored) {
  for (const char* merge : {"", "a", " ", "a ", " b", "ab"}) {
    expect_refused(bpe().set_strings("tokenizer.ggml.merges", {"a b", merge}), Code::kCorruptFile, "merge 1 ");
  }
  // The same pair twice, and texts that are not tokens.
  EXPECT_EQ(encode(bpe().set_strings("tokenizer.ggml.merges", {"a b", "a b", "zz yy"}), "ab"), std::vector{256});
  EXPECT_EQ(encode(bpe().set_strings("tokenizer.ggml.merges", {}), "ab").size(), 2u);
}

TEST(HostileVocabulary, DuplicateAndEmptyTokensAreHarmless) {
  auto builder = spm();
  builder.set_strings("tokenizer.ggml.tokens", {"<unk>", "", "a", "a", "\u2581", ""});
  builder.set_integers("tokenizer.ggml.token_type", {2, 3, 1, 1, 1, 4});
  builder.set_floats("tokenizer.ggml.scores", {0, 0, -1, -2, -3, -4});
  EXPECT_EQ(encode(builder, "aaz", {.add_special = false, .parse_special = true}), (std::vector<int32_t>{4, 2, 2, 0}))
      << "of equal texts the first counts, an empty one is never found";
  const auto loaded = builder.load();
  EXPECT_EQ((*loaded)->decode(std::vector{TokenId{2}, TokenId{3}, TokenId{1}, TokenId{5}}, true), "aa");
}

TEST(HostileVocabulary, ByteTokensThatNameNoByteAreOrdinaryText) {
  auto builder = spm();
  builder.set_strings("tokenizer.ggml.tokens", {"<unk>", "<0xZZ>", "<0x4>", "<0x41>"});
  builder.set_integers("tokenizer.ggml.token_type", {2, 6, 6, 6}).set_floats("tokenizer.ggml.scores", {0, 0, 0, 0});
  const auto loaded = builder.load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
  EXPECT_EQ((*loaded)->piece(TokenId{1}, false), "<0xZZ>");
  EXPECT_EQ((*loaded)->piece(TokenId{2}, false), "<0x4>");
  EXPECT_EQ((*loaded)->piece(TokenId{3}, false), "A");
  EXPECT_EQ(encode(builder, "AB"), (std::vector<int32_t>{0, 0, 0, 3, 0})) << "no tokens for \"▁\" nor \"B\"";
}

TEST(HostileVocabulary, TokensThatArePrefixesOfEachOtherAreFoundLongestFirst) {
  // Every length up to the longest that tries accept, and one that is longer.
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  for (const size_t length : {1, 2, 64, 4095, 4096, 4097, 100'000}) tokens.emplace_back(length, 'a');
  auto builder = wordpiece().set_strings("tokenizer.ggml.tokens", tokens).remove("tokenizer.ggml.token_type");
  EXPECT_EQ(encode(builder, std::string(100'000, 'a')), std::vector{1}) << "nothing begins a word";
  builder.set_integers("tokenizer.ggml.token_type", std::vector<int32_t>(tokens.size(), 4));
  EXPECT_EQ(encode(builder, std::string(8192, 'a')), (std::vector<int32_t>{8, 8}));
}

void append_u32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift);
}

TEST(HostileVocabulary, CharsmapsOfTheWrongLengthAreErrors) {
  std::string too_long;
  append_u32(too_long, 8);
  append_u32(too_long, 0);
  std::string odd;
  append_u32(odd, 3);
  append_u32(odd, 0);
  for (const std::string& bytes :
       {std::string(), std::string("abc"), std::string(4, '\0'), too_long, odd, std::string(8, '\xFF')}) {
    expect_refused(unigram().set_bytes("tokenizer.ggml.precompiled_charsmap", bytes), Code::kCorruptFile,
                   "precompiled_charsmap");
  }
  expect_refused(unigram().set("tokenizer.ggml.precompiled_charsmap", "abcdefgh"), Code::kCorruptFile,
                 "array of bytes");
}

TEST(HostileVocabulary, CharsmapUnitsThatPointAnywhereAreHarmless) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  size_t matches = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    append_u32(bytes, 4 * 256);
    append_u32(bytes, 0);  // the root's children are at their own labels
    for (uint32_t i = 1; i < 256; ++i) {
      const uint32_t anything[] = {static_cast<uint32_t>(random()),                                       // any value
                                   static_cast<uint32_t>(random() % 300 << 10 | (random() & 0x100) | i),  // a child
                                   static_cast<uint32_t>(random() % 320)};                                // a value
      append_u32(bytes, anything[random() % 3]);
    }
    bytes.append(300, 'r');
    if (round % 3 == 0) bytes += '\0';
    const auto charsmap = Charsmap::parse(std::as_bytes(std::span(bytes.data(), bytes.size())));
    ASSERT_TRUE(charsmap.has_value());
    std::string text(64, '\0');
    for (char& c : text) c = static_cast<char>(random() % 256);
    const Charsmap::Match match = charsmap->longest(text);
    EXPECT_LE(match.length, text.size());
    EXPECT_LE(match.replacement.size(), Charsmap::kReplacementBytesMax);
    matches += match.length > 0;
  }
  EXPECT_GT(matches, 0u);
}

TEST(HostileVocabulary, ACharsmapReplacesTheLongestPrefix) {
  // Maps 'a' -> "x" and "ab" -> "": the unit of 'a' (97) has its children at 512 ^ label.
  std::vector<uint32_t> units(1024, 0);
  units[0] = 0;
  units['a'] = (512u ^ 'a') << 10 | 0x100 | 'a';
  units[512] = 0x80000000u | 0;  // the value of "a"
  units[512 ^ 'b'] = ((512u ^ 'b') ^ 768u) << 10 | 0x100 | 'b';
  units[768] = 0x80000000u | 2;  // the value of "ab"
  std::string bytes;
  append_u32(bytes, static_cast<uint32_t>(4 * units.size()));
  for (const uint32_t unit : units) append_u32(bytes, unit);
  bytes += std::string("x\0\0", 3);
  const auto charsmap = Charsmap::parse(std::as_bytes(std::span(bytes.data(), bytes.size())));
  ASSERT_TRUE(charsmap.has_value());
  EXPECT_EQ(charsmap->longest("ac").length, 1u);
  EXPECT_EQ(charsmap->longest("ac").replacement, "x");
  EXPECT_EQ(charsmap->longest("ab").length, 2u);
  EXPECT_EQ(charsmap->longest("ab").replacement, "");
  EXPECT_EQ(charsmap->longest("b").length, 0u);
  EXPECT_EQ(encode(unigram().set_bytes("tokenizer.ggml.precompiled_charsmap", bytes), "aabb"),
            (std::vector<int32_t>{0, 5}))
      << "\"xb\": an unknown character and \"b\"";
}

TEST(HostileText, TextOverTheLimitIsRefused) {
  const auto loaded = bpe().load();
  const std::string text((256u << 20) + 1, 'a');
  const auto ids = (*loaded)->encode(text, {});
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().code, Code::kTooLarge);
}

TEST(HostileText, BytesAboveTheLastCodePointAreRefused) {
  for (const MetadataBuilder& builder : {bpe(), wordpiece()}) {
    const auto loaded = builder.load();
    const auto ids = (*loaded)->encode("ab\xF4\x90\x80\x80", {});
    ASSERT_FALSE(ids.has_value());
    EXPECT_EQ(ids.error().code, Code::kInvalidArgument);
    EXPECT_NE(ids.error().text().find("0x110000"), std::string::npos);
    EXPECT_NE(ids.error().text().find("byte 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace cairn::tokenizer
