#include "grammar/matcher.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/text/utf8.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"

namespace cairn::grammar {
namespace {

std::shared_ptr<const Grammar> finish(GrammarBuilder& builder, SymbolId start) {
  auto result = builder.finish(start);
  if (!result.has_value()) ADD_FAILURE() << result.error().text();
  return result.value_or(nullptr);
}

bool matches(Matcher& matcher, std::string_view text) {
  matcher.rewind(0);
  return matcher.push(text) == text.size() && matcher.may_end();
}

// value is a number, a string or a list of values.
SymbolId add_lists(GrammarBuilder& builder) {
  RegexPool& regexes = builder.regexes();
  const RegexId plain = regexes.bytes(~ByteSet::of("\""));
  const SymbolId value = builder.rule("value");
  const SymbolId items = builder.rule("items");
  builder.add(value, {builder.terminal(regexes.repeat(regexes.bytes(ByteSet::range('0', '9')), 1, std::nullopt))});
  builder.add(value,
              {builder.literal("\""), builder.terminal(regexes.repeat(plain, 0, std::nullopt)), builder.literal("\"")});
  builder.add(value, {builder.literal("["), items, builder.literal("]")});
  builder.add(items, {value});
  builder.add(items, {value, builder.literal(","), items});
  return value;
}

TEST(Matcher, SaysWhatMayFollow) {
  GrammarBuilder builder;
  const SymbolId start = add_lists(builder);
  Matcher matcher(finish(builder, start));
  EXPECT_EQ(matcher.next_bytes(), ByteSet::of("0123456789\"["));
  EXPECT_FALSE(matcher.forced().has_value());
  EXPECT_EQ(matcher.push("[12,x"), 4U);
  EXPECT_EQ(matcher.position(), 4U);
  EXPECT_FALSE(matcher.may_end());
  EXPECT_EQ(matcher.push("\"],\""), 4U);
  EXPECT_EQ(matcher.next_bytes(), ByteSet::of(",]"));
  EXPECT_TRUE(matcher.push(']'));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_TRUE(matcher.next_bytes().empty());
  matcher.rewind(3);
  EXPECT_EQ(matcher.next_bytes(), ByteSet::of("0123456789,]"));
}

TEST(Matcher, KnowsTheOnlyByteThatCanFollow) {
  GrammarBuilder builder;
  const SymbolId choices[] = {builder.literal("order"), builder.literal("organ"), builder.literal("or")};
  Matcher matcher(finish(builder, builder.any_of(choices)));
  EXPECT_EQ(matcher.forced(), 'o');
  matcher.push("o");
  EXPECT_EQ(matcher.forced(), 'r');
  matcher.push("r");
  EXPECT_FALSE(matcher.forced().has_value());
  matcher.push("g");
  EXPECT_EQ(matcher.forced(), 'a');
}

// Elements of a list written by right recursion, and bytes of a string, lead back to the same rows.
TEST(Matcher, NeedsNoMoreRowsForLongerTexts) {
  GrammarBuilder builder;
  const SymbolId start = add_lists(builder);
  const auto grammar = finish(builder, start);
  Automaton automaton(*grammar);
  std::array<size_t, 2> used{};
  RowId row = automaton.start();
  for (size_t round = 0; round < used.size(); ++round) {
    std::string text = round == 0 ? "[" : ",";
    for (int i = 0; i < 1000; ++i) text += "12,\"many a letter\",[\"x\",[3]],";
    text += "1";
    for (char byte : text) {
      row = automaton.step(row, static_cast<uint8_t>(byte));
      ASSERT_LT(row, kTooLargeRow);
    }
    used[round] = automaton.bytes_used();
  }
  EXPECT_EQ(used[0], used[1]);
}

TEST(Matcher, RefusesTooDeepNesting) {
  GrammarBuilder builder;
  const SymbolId start = add_lists(builder);
  Matcher matcher(finish(builder, start));
  const std::string deep(600, '[');
  EXPECT_TRUE(matches(matcher, deep + "1" + std::string(600, ']')));
  matcher.rewind(0);
  const std::string deeper(10'000, '[');
  EXPECT_LT(matcher.push(deeper), deeper.size());
  ASSERT_TRUE(matcher.failure().has_value());
  EXPECT_EQ(matcher.failure()->code, Code::kTooLarge);
  EXPECT_FALSE(matcher.push('1'));
  matcher.rewind(1);
  EXPECT_FALSE(matcher.failure().has_value());
  EXPECT_TRUE(matcher.push('1'));
}

TEST(Matcher, CountsWithoutNodesForEachCount) {
  GrammarBuilder other;
  const RegexId same = other.regexes().repeat(other.regexes().bytes(ByteSet::range('a', 'z')), 2, 2'000'000'000);
  EXPECT_LT(other.regexes().size(), 10U);
  const SymbolId word = other.rule("word");
  other.add(word, {other.terminal(same), other.literal(";")});
  Matcher matcher(finish(other, other.repeat(word, 3, 1'000'000'000)));
  EXPECT_FALSE(matches(matcher, "aa;bb;"));
  EXPECT_FALSE(matches(matcher, "aa;bb;c;"));
  EXPECT_TRUE(matches(matcher, "aa;bb;ccc;"));
  EXPECT_TRUE(matches(matcher, "aa;bb;ccc;dddd;" + std::string(5000, 'x') + ";"));
}

TEST(Matcher, TakesEveryCharacterOfARange) {
  struct Range {
    char32_t first, last;
  };
  for (const Range range :
       {Range{0, 0x10FFFF}, Range{0x41, 0x41}, Range{0x7E, 0x801}, Range{0x3FF, 0x1234}, Range{0xD123, 0xE456},
        Range{0xFFFE, 0x10001}, Range{0x12345, 0x10ABCD}, Range{0x80, 0xBF}}) {
    GrammarBuilder builder;
    Matcher matcher(finish(builder, builder.terminal(builder.regexes().characters(range.first, range.last))));
    for (char32_t value = 0; value <= 0x10FFFF; value += (value < 0x3000 ? 1 : 61)) {
      for (const uint32_t c :
           std::array<uint32_t, 5>{value, range.first, range.last, range.first - 1, range.last + 1}) {
        if ((c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF) continue;
        std::string text;
        utf8_append(text, char32_t{c});
        ASSERT_EQ(matches(matcher, text), c >= range.first && c <= range.last) << c;
      }
    }
    EXPECT_FALSE(matches(matcher, "\xED\xA0\x80"));  // a surrogate
    EXPECT_FALSE(matches(matcher, "\xC0\x80"));      // not the shortest form
    EXPECT_FALSE(matches(matcher, "\xF4\x90\x80\x80"));
  }
}

TEST(GrammarBuilder, NamesItsErrors) {
  GrammarBuilder undefined;
  auto result = undefined.finish(undefined.rule("color"));
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("color"), std::string::npos);

  GrammarBuilder nothing;
  const SymbolId endless = nothing.rule("endless");
  nothing.add(endless, {nothing.literal("a"), endless});
  result = nothing.finish(endless);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);

  GrammarBuilder large;
  const SymbolId rule = large.rule("large");
  const std::vector<SymbolId> symbols(1000, large.literal("a"));
  for (int i = 0; i < 501; ++i) large.add(rule, symbols);
  result = large.finish(rule);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kTooLarge);
}

TEST(GrammarBuilder, LeavesOutWhatMatchesNothing) {
  GrammarBuilder builder;
  RegexPool& regexes = builder.regexes();
  const SymbolId start = builder.rule("start");
  const RegexId both[] = {regexes.literal("x"), regexes.literal("y")};
  builder.add(start, {builder.literal("a"), builder.terminal(regexes.all_of(both))});
  builder.add(start, {builder.literal("b"), builder.repeat(builder.terminal(kNoMatch), 0, std::nullopt)});
  Matcher matcher(finish(builder, start));
  EXPECT_EQ(matcher.next_bytes(), ByteSet::of("b"));
  EXPECT_TRUE(matches(matcher, "b"));
}

}  // namespace
}  // namespace cairn::grammar
