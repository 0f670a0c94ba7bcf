#include "tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/text/utf8.h"
#include "tokenizer/test_support.h"
#include "tokenizer/text/tidy_spaces.h"

namespace cairn::tokenizer {
namespace {

// A tokenizer with freely chosen pieces.
class Pieces final : public Tokenizer {
 public:
  explicit Pieces(std::vector<std::string> pieces, bool tidies = false) : pieces_(std::move(pieces)), tidies_(tidies) {}
  Result<std::vector<TokenId>> encode(std::string_view, EncodeOptions) const override { return {}; }
  std::string_view piece(TokenId id, bool) const override { return pieces_[index(id)]; }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string out;
    for (const TokenId id : ids) out += pieces_[index(id)];
    return tidies_ ? tidy_spaces(out) : out;
  }
  int32_t size() const override { return static_cast<int32_t>(pieces_.size()); }
  const SpecialTokens& special() const override { return special_; }
  bool ends_generation(TokenId) const override { return false; }
  bool is_special(TokenId) const override { return false; }
  std::string_view entry(TokenId id) const override { return pieces_[index(id)]; }
  bool tidies_spaces() const override { return tidies_; }

  std::string stream(bool at_start) const {
    Detokenizer detokenizer(*this, at_start);
    std::string out;
    for (int32_t i = 0; i < size(); ++i) {
      const std::string part = detokenizer.push(TokenId{i});
      EXPECT_TRUE(utf8_valid(part));
      out += part;
    }
    const std::string rest = detokenizer.flush();
    EXPECT_TRUE(utf8_valid(rest));
    EXPECT_EQ(detokenizer.flush(), "");
    return out + rest;
  }

 private:
  std::vector<std::string> pieces_;
  bool tidies_;
  SpecialTokens special_;
};

TEST(Detokenizer, GivesTheSameTextHoweverBytesAreSplitIntoTokens) {
  const std::string text = "a\u00e9\u65e5\U0001F600\xF0\x9F\x98 \xE2\x82x\xFF\x80\xED\xA0\x80 z\xC3";
  const std::string expected = utf8_replace_invalid(text);
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      const Pieces pieces({text.substr(0, i), text.substr(i, j - i), text.substr(j)});
      EXPECT_EQ(pieces.stream(false), expected) << i << ' ' << j;
    }
  }
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(Pieces(bytes).stream(false), expected);
}

TEST(Detokenizer, CompleteCharactersAreNotHeldBack) {
  const Pieces pieces({"a", "\xF0\x9F", "\x98\x80", "b\xC3", "x", "\xC3"});
  Detokenizer detokenizer(pieces);
  EXPECT_EQ(detokenizer.push(TokenId{0}), "a");
  EXPECT_EQ(detokenizer.push(TokenId{1}), "");
  EXPECT_EQ(detokenizer.push(TokenId{2}), "\U0001F600");
  EXPECT_EQ(detokenizer.push(TokenId{3}), "b");
  EXPECT_EQ(detokenizer.push(TokenId{4}), "\uFFFDx");
  EXPECT_EQ(detokenizer.push(TokenId{5}), "");
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
}

TEST(Detokenizer, TheLeadingSpaceIsDroppedOnlyAtTheStart) {
  const auto tokenizer = *test::sentencepiece_vocabulary("llama", {"\u2581a", "\u2581"}).load();
  const auto stream = [&](bool at_start, bool render_special, std::vector<int32_t> ids) {
    Detokenizer detokenizer(*tokenizer, at_start, render_special);
    std::string out;
    for (const int32_t id : ids) out += detokenizer.push(TokenId{id});
    return out + detokenizer.flush();
  };
  EXPECT_EQ(stream(true, false, {259, 259}), "a a");
  EXPECT_EQ(stream(false, false, {259, 259}), " a a");
  EXPECT_EQ(stream(true, false, {1, 259}), "a") << "a hidden token is not the start";
  EXPECT_EQ(stream(true, true, {1, 259}), "<s> a");
  EXPECT_EQ(stream(true, false, {260, 260, 259}), "  a");
}

TEST(TidySpaces, TidiesAsPublishedDecodersDo) {
  EXPECT_EQ(tidy_spaces("Hi , you . No ? Yes !"), "Hi, you. No? Yes!");
  EXPECT_EQ(tidy_spaces("it 's I 'm we 're I 've"), "it's I'm we're I've");
  EXPECT_EQ(tidy_spaces("don 't I 'd we 'll"), "don 't I 'd we 'll");
  EXPECT_EQ(tidy_spaces("a ' b"), "a'b");
  EXPECT_EQ(tidy_spaces("  ."), " .");
  EXPECT_EQ(tidy_spaces(" ."), ".");
  EXPECT_EQ(tidy_spaces(" ' ' x"), "'' x") << "the space between goes with the first";
  EXPECT_EQ(tidy_spaces(""), "");
}

TEST(TidySpaces, GivesTheSameTextInAStreamAsForTheWhole) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr std::string_view kLetters = "   '''.resvmx\xC3\xA9";
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 14, ' ');
    for (char& c : text) c = kLetters[random() % kLetters.size()];
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < text.size();) {
      const size_t length = 1 + random() % 3;
      parts.push_back(text.substr(begin, length));
      begin += length;
    }
    EXPECT_EQ(Pieces(parts, true).stream(true), utf8_replace_invalid(tidy_spaces(text))) << '"' << text << '"';
    EXPECT_EQ(Pieces(parts, true).stream(false), utf8_replace_invalid(text));
  }
}

}  // namespace
}  // namespace cairn::tokenizer
