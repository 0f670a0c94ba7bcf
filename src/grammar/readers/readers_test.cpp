#include <gtest/gtest.h>

#include <string_view>

#include "grammar/json_schema/json_schema.h"
#include "grammar/matcher.h"
#include "grammar/readers/gbnf_reader.h"
#include "grammar/readers/lark_reader.h"
#include "grammar/readers/substring.h"
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

TEST(Readers, AClassOfPosixIsRefusedByName) {
  const auto refused = read_regex_grammar("[[:alpha:]_]+");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().text(),
            "the class [:alpha:] is not read; write its characters, or a property such as \\p{L} (1)");
  for (const std::string_view regex : {"[[:]", "[[:a]", "[[:]]", "[:alpha:]+"})
    EXPECT_TRUE(read_regex_grammar(regex)) << regex;
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
  for (const std::string_view text :
       {"start: a\na[lazy]: /a*/", "start: a\na[suffix=\"x\"]: /a*/", "start: a\na[temperature=0.5]: /a*/", "start: @a",
        "start: <a>", "start: A\nA: /a/ & /[ab]/", "start: %lark {}"})
    EXPECT_EQ(read_lark(text).error().code, Code::kUnsupported) << text;
}

TEST(Readers, LarkHasSchemasInRules) {
  const auto made = read_lark(
      "start: TEXT | fun-call\n"
      "TEXT: /[^{](.|\\n)*/\n"
      "fun-call: \"<call>\" %json {\n  \"type\": \"object\",\n  \"properties\": {\"brace}\": {\"const\": \"\\\"}\"}},\n"
      "  \"required\": [\"brace}\"]\n} // a comment\n  | %json {\"type\": \"integer\", \"multipleOf\": 3, \"minimum\": "
      "18446744073709551617}?\n",
      SchemaAdder{});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(accepts(made, "There is nothing to call"));
  EXPECT_TRUE(accepts(made, R"(<call>{"brace}": "\"}"})"));
  EXPECT_FALSE(accepts(made, R"({"brace}": "\"}"})"));
  EXPECT_TRUE(accepts(made, ""));
}

TEST(Readers, LarkKeepsTheDigitsOfItsSchemasAndIgnoresAroundThem) {
  const auto made = read_lark("start: %json {\"const\": 18446744073709551617} \";\"\n%ignore \" \"\n", SchemaAdder{});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(accepts(made, " 18446744073709551617  ;"));
  EXPECT_FALSE(accepts(made, "18446744073709551616;"));
  EXPECT_FALSE(accepts(made, "184467440 73709551617;"));
}

TEST(Readers, LarkSaysWhereASchemaIsWrong) {
  const auto error = [](std::string_view text) {
    const auto made = read_lark(text, SchemaAdder{});
    return made ? std::string("none") : made.error().text();
  };
  EXPECT_EQ(error("start: %json {\"type\": \"text\"}"),
            "%json: must be one of array, boolean, integer, null, number, object and string, or a list of these "
            "(/type) (1:8)");
  EXPECT_EQ(error("start: A\nA: %json {}"),
            "a terminal cannot have a schema; give the rule a name in small letters (2:4)");
  EXPECT_EQ(error("start: %json [1]"), "expected { (1:14)");
  EXPECT_EQ(error("start: %json {\"a\": {\"}\"}"), "the JSON does not end (1:14)");
  EXPECT_EQ(error("start: %json {\"a\"}").substr(0, 25), "the JSON is not valid JSO");
  EXPECT_EQ(error("start: %lark {}"), "only %json and %regex are read within a rule (1:8)");
  EXPECT_EQ(read_lark("start: %json {}").error().code, Code::kUnsupported);
  std::string many = "start: a0\n";
  for (size_t i = 0; i <= kLarkSchemasMax; ++i)
    many += "a" + std::to_string(i) + ": %json {\"const\": " + std::to_string(i) + "}\n";
  EXPECT_EQ(read_lark(many, SchemaAdder{}).error().code, Code::kTooLarge);
}

TEST(Readers, LarkHasSubstrings) {
  const auto takes = [](std::string_view what, std::string_view text) {
    const auto made = read_lark("start: A \"!\"\nA: %regex " + std::string(what));
    EXPECT_TRUE(made) << made.error().text();
    return accepts(made, std::string(text) + "!");
  };
  for (const std::string_view text : {"", "abc", "de", "abcde", "defg", "abcdefg"})
    EXPECT_TRUE(takes(R"({"substring_chunks": ["abc", "de", "fg"]})", text)) << text;
  for (const std::string_view text : {"ab", "cde", "abcfg", "deabc"})
    EXPECT_FALSE(takes(R"({"substring_chunks": ["abc", "de", "fg"]})", text)) << text;
  EXPECT_TRUE(takes(R"({"substring_words": "foo bar. baz\u00e9"})", "bar. bazé"));
  EXPECT_FALSE(takes(R"({"substring_words": "foo bar. baz\u00e9"})", "ba"));
  EXPECT_TRUE(takes(R"({"substring_chars": "a\u00e9 c"})", "é "));
  EXPECT_FALSE(takes(R"({"substring_chars": "a\u00e9 c"})", "ac"));
  std::string long_text;
  for (size_t i = 0; i < kSubstringChunksMax; ++i) long_text += static_cast<char>('a' + i % 26);
  EXPECT_TRUE(takes("{\"substring_chars\": \"" + long_text + "\"}", long_text.substr(5)));
  const auto code = [](const std::string& what) { return read_lark("start: %regex " + what).error().code; };
  EXPECT_EQ(code("{\"substring_chars\": \"" + long_text + "x\"}"), Code::kTooLarge);
  EXPECT_EQ(code(R"({"substring_chunks": [1]})"), Code::kInvalidArgument);
  EXPECT_EQ(code(R"({"substring_chars": "a", "x": 1})"), Code::kInvalidArgument);
  EXPECT_EQ(code(R"({"type": "number"})"), Code::kUnsupported);
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
