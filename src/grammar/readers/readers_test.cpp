#include <gtest/gtest.h>

#include <string_view>

#include "grammar/matcher.h"
#include "grammar/readers/gbnf_reader.h"
#include "grammar/readers/lark_reader.h"
#include "grammar/readers/text_readers.h"

namespace cairn::grammar {
namespace {

bool accepts(const Result<std::shared_ptr<const Grammar>>& made, std::string_view text) {
  if (!made) return false;
  Matcher matcher(*made);
  return matcher.push(text) == text.size() && matcher.may_end();
}

TEST(Readers, ARegexMatchesTheWholeTextWithItsAssertions) {
  const auto made = read_regex_grammar("(?!admin$)\\b[a-z]{3,8}(?<=[^x])");
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(accepts(made, "admi"));
  EXPECT_FALSE(accepts(made, "admin"));
  EXPECT_FALSE(accepts(made, "adminx"));
}

TEST(Readers, ARegexIsRefusedWithTheByteOffset) {
  EXPECT_EQ(read_regex_grammar("ab)").error().at, "2");
  EXPECT_EQ(read_regex_grammar("(a)\\1").error().code, Code::kUnsupported);
  EXPECT_EQ(read_regex_grammar(std::string(20'000, '(')).error().code, Code::kTooLarge);
}

TEST(Readers, ARegexHasScriptsAndBinaryProperties) {
  const auto takes = [](std::string_view regex, std::string_view text) {
    const auto made = read_regex_grammar(regex);
    EXPECT_TRUE(made) << regex << made.error().text();
    return accepts(made, text);
  };
  EXPECT_TRUE(takes(R"(\p{Script=Greek}+)", "αΩ"));
  EXPECT_FALSE(takes(R"(\p{Script=Greek}+)", "αb"));
  EXPECT_TRUE(takes(R"(\p{sc=Grek}\p{sc=Cyrl}\p{Script=Han})", "αж漢"));
  EXPECT_TRUE(takes(R"(\P{Script=Greek})", "b"));
  EXPECT_TRUE(takes(R"([\p{sc=Latin}\p{Emoji}]+)", "a5é"));
  EXPECT_TRUE(takes(R"(\p{Emoji_Presentation})", "😀"));
  EXPECT_FALSE(takes(R"(\p{Script=Katakana})", "ー"));
  EXPECT_TRUE(takes(R"(\p{Script_Extensions=Katakana}\p{scx=Hira})", "ーー"));
  EXPECT_TRUE(takes(R"(\p{Alphabetic}\p{Uppercase}\p{Lowercase}\p{ID_Start}\p{XIDC}\p{Dash})", "éÉée9-"));
  EXPECT_TRUE(takes(R"(\p{Uppercase_Letter}\p{gc=Decimal_Number}\p{General_Category=Lu})", "A5B"));
  EXPECT_TRUE(takes(R"([^\p{sc=Greek}])", "x"));
  EXPECT_FALSE(takes(R"([^\p{sc=Greek}])", "β"));
  EXPECT_TRUE(takes(R"(\p{Script=Old_Italic})", "𐌀"));
  EXPECT_EQ(read_regex_grammar(R"(\p{Script=Klingon})").error().code, Code::kUnsupported);
  EXPECT_EQ(read_regex_grammar(R"(\p{Changes_When_NFKC_Casefolded})").error().code, Code::kUnsupported);
}

TEST(Readers, LarkHasTheAttributesOfLlguidance) {
  const auto made = read_lark(
      "%llguidance {}\n\nstart: \"The answer is \" a\na[capture, max_tokens=5]: A\n\nA: \"yes\"\n     | \"no\"\n\n");
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(accepts(made, "The answer is no"));
  EXPECT_TRUE(accepts(read_lark("start: a\na[capture=\"x\"]: \"y\"\n"), "y"));
  const auto refused = read_lark("start: a\na[stop=\"x\"]: /.*/\n");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().at, "2:3");
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_FALSE(read_lark("%llguidance {\"no_forcing\": true}\nstart: \"a\"\n"));
}

TEST(Readers, GbnfMayRecurseOnTheLeftAndContinueAfterABar) {
  const auto made = read_gbnf("root ::= root \"+\" num | num # sums\nnum ::= [0-9]{1,2} |\n  \"x\"\n");
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(accepts(made, "1+22+x"));
  EXPECT_FALSE(accepts(made, "1+222"));
  EXPECT_EQ(read_gbnf("root ::= \"a\"\nb ::= c\n").error().at, "2:7");
}

TEST(Readers, LarkIgnoresBetweenTerminalsOnly) {
  const auto made = read_lark("start: NUMBER (\"+\" NUMBER)*\nNUMBER: /[0-9]+/\n%ignore / +/\n");
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(accepts(made, " 1 + 22 "));
  EXPECT_FALSE(accepts(made, "1 2"));
  EXPECT_EQ(read_lark("start: A\nA: B\nB: A\n").error().at, "2:1");
}

}  // namespace
}  // namespace cairn::grammar
