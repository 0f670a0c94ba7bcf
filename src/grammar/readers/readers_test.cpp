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
