#include "grammar/masks/token_mask.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <string>

#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/masks/token_walks.h"
#include "grammar/matcher.h"
#include "grammar/testing/drawn_grammar.h"

namespace cairn::grammar {
namespace {

// All bytes, an end token, a token without text, and texts of a few parts: some tokens have the same bytes.
std::vector<std::string> drawn_pieces(uint32_t seed, size_t count) {
  constexpr std::array<std::string_view, 15> kParts = {
      "a", "b", "ab", "\"", "\\", ",", "{\"", "}", " ", "1", "\xC3\xA9", "\xC3", "\xF0\x9F\x98\x80", "\n", "x"};
  std::mt19937 random(seed);
  std::vector<std::string> result{"", ""};
  for (int byte = 0; byte < 256; ++byte) result.emplace_back(1, static_cast<char>(byte));
  while (result.size() < count) {
    std::string text;
    for (uint32_t length = 1 + random() % 9; length > 0; --length) text += kParts[random() % (random() % 2 ? 3 : 15)];
    if (random() % 20 == 0) text += std::string(random() % 40, 'a');
    result.push_back(text);
  }
  return result;
}

constexpr TokenId kEndToken{1};

bool bit(std::span<const uint64_t> mask, size_t token) { return (mask[token / 64] >> (token % 64) & 1) != 0; }

// Walks through the language by tokens that the masks allow, and compares each mask with what single tokens do.
void expect_masks(const TokenMasks& masks, const std::vector<std::string>& pieces,
                  const std::shared_ptr<const Grammar>& grammar, uint32_t seed, int steps, const std::string& what) {
  std::mt19937 random(seed);
  Matcher matcher(grammar);
  Matcher plain(grammar);
  std::vector<uint64_t> mask(masks.words());
  for (int step = 0; step < steps; ++step) {
    masks.compute(matcher, mask);
    if (matcher.failure().has_value()) return;  // ambiguous beyond the limits
    std::vector<size_t> allowed;
    for (size_t token = 0; token < pieces.size(); ++token) {
      ASSERT_EQ(bit(mask, token), masks.allows(plain, TokenId{static_cast<int32_t>(token)}))
          << what << " token " << token << " " << pieces[token] << " at " << matcher.position();
      if (bit(mask, token) && TokenId{static_cast<int32_t>(token)} != kEndToken) allowed.push_back(token);
    }
    ASSERT_EQ(bit(mask, static_cast<size_t>(index(kEndToken))), matcher.may_end());
    if (allowed.empty()) {
      ASSERT_TRUE(matcher.may_end()) << what;
      matcher.rewind(0);
      plain.rewind(0);
      continue;
    }
    const TokenId next{static_cast<int32_t>(allowed[random() % allowed.size()])};
    ASSERT_TRUE(masks.push(matcher, next));
    ASSERT_TRUE(masks.push(plain, next));
    ASSERT_FALSE(matcher.failure().has_value());
  }
}

TEST(TokenMasks, AllowWhatTheMatcherTakesOfDrawnGrammars) {
  const std::vector<std::string> pieces = drawn_pieces(1, 600);
  const TokenMasks masks(pieces, {kEndToken});
  int built = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    GrammarBuilder builder;
    const SymbolId start = drawn::draw_grammar(seed, builder).start;
    const auto grammar = builder.finish(start);
    if (!grammar.has_value()) continue;
    ++built;
    expect_masks(masks, pieces, *grammar, seed, 12, "seed " + std::to_string(seed));
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(built, 150);
}

RegexId characters_of_strings(RegexPool& regexes) {
  const RegexId controls = regexes.bytes(ByteSet::range(0, 0x1F) | ByteSet::of("\"\\"));
  const RegexId all[] = {regexes.characters(0, 0x10FFFF), regexes.complement(controls)};
  const RegexId escape[] = {regexes.literal("\\"), regexes.bytes(ByteSet::of("\"\\nx"))};
  const RegexId both[] = {regexes.all_of(all), regexes.sequence(escape)};
  return regexes.any_of(both);
}

// Strings of all plain text, of so many characters, of a pattern, and without quotes of their own, in lists.
TEST(TokenMasks, AllowWhatTheMatcherTakesOfStrings) {
  const std::vector<std::string> pieces = drawn_pieces(2, 900);
  const TokenMasks masks(pieces, {kEndToken});
  for (uint32_t kind = 0; kind < 14; ++kind) {
    GrammarBuilder builder;
    RegexPool& regexes = builder.regexes();
    const RegexId character = characters_of_strings(regexes);
    RegexId content = regexes.repeat(character, 0, std::nullopt);
    if (kind % 7 == 1) content = regexes.repeat(character, 0, 5);
    if (kind % 7 == 2) content = regexes.repeat(character, 3, 7);
    if (kind % 7 == 3) content = regexes.repeat(character, 300, 1000);
    if (kind % 7 == 4) content = regexes.repeat(regexes.bytes(ByteSet::of("ab,")), 2, 40);
    const RegexId ab[] = {content, regexes.complement(regexes.literal("ab"))};
    if (kind % 7 == 5) content = regexes.all_of(ab);
    if (kind % 7 == 6) content = regexes.repeat(regexes.characters(0x20, 0x10FFFF), 2, 6);
    const RegexId quoted[] = {regexes.literal("\""), content, regexes.literal("\"")};
    const SymbolId text =
        kind < 7 ? builder.terminal(regexes.sequence(quoted))
                 : builder.sequence(std::array{builder.terminal(content), builder.literal(kind % 2 ? "a" : "\"")});
    const SymbolId blank = builder.terminal(regexes.repeat(regexes.bytes(ByteSet::of(" \n")), 0, std::nullopt));
    const SymbolId more = builder.sequence(std::array{builder.literal(","), blank, text});
    const SymbolId start = builder.rule("start");
    builder.add(start, {text, builder.repeat(more, 0, std::nullopt), builder.literal("}")});
    const auto grammar = builder.finish(start);
    ASSERT_TRUE(grammar.has_value());
    for (uint32_t seed = 0; seed < 4; ++seed) {
      expect_masks(masks, pieces, *grammar, seed, 40, "kind " + std::to_string(kind));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Many names that begin alike, each with what only it is followed by, and beside them any other string.
TEST(TokenMasks, AllowWhatTheMatcherTakesOfManyNames) {
  const std::vector<std::string> pieces = drawn_pieces(7, 900);
  const TokenMasks masks(pieces, {kEndToken});
  std::vector<std::string> names{""};
  for (size_t from = 0; names.size() < 100; ++from)
    for (const char* letter : {"a", "b", "1", "x"}) names.push_back(names[from] + letter);
  for (const bool open : {false, true}) {
    GrammarBuilder builder;
    RegexPool& regexes = builder.regexes();
    const SymbolId start = builder.rule("start");
    const SymbolId member = builder.rule("member");
    for (size_t i = 0; i < names.size(); ++i)
      builder.add(member, {builder.literal("\"" + names[i] + "\""), builder.literal(i % 3 == 0 ? "1" : "x")});
    const RegexId other[] = {regexes.literal("\""), regexes.repeat(characters_of_strings(regexes), 0, std::nullopt),
                             regexes.literal("\"")};
    if (open) builder.add(member, {builder.terminal(regexes.sequence(other)), builder.literal("}")});
    const SymbolId more = builder.sequence(std::array{builder.literal(","), member});
    builder.add(start, {member, builder.repeat(more, 0, std::nullopt)});
    const auto grammar = builder.finish(start);
    ASSERT_TRUE(grammar.has_value());
    for (uint32_t seed = 0; seed < 4; ++seed) {
      expect_masks(masks, pieces, *grammar, seed, 40, open ? "open" : "closed");
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Several strings that may stand in one place, each without words of its own, and with what only it is followed by.
TEST(TokenMasks, AllowWhatTheMatcherTakesOfStringsBesideEachOther) {
  const std::vector<std::string> pieces = drawn_pieces(6, 1200);
  const TokenMasks masks(pieces, {kEndToken});
  const std::vector<std::string> words{"a", "ab", "abab", "x1", "b,", "\xC3\xA9"};
  for (uint32_t kind = 0; kind < 8; ++kind) {
    GrammarBuilder builder;
    RegexPool& regexes = builder.regexes();
    const RegexId quote = kind % 2 == 0 ? regexes.literal("\"") : kEmptyText;
    const SymbolId start = builder.rule("start");
    for (uint32_t i = 0; i < 5; ++i) {
      RegexId content = regexes.repeat(characters_of_strings(regexes), kind / 4, std::nullopt);
      if (kind % 4 >= 2) content = regexes.repeat(characters_of_strings(regexes), 0, 30 + i);
      const RegexId without[] = {regexes.literal(words[i]), regexes.literal(words[i + 1])};
      const RegexId conditions[] = {content, regexes.complement(regexes.any_of(without))};
      const RegexId parts[] = {quote, regexes.all_of(conditions), quote};
      const SymbolId text = builder.terminal(regexes.sequence(parts));
      const SymbolId separator = builder.literal(std::string(1, ",}1x "[i]));
      builder.add(start, {text, separator, builder.optional(start)});
    }
    const auto grammar = builder.finish(start).value();
    for (uint32_t seed = 0; seed < 3; ++seed) {
      expect_masks(masks, pieces, grammar, seed, 25, "kind " + std::to_string(kind));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Lists of strings, and of numbers, none of them twice, and lists whose elements come in any order.
TEST(TokenMasks, AllowWhatTheMatcherTakesOfLists) {
  const std::vector<std::string> pieces = drawn_pieces(4, 900);
  const TokenMasks masks(pieces, {kEndToken});
  for (uint32_t kind = 0; kind < 4; ++kind) {
    GrammarBuilder builder;
    RegexPool& regexes = builder.regexes();
    const RegexId parts[] = {regexes.literal("\""),
                             regexes.repeat(characters_of_strings(regexes), 0, kind == 1 ? 2 : 9),
                             regexes.literal("\"")};
    const RegexId text = kind == 2 ? regexes.repeat(regexes.bytes(ByteSet::of("ab1")), 1, 3) : regexes.sequence(parts);
    const SymbolId comma = builder.literal(",");
    SymbolId list = builder.distinct(text, comma, 1, std::nullopt);
    if (kind == 3) {
      const SymbolId elements[] = {builder.literal("a"), builder.literal("ab"), builder.literal("b\"")};
      const std::vector<MemberList::Element> kinds(3);
      list = builder.members(elements, kinds, 0, comma, 0, std::nullopt);
    }
    const SymbolId start = builder.sequence(std::array{list, builder.literal("}")});
    const auto grammar = builder.finish(start);
    ASSERT_TRUE(grammar.has_value());
    for (uint32_t seed = 0; seed < 4; ++seed) {
      expect_masks(masks, pieces, *grammar, seed, 30, "kind " + std::to_string(kind));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(TokenMasks, HaveEndTokensExactlyWhereTheTextMayEnd) {
  const std::vector<std::string> pieces{"", "", "a", "b", "", "ab"};
  const TokenMasks masks(pieces, {kEndToken, TokenId{4}});
  GrammarBuilder builder;
  const SymbolId choices[] = {builder.literal("a"), builder.literal("abb")};
  Matcher matcher(builder.finish(builder.any_of(choices)).value());
  std::vector<uint64_t> mask(masks.words());
  masks.compute(matcher, mask);
  EXPECT_EQ(mask[0], 0b100100U);
  EXPECT_TRUE(masks.push(matcher, TokenId{2}));
  masks.compute(matcher, mask);
  EXPECT_EQ(mask[0], 0b011010U);
  EXPECT_TRUE(masks.push(matcher, TokenId{3}));
  masks.compute(matcher, mask);
  EXPECT_EQ(mask[0], 0b001000U);
  EXPECT_FALSE(masks.push(matcher, TokenId{5}));
  EXPECT_EQ(matcher.position(), 2U);
}

// Lists within each other; tokens of one bracket and of many.
class DeepLists : public testing::Test {
 protected:
  static constexpr TokenId kOne{2};
  static constexpr TokenId kMany{3};

  DeepLists() {
    GrammarBuilder builder;
    const SymbolId value = builder.rule("value");
    builder.add(value, {builder.literal("[1]")});
    builder.add(value, {builder.literal("["), value, builder.literal("]")});
    grammar_ = builder.finish(value).value();
  }
  Matcher within(size_t lists) const {
    Matcher matcher(grammar_);
    EXPECT_EQ(matcher.push(std::string(lists, '[')), lists);
    return matcher;
  }

  TokenMasks masks_{{"", "", "[", std::string(64, '[')}, {kEndToken}};
  std::shared_ptr<const Grammar> grammar_;
};

TEST_F(DeepLists, FailAMaskThatNeedsARowOverTheLimits) {
  const size_t depth = kRowDepthMax - 32;
  Matcher matcher = within(depth);
  std::vector<uint64_t> mask(masks_.words(), ~uint64_t{0});
  masks_.compute(matcher, mask);
  ASSERT_TRUE(matcher.failure().has_value());
  EXPECT_EQ(matcher.failure()->code, Code::kTooLarge);
  EXPECT_EQ(mask[0], 0U);
  // Nothing was kept of it: the same row fails again.
  matcher.rewind(depth - 1);
  EXPECT_FALSE(matcher.failure().has_value());
  ASSERT_TRUE(matcher.push('['));
  masks_.compute(matcher, mask);
  EXPECT_TRUE(matcher.failure().has_value());
  EXPECT_EQ(mask[0], 0U);
  // The limit is no part of the language: what is far from it is allowed.
  matcher.rewind(100);
  masks_.compute(matcher, mask);
  EXPECT_FALSE(matcher.failure().has_value());
  EXPECT_EQ(mask[0], 0b1100U);
}

TEST_F(DeepLists, AreNeverMaskedInSilence) {
  std::vector<uint64_t> mask(masks_.words());
  size_t failed = 0;
  for (size_t depth = kRowDepthMax - 80; depth < kRowDepthMax; ++depth) {
    Matcher matcher = within(depth);
    masks_.compute(matcher, mask);
    failed += matcher.failure().has_value();
    EXPECT_EQ(mask[0], matcher.failure().has_value() ? 0U : 0b1100U) << depth;
  }
  EXPECT_GT(failed, 50U);
  EXPECT_LT(failed, 80U);
}

TEST_F(DeepLists, KeepAFailureOfATokenThatIsNotTaken) {
  const size_t depth = kRowDepthMax - 32;
  Matcher matcher = within(depth);
  EXPECT_FALSE(masks_.push(matcher, kMany));
  EXPECT_TRUE(matcher.failure().has_value());
  EXPECT_EQ(matcher.position(), depth);
  EXPECT_FALSE(masks_.push(matcher, kOne));

  Matcher asked = within(depth);
  EXPECT_TRUE(masks_.allows(asked, kOne));
  EXPECT_FALSE(asked.failure().has_value());
  EXPECT_FALSE(masks_.allows(asked, kMany));
  EXPECT_TRUE(asked.failure().has_value());
  EXPECT_EQ(asked.position(), depth);
}

// Two expressions that only their automata tell apart, and two that only bounds far away do.
TEST(TokenMasks, DifferWhereExpressionsDo) {
  std::vector<std::string> pieces{"", ""};
  for (int i = 0; i < 1000; ++i) pieces.push_back(std::to_string(i));
  const TokenMasks masks(pieces, {kEndToken});
  for (uint32_t divisor = 2; divisor < 9; ++divisor) {
    GrammarBuilder builder;
    RegexPool::Automaton remainders;
    for (uint32_t i = 0; i < divisor; ++i) {
      remainders.add_state(i == 0);
      for (uint32_t digit = 0; digit < 10; ++digit) {
        remainders.add_step(static_cast<uint8_t>('0' + digit), (i * 10 + digit) % divisor);
      }
    }
    const RegexId two = builder.regexes().repeat(builder.regexes().bytes(ByteSet::range('0', '9')), 2, 2);
    const RegexId both[] = {builder.regexes().automaton(std::move(remainders), 0), two};
    const auto grammar = builder.finish(builder.terminal(builder.regexes().all_of(both))).value();
    expect_masks(masks, pieces, grammar, 1, 3, "divisor " + std::to_string(divisor));
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Lengths with conditions: masks that many positions share, up to where the bounds come near.
TEST(TokenMasks, KeepBoundsOfConditions) {
  const std::vector<std::string> pieces = drawn_pieces(5, 400);
  const TokenMasks masks(pieces, {kEndToken});
  for (const uint32_t most : {40U, 400U, 470U, 3000U}) {
    for (const uint32_t least : {0U, 200U, 390U}) {
      if (least > most) continue;
      GrammarBuilder builder;
      RegexPool& regexes = builder.regexes();
      const RegexId length = regexes.repeat(characters_of_strings(regexes), least, most);
      const RegexId letter = regexes.bytes(ByteSet::of("ab1"));
      const RegexId word[] = {regexes.repeat(letter, 1, std::nullopt), regexes.literal(" ")};
      const RegexId words[] = {regexes.repeat(regexes.sequence(word), 0, most / 3),
                               regexes.repeat(letter, 1, std::nullopt)};
      const RegexId both[] = {length, regexes.sequence(words)};
      const SymbolId text = builder.terminal(regexes.all_of(both));
      const SymbolId start = builder.rule("start");
      builder.add(start, {builder.literal("\""), text, builder.literal("\"")});
      const auto grammar = builder.finish(start).value();
      for (uint32_t seed = 0; seed < 2; ++seed) {
        expect_masks(masks, pieces, grammar, seed, 150, "at most " + std::to_string(most));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(TokenWalks, DrawTextsOfTheLanguage) {
  const std::vector<std::string> pieces = drawn_pieces(3, 500);
  const TokenMasks masks(pieces, {kEndToken});
  GrammarBuilder builder;
  const SymbolId value = builder.rule("value");
  builder.add(value, {builder.terminal(builder.regexes().repeat(builder.regexes().bytes(ByteSet::of("ab1")), 1, 9))});
  builder.add(value, {builder.literal("{\""), value, builder.literal("\"}")});
  const auto grammar = builder.finish(value).value();
  int ended = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Matcher matcher(grammar);
    const DrawnText drawn = draw_text(masks, matcher, seed, 50);
    Matcher again(grammar);
    EXPECT_EQ(again.push(drawn.text), drawn.text.size());
    EXPECT_TRUE(!drawn.ended || again.may_end()) << drawn.text;
    ended += drawn.ended;
    Matcher repeated(grammar);
    EXPECT_EQ(draw_text(masks, repeated, seed, 50).text, drawn.text);
  }
  EXPECT_GT(ended, 50);
}

TEST(TokenWalks, KnowForcedText) {
  GrammarBuilder builder;
  const SymbolId choices[] = {builder.literal("{\"order\":1"), builder.literal("{\"orderId\":1")};
  Matcher matcher(builder.finish(builder.any_of(choices)).value());
  EXPECT_EQ(forced_text(matcher, 100), "{\"order");
  EXPECT_EQ(forced_text(matcher, 3), "{\"o");
  EXPECT_EQ(matcher.position(), 0U);
  matcher.push("{\"orderI");
  EXPECT_EQ(forced_text(matcher, 100), "d\":1");
}

}  // namespace
}  // namespace cairn::grammar
