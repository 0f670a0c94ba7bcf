#include "grammar/json_schema/json_schema.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/text/json.h"
#include "grammar/matcher.h"

namespace cairn::grammar {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::initializer_list<std::string_view>;

bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.push(text) == text.size() && matcher.may_end();
}

void expect(std::string_view schema, Texts accepted, Texts refused, const SchemaOptions& options = {}) {
  const auto grammar = compile_json_schema(Json::parse(schema), options);
  ASSERT_TRUE(grammar.has_value()) << schema << " " << grammar.error().at << ": " << grammar.error().message;
  for (const std::string_view text : accepted)
    EXPECT_TRUE(accepts(*grammar, text)) << schema << " must accept " << text;
  for (const std::string_view text : refused)
    EXPECT_FALSE(accepts(*grammar, text)) << schema << " must refuse " << text;
}

void expect_error(std::string_view schema, Code code, std::string_view at, std::string_view keyword) {
  const auto grammar = compile_json_schema(Json::parse(schema), {});
  ASSERT_FALSE(grammar.has_value()) << schema;
  EXPECT_EQ(grammar.error().code, code) << schema << " " << grammar.error().message;
  EXPECT_EQ(grammar.error().at, at) << schema << " " << grammar.error().message;
  EXPECT_EQ(grammar.error().keyword, keyword) << schema << " " << grammar.error().message;
}

TEST(JsonSchema, AnyValueIsJsonWithoutSpaceAround) {
  expect("{}", {"0", "-1.5e+3", R"("x")", "null", "[[],{}]", R"({"a": [1, {"b":null}]})"},
         {"", "+1", ".5", "1.", "nul", "[1,]", " 1", "1 ", "{a:1}", R"({"a":1,})"});
}

TEST(JsonSchema, WhitespaceIsAnOption) {
  const std::string_view schema = R"({"type":"array","items":{"type":"integer"}})";
  expect(schema, {"[1,2]", "[ 1 ,\n\n\t2 ]"}, {"[1,  2]", "[1,\n\n\n2]", "[1,\r2]"});
  expect(schema, {"[1,2]", "[1,  2]", "[\r\n]"}, {"[1,\v2]"}, {.whitespace = Whitespace::kAny});
  expect(schema, {"[1,2]"}, {"[1, 2]", "[ ]"}, {.whitespace = Whitespace::kNone});
}

TEST(JsonSchema, DraftDecidesWhatKeywordsMean) {
  expect(
      R"({"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":3,"exclusiveMinimum":true})",
      {"4"}, {"3", "4.0"});
  expect(
      R"({"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"integer"}],"additionalItems":false})",
      {"[]", "[1]"}, {"[1,2]", R"(["a"])"});
  const std::string_view siblings = R"({"$defs":{"s":{"type":"string"}},"$ref":"#/$defs/s","maxLength":1})";
  expect(siblings, {R"("a")"}, {R"("ab")", "1"});
  expect(siblings, {R"("a")", R"("ab")"}, {"1"}, {.draft = Draft::k7});
}

TEST(JsonSchema, OldDraftsAndOpenApiMeanWhatTheyMeant) {
  expect(R"({"type":"integer","minimum":3,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":false})", {"4", "5"},
         {"3", "6"});
  expect(R"({"type":"string","nullable":true})", {R"("a")", "null"}, {"1"});
  expect(R"({"type":"string","nullable":true})", {R"("a")"}, {"null"}, {.reading = SchemaReading::kStandard});
  expect(R"({"$defs":{"s":{"type":"string"}},"allOf":[{"$ref":"#/$defs/s"}],"nullable":true})", {R"("a")", "null"},
         {"1"});
  expect(R"({"type":"object","properties":{"a":{"type":"null"}},"required":null,"enum":null})", {"{}"}, {"1"});
  expect(R"({"type":"object","properties":{"a":{"type":"null","required":true},"b":{"required":false}}})",
         {R"({"a":null})"}, {"{}", R"({"b":1})"});
  expect(R"({"type":["string",null]})", {R"("a")", "null"}, {"1"});
  expect(R"({"type":"integer","divisibleBy":5})", {"10"}, {"3"});
  expect(R"({"type":"integer","format":"int64","example":4,"discriminator":{"propertyName":"x"}})", {"3"}, {R"("a")"});
  expect(R"({"definitions":{"s":{"type":"string"}},"$ref":"#/definitions/s"})", {R"("a")"}, {"1"});
}

TEST(JsonSchema, NumbersKeepTheirDigits) {
  const auto expect_read = [](std::string_view schema, Texts accepted, Texts refused) {
    const auto read = read_json(schema);
    ASSERT_TRUE(read.has_value());
    const auto grammar = compile_json_schema(*read, {});
    ASSERT_TRUE(grammar.has_value()) << schema << grammar.error().message;
    for (const std::string_view text : accepted) EXPECT_TRUE(accepts(*grammar, text)) << schema << text;
    for (const std::string_view text : refused) EXPECT_FALSE(accepts(*grammar, text)) << schema << text;
  };
  expect_read(R"({"type":"integer","minimum":1500000000000000000001,"maximum":1500000000000000000003})",
              {"1500000000000000000001", "1500000000000000000003"},
              {"1500000000000000000000", "1500000000000000000004"});
  expect_read(R"({"const":123456789012345678901234567890})", {"123456789012345678901234567890"},
              {"123456789012345680000000000000"});
  expect_read(R"({"enum":[0.1000000000000000055,18446744073709551617]})",
              {"0.1000000000000000055", "18446744073709551617"}, {"0.1", "18446744073709551616"});
  expect_read(R"({"type":"integer","multipleOf":7,"minimum":18446744073709551620})", {"18446744073709551621"},
              {"18446744073709551620", "18446744073709551615"});
  expect_read(R"({"maximum":123456789012345678901234567890123456789012345})", {"5"}, {});
  expect_read(R"({"type":"string","maxLength":18446744073709551999})", {R"("a")"}, {});
  const auto many = read_json(R"({"maximum":1.00000000000000000000000000000000000000000000000001})");
  const auto refused = compile_json_schema(many.value(), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().at, "/maximum");
}

TEST(JsonSchema, KeywordsBindValuesOfTheirTypeOnly) {
  expect(R"({"minimum":5,"maxLength":2,"required":["a"],"minItems":1})",
         {"5", R"("ab")", "null", "[9]", R"({"a":1})", "true"}, {"4", R"("abc")", "{}", "[]"});
}

TEST(JsonSchema, IntegersAndBounds) {
  expect(R"({"type":"integer","minimum":-7,"maximum":1205})", {"-7", "-0", "0", "999", "1205"},
         {"-8", "1206", "-10", "9999", "12051", "01"});
  expect(R"({"minimum":0})", {"0", "-0.0", "1e-06", "2.5E3"}, {"-1e-3", "-1"});
  expect(R"({"exclusiveMinimum":0})", {"0.1"}, {"1e-6", "0"});
  expect(R"({"maximum":1.7976931348623157e308,"minimum":1e-300})", {"1", "0.001"}, {"0", "-1"});
  expect(R"({"minimum":0,"maximum":1})", {"0", "1", "0.5", "1.0", "-0"}, {"-0.1", "1.01", "2", "1e3"});
  expect(R"({"exclusiveMinimum":2.5,"exclusiveMaximum":10})", {"2.51", "9.999", "3"},
         {"2.5", "2.50", "10", "10.0", "2.4"});
  expect(R"({"exclusiveMaximum":0})", {"-1", "-0.001"}, {"0", "-0", "-0.0", "1"});
  expect(R"({"exclusiveMinimum":-1.5})", {"-1.49", "0", "-0.3", "7"}, {"-1.5", "-1.50", "-2"});
  expect(R"({"type":"integer","minimum":9007199254740993})", {"9007199254740993", "10000000000000000"},
         {"9007199254740992", "9007199254740991"});
}

TEST(JsonSchema, SeveralDivisorsAreTheirCommonMultiple) {
  expect(R"({"allOf":[{"multipleOf":4},{"multipleOf":6}],"minimum":1})", {"12", "24.0"}, {"4", "6", "0", "12.5"});
  expect(R"({"multipleOf":0.75,"allOf":[{"multipleOf":0.5}]})", {"1.5", "-3", "0"}, {"0.75", "0.5", "1"});
  expect(R"({"type":"integer","allOf":[{"multipleOf":0.25},{"multipleOf":3},{"maximum":9},{"multipleOf":2}]})",
         {"6", "-12"}, {"3", "2", "12", "1.5"});
  expect(R"({"allOf":[{"multipleOf":100000},{"multipleOf":0.00001}],"minimum":1})", {"100000"}, {"0.00001", "1"});
  expect(R"({"oneOf":[{"multipleOf":3},{"multipleOf":5}]})", {"3", "5", "9"}, {"15", "0", "1"});
  expect_error(R"({"allOf":[{"type":"integer","multipleOf":99991},{"multipleOf":99989}]})", Code::kTooLarge, "", "");
}

TEST(JsonSchema, MultiplesAreCountedByRemainders) {
  expect(R"({"type":"integer","multipleOf":7,"minimum":0})", {"0", "7", "49", "7000000007"}, {"1", "8", "-7", "71"});
  expect(R"({"multipleOf":0.25})", {"0.25", "1.5", "-2", "3.750"}, {"0.1", "0.3", "1.01"});
  expect_error(R"({"multipleOf":0})", Code::kInvalidArgument, "/multipleOf", "multipleOf");
  expect_error(R"({"multipleOf":1234567.1})", Code::kTooLarge, "/multipleOf", "multipleOf");
}

TEST(JsonSchema, LengthsCountCharacters) {
  expect(R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("äöü")", R"("🚀🚀")", R"("\n\u00e9")", R"("\ud83d\ude80x")"},
         {R"("a")", R"("🚀")", R"("abcd")", R"("\ud83d\ude80")", R"("\ud83dab")"});
}

TEST(JsonSchema, PatternsAreSearchedForInTheDecodedString) {
  expect(R"({"type":"string","pattern":"[0-9]{2}"})", {R"("12")", R"("ab12cd")"}, {R"("1a2")", R"("")"});
  expect(R"({"type":"string","pattern":"^ab|yz$"})", {R"("abc")", R"("xyz")"}, {R"("cab")", R"("yza")"});
  expect(R"({"type":"string","pattern":"^\"[a-z]*\\\\$"})", {R"("\"ab\\")"}, {R"("ab")", R"(""ab\"")"});
  expect(R"({"type":"string","pattern":"^(?!.*--)[a-z-]+$"})", {R"("a-b")"}, {R"("a--b")", R"("")"});
  expect(R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3})", {R"("ab")"},
         {R"("a")", R"("abcd")", R"("aB")"});
  expect_error(R"({"properties":{"a":{"pattern":"[z"}}})", Code::kInvalidArgument, "/properties/a/pattern", "pattern");
  expect_error(R"({"pattern":"(a)\\1"})", Code::kUnsupported, "/pattern", "pattern");
}

TEST(JsonSchema, FormatsAreAssertedByDefault) {
  expect(R"({"type":"string","format":"date"})", {R"("2024-02-29")"},
         {R"("2023-02-29")", R"("2026-13-01")", R"("2026-1-1")"});
  expect(R"({"type":"string","format":"date"})", {R"("x")"}, {"1"}, {.assert_formats = false});
  expect(R"({"format":"date-time"})", {R"("2026-11-26T07:14:55.123+01:30")"}, {R"("2026-11-26T07:14:55")"});
  expect(R"({"format":"ipv6"})", {R"("::1")", R"("1:2:3:4:5:6:7:8")", R"("::ffff:1.2.3.4")"},
         {R"("1::2::3")", R"("12345::")"});
  expect(R"({"format":"uri"})", {R"("https://a.b/c?d#e")", R"("urn:x:y")"}, {R"("//a")", R"("a b:c")"});
  expect(R"({"format":"hostname"})", {R"("a-b.c")"}, {R"("-a")", R"("a..b")"});
  expect(R"({"format":"regex"})", {R"("^a(b|[c-d]+)?\\.$")"}, {R"("[")", R"("(a")", R"("a\\")", R"("*")"});
  expect(R"({"format":"stock-ticker"})", {R"("ABC")"}, {});
}

TEST(JsonSchema, ListedValuesCompareAsValues) {
  expect(R"({"enum":[1,"1",null,true,[1],{"a":1}]})", {"1", R"("1")", "null", "true", "[1]", R"({"a":1})"},
         {"2", "false", "[]", R"({"a":1,"b":1})", "[1,1]"});
  expect(R"({"type":"string","enum":["x",1,null]})", {R"("x")"}, {"1", "null"});
  expect(R"({"const":"a\"b\n"})", {R"("a\"b\n")"}, {R"("a"b\n")"});
  expect(R"({"type":"string","not":{"enum":["root","admin"]}})", {R"("bob")", R"("roots")"},
         {R"("root")", R"("\u0072oot")", "1"});
}

TEST(JsonSchema, ObjectsHaveTheirDeclaredKeysOnlyUnlessTheSchemaSaysMore) {
  expect(R"({"type":"object","properties":{"a":{"type":"integer"}}})", {"{}", R"({"a":1})"},
         {R"({"b":[]})", R"({"a":1,"b":"x"})"});
  expect(R"({"type":"object","properties":{"a":{}},"additionalProperties":true})", {R"({"a":1,"b":"x"})"}, {});
  expect(R"({"properties":{"a":{}},"additionalProperties":{"type":"null"}})", {R"({"a":1,"b":null})"}, {R"({"b":1})"});
  expect(R"({"type":"object","properties":{"a":{}},"unevaluatedProperties":true})", {R"({"b":1})"}, {});
  expect(R"({"type":"object","properties":{}})", {R"({"b":1})", "{}"}, {});
  expect(R"({"type":"object"})", {R"({"b":1})"}, {});
  expect(R"({"properties":{"a":{}},"patternProperties":{"^x-":{"type":"null"}},"type":"object"})",
         {R"({"a":1,"x-y":null})"}, {R"({"b":1})", R"({"x-y":1})"});
  expect(R"({"type":"object","properties":{"a":{}},"required":["z"]})", {R"({"a":1,"z":2})"}, {R"({"z":1,"b":2})"});
  expect(
      R"({"$defs":{"p":{"type":"object","properties":{"x":{}},"required":["x"]}},"type":"array","items":{"$ref":"#/$defs/p"}})",
      {R"([{"x":1}])"}, {R"([{"x":1,"y":2}])"});
}

TEST(JsonSchema, DeclaredKeysAreThoseOfAllBranchesTogether) {
  expect(
      R"({"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}],"type":"object"})",
      {R"({"a":1,"b":2})"}, {R"({"a":1,"b":2,"c":3})"});
  expect(R"({"allOf":[{"properties":{"a":{}}},{"type":"object"}]})", {R"({"a":1})"}, {R"({"b":1})"});
  expect(R"({"allOf":[{"properties":{"a":{}}},{"additionalProperties":true}],"type":"object"})", {R"({"b":1})"}, {});
  expect(
      R"({"type":"object","properties":{"x":{}},"anyOf":[{"properties":{"a":{"type":"null"}}},{"properties":{"b":{}}}]})",
      {R"({"x":1,"a":null})", R"({"x":1,"b":2})", "{}"}, {R"({"c":1})", R"({"a":1})"});
  expect(R"({"$defs":{"base":{"properties":{"id":{}}}},"$ref":"#/$defs/base","properties":{"n":{}},"type":"object"})",
         {R"({"id":2,"n":1})"}, {R"({"n":1,"m":2})"});
  expect(
      R"({"type":"object","properties":{"k":{"enum":["a","b"]}},"if":{"properties":{"k":{"const":"a"}},"required":["k"]},"then":{"properties":{"x":{}},"required":["x"]},"else":{"properties":{"y":{}}}})",
      {R"({"k":"a","x":1})", R"({"k":"b","y":1})"}, {R"({"k":"b","x":1})", R"({"k":"a","x":1,"y":1})"});
}

TEST(JsonSchema, OtherKeysAreAllowedWhereNoObjectWouldFitWithoutThem) {
  expect(R"({"type":"object","properties":{"a":{}},"minProperties":2})", {R"({"a":1,"b":2})"}, {R"({"a":1})", "{}"});
  expect(R"({"type":"object","properties":{"a":false}})", {R"({"b":1})"}, {R"({"a":1})"});
}

TEST(JsonSchema, ObjectsAreOpenByTheLetterOfTheStandard) {
  const SchemaOptions standard{.reading = SchemaReading::kStandard};
  expect(R"({"type":"object","properties":{"a":{"type":"integer"}}})", {"{}", R"({"b":[]})", R"({"a":1,"b":"x"})"},
         {R"({"a":"x"})", R"({"a":1,"a":2})", R"({"\u0061":"x"})"}, standard);
  expect(R"({"properties":{"a":{},"b":{},"c":{}},"required":["b"],"additionalProperties":false,"type":"object"})",
         {R"({"b":1})", R"({"a":1,"b":2})", R"({"b":1,"c":2})"},
         {"{}", R"({"a":1,"c":2})", R"({"b":1,})", R"({,"b":1})"});
  expect(R"({"type":"object","required":["z"],"additionalProperties":{"type":"string"}})",
         {R"({"z":"x"})", R"({"y":"", "z":"x"})"}, {"{}", R"({"z":1})", R"({"y":"x"})"});
}

TEST(JsonSchema, DeclaredKeysComeInTheirOrder) {
  expect(R"({"type":"object","properties":{"b":{},"a":{}},"additionalProperties":true})",
         {R"({"b":1,"a":1})", R"({"a":1,"c":1})"}, {R"({"a":1,"b":1})"});
}

TEST(JsonSchema, KeysComeInAnyOrderByOption) {
  const std::string_view schema =
      R"({"type":"object","properties":{"b":{"type":"null"},"a":{"type":"integer"}},"required":["a"],"additionalProperties":true})";
  expect(schema, {R"({"a":1})", R"({"b":null,"a":1})", R"({"a":1,"b":null})", R"({"x":0,"a":1,"y":0,"b":null})"},
         {R"({"b":null})", R"({"a":1,"a":1})", R"({"a":1,"b":1})", R"({"a":1,"x":0,"a":2})"},
         {.order = KeyOrder::kAny});
}

TEST(JsonSchema, KeysMeetPatternsNamesAndCounts) {
  expect(
      R"({"type":"object","patternProperties":{"^x-":{"type":"string"}},"properties":{"id":{}},"additionalProperties":false})",
      {R"({"id":1,"x-a":"b"})", "{}"}, {R"({"x-a":1})", R"({"y":1})"});
  expect(R"({"type":"object","propertyNames":{"pattern":"^[a-z]{1,3}$"}})", {R"({"abc":1})", "{}"},
         {R"({"abcd":1})", R"({"":1})"});
  expect(R"({"type":"object","minProperties":1,"maxProperties":2})", {R"({"a":1})", R"({"a":1,"b":2})"},
         {"{}", R"({"a":1,"b":2,"c":3})"});
  expect(R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"additionalProperties":false})",
         {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"}, {"{}", R"({"b":1})"});
  expect_error(R"({"type":"object","minProperties":2})", Code::kUnsupported, "/minProperties", "minProperties");
}

TEST(JsonSchema, DependenciesSplitIntoCases) {
  expect(
      R"({"type":"object","properties":{"card":{},"cvc":{}},"dependentRequired":{"card":["cvc"]},"additionalProperties":false})",
      {"{}", R"({"cvc":1})", R"({"card":1,"cvc":2})"}, {R"({"card":1})"});
  expect(R"({"type":"object","dependentSchemas":{"a":{"properties":{"b":{"type":"null"}}}}})",
         {R"({"b":1})", R"({"b":null,"a":1})"}, {R"({"b":1,"a":1})", R"({"a":1,"b":1})"});
}

TEST(JsonSchema, ArraysHavePrefixesAndBounds) {
  expect(R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":4})", {"[1,2]", "[1,2,3,4]"},
         {"[]", "[1]", "[1,2,3,4,5]", R"([1,"2"])"});
  expect(R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}]})", {"[]", "[1]", R"([1,"a",null])"},
         {R"(["a"])", "[1,2]"});
  expect(R"({"type":"array","prefixItems":[{},{}],"items":false,"minItems":1})", {"[1]", "[1,2]"}, {"[]", "[1,2,3]"});
  expect(R"({"type":"array","items":{"enum":[0]},"maxItems":5000})", {"[]", "[0,0,0]"}, {"[0,1]"});
}

TEST(JsonSchema, ContainsCountsItems) {
  expect(R"({"type":"array","contains":{"type":"null"}})", {"[null]", "[1,null,2]", "[null,null]"}, {"[]", "[1,2]"});
  expect(R"({"type":"array","contains":{"type":"null"},"minContains":2,"maxContains":2})",
         {"[null,null]", "[1,null,2,null]"}, {"[null]", "[null,null,null]"});
  expect(R"({"type":"array","contains":{"type":"null"},"minContains":0,"maxContains":1})", {"[]", "[1]", "[null]"},
         {"[null,null]"});
}

TEST(JsonSchema, UniqueItemsAreKeptApart) {
  expect(R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true})",
         {"[]", R"(["b"])", R"(["c","a","b"])"}, {R"(["a","a"])", R"(["a","b","a"])"});
  expect(R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
         {"[]", R"(["b", "bb"])", R"(["c","a","\n"])"}, {R"(["a","a"])", R"(["a","b", "a"])", R"(["a","\u0061"])"});
  expect(R"({"type":"array","items":{"type":["number","null"]},"uniqueItems":true,"minItems":2})",
         {"[1,2]", "[0.5, null, -1]"}, {"[1]", "[1,1]", "[1,1.0]", "[0,-0]", "[10,1e1]", "[null,null]"});
  expect_error(R"({"type":"array","items":{"type":"boolean"},"uniqueItems":true,"minItems":3})", Code::kInvalidArgument,
               "", "");
  expect_error(R"({"type":"array","uniqueItems":true})", Code::kUnsupported, "/uniqueItems", "uniqueItems");
}

TEST(JsonSchema, AlternativesMeetTheirSiblings) {
  expect(
      R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"anyOf":[{"required":["x"]},{"required":["y"]}]})",
      {R"({"k":"a","x":1})", R"({"k":"a","x":1,"y":2})"}, {R"({"k":"a"})", R"({"x":1})", R"({"k":1,"x":1})"});
  expect(
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]})",
      {R"({"a":1,"b":"x"})"}, {R"({"a":1})", R"({"a":"1","b":"x"})", "[]"});
}

TEST(JsonSchema, OneOfIsToldApartByWhatStandsBesideIt) {
  expect(
      R"({"type":"object","required":["k"],"oneOf":[{"properties":{"k":{"const":1},"x":{"type":"null"}}},{"properties":{"k":{"const":2},"x":{}}}]})",
      {R"({"k":1,"x":null})", R"({"k":2,"x":1})"}, {R"({"k":1,"x":1})", R"({"x":null})", R"({"k":3})"});
}

TEST(JsonSchema, OneOfTellsPatternsApart) {
  expect(
      R"({"type":"string","oneOf":[{"pattern":"customer"},{"pattern":"maker"},{"pattern":"operator"},{"pattern":"admin"},{"pattern":"designer"}]})",
      {R"("maker")", R"("an operator")", R"("designers")"}, {R"("maker, admin")", R"("make")"});
}

TEST(JsonSchema, OneOfIsExactlyOne) {
  expect(R"({"oneOf":[{"type":"integer","minimum":0},{"type":"integer","maximum":9}]})", {"-5", "10"}, {"0", "5", "9"});
  expect(R"({"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]})", {R"({"a":1})", R"({"b":1,"c":1})"},
         {"{}", R"({"a":1,"b":1})"});
}

TEST(JsonSchema, NegationAndConditionsAreExact) {
  expect(R"({"not":{"type":["string","object"]}})", {"1", "[]"}, {R"("a")", "{}"});
  expect(R"({"type":"object","not":{"required":["a","b"]}})", {"{}", R"({"a":1})"}, {R"({"a":1,"b":1})"});
  expect(R"({"type":"object","not":{"additionalProperties":{"type":"null"}}})", {R"({"a":1})", R"({"a":null,"b":1})"},
         {"{}", R"({"a":null})"});
  expect(R"({"type":"array","not":{"items":{"type":"null"}}})", {"[1]", "[null,1]"}, {"[]", "[null]"});
  expect(
      R"({"type":"object","properties":{"t":{}},"required":["t"],"if":{"properties":{"t":{"const":1}}},"then":{"required":["x"]},"else":{"required":["y"]}})",
      {R"({"t":1,"x":0})", R"({"t":2,"y":0})"}, {R"({"t":1,"y":0})", R"({"t":2,"x":0})"});
}

TEST(JsonSchema, ReferencesHaveAnchorsBasesAndRecursion) {
  expect(
      R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["v"],"additionalProperties":false}}})",
      {R"({"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]})"}, {R"({"v":1,"kids":[{}]})", R"({"kids":[]})"});
  expect(R"({"$defs":{"a~b/c%":{"type":"null"}},"$ref":"#/$defs/a~0b~1c%25"})", {"null"}, {"1"});
  expect(R"({"$defs":{"x":{"$anchor":"here","type":"null"}},"$ref":"#here"})", {"null"}, {"1"});
  expect(R"({"$id":"http://h/a/b.json","$defs":{"x":{"$id":"c.json","type":"null"}},"$ref":"http://h/a/c.json"})",
         {"null"}, {"1"});
  SchemaOptions options;
  options.remotes.emplace("http://h/r.json", Json::parse(R"({"type":"null"})"));
  expect(R"({"$ref":"http://h/r.json"})", {"null"}, {"1"}, options);
  expect_error(R"({"properties":{"a":{"$ref":"#/$defs/missing"}}})", Code::kInvalidArgument, "/properties/a/$ref",
               "$ref");
  expect_error(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
               Code::kInvalidArgument, "/$defs/a/$ref", "$ref");
}

// Whether its branches overlap is a question about a member that has the form that is just being made.
TEST(JsonSchema, RecursionBelowMembersOfOverlappingBranchesIsNoCircle) {
  expect(
      R"({"$ref":"#/$defs/p","$defs":{"p":{"oneOf":[{"type":"object","required":["and"],"properties":{"and":{"type":"array","items":{"$ref":"#/$defs/p"}}}},{"type":"object","required":["not"],"properties":{"not":{"$ref":"#/$defs/p"}}},{"type":"object","required":["is"],"properties":{"is":{"type":"integer"}}}]}}})",
      {R"({"not":{"is":1}})", R"({"and":[{"is":1},{"not":{"and":[]}}]})"},
      {R"({"not":{"is":"x"}})", R"({"not":{"is":1},"is":1})", R"({"not":{"not":{"is":1},"is":1}})", "{}"});
}

TEST(JsonSchema, APointerThatLeadsNowhereBelowAnIdIsTakenFromTheRoot) {
  expect(
      R"({"properties":{"l":{"$ref":"#/$defs/l"}},"$defs":{"l":{"$id":"l","properties":{"x":{"$ref":"#/$defs/l/$defs/n"}},"$defs":{"n":{"type":"null"}}}}})",
      {R"({"l":{"x":null}})"}, {R"({"l":{"x":1}})"});
  // One that leads somewhere is the inner schema's.
  expect(
      R"({"properties":{"l":{"$ref":"#/$defs/l"}},"$defs":{"n":true,"l":{"$id":"l","properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"null"}}}}})",
      {R"({"l":{"x":null}})"}, {R"({"l":{"x":1}})"});
}

TEST(JsonSchema, UnevaluatedMembersSeeIntoBranches) {
  expect(R"({"type":"object","allOf":[{"properties":{"a":{}}}],"properties":{"b":{}},"unevaluatedProperties":false})",
         {"{}", R"({"b":1})", R"({"a":1,"b":1})"}, {R"({"c":1})"});
  expect(R"({"type":"array","prefixItems":[{}],"unevaluatedItems":{"type":"null"}})", {"[1]", "[1,null]"}, {"[1,1]"});
}

TEST(JsonSchema, FalsePropertiesMayNotAppear) {
  expect(R"({"type":"object","properties":{"a":false,"b":{}}})", {"{}", R"({"b":1})"}, {R"({"a":1})"});
}

TEST(JsonSchema, SchemasThatNothingFitsAreRefused) {
  expect_error("false", Code::kInvalidArgument, "", "");
  expect_error(R"({"type":"string","minLength":5,"maxLength":3})", Code::kInvalidArgument, "", "");
  expect_error(R"({"type":"object","required":["z"],"additionalProperties":false})", Code::kInvalidArgument, "", "");
  expect_error(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", Code::kInvalidArgument, "", "");
}

TEST(JsonSchema, WrongSchemasAreRefusedByPlaceAndKeyword) {
  expect_error("1", Code::kInvalidArgument, "", "");
  expect_error(R"({"properties":{"a/b":{"type":"text"}}})", Code::kInvalidArgument, "/properties/a~1b/type", "type");
  expect_error(R"({"anyOf":[]})", Code::kInvalidArgument, "/anyOf", "anyOf");
  Json deep = true;
  for (int i = 0; i < SchemaIndex::kDepthMax + 1; ++i) deep = Json{{"not", std::move(deep)}};
  const auto grammar = compile_json_schema(deep, {});
  ASSERT_FALSE(grammar.has_value());
  EXPECT_EQ(grammar.error().code, Code::kTooLarge);
}

}  // namespace
}  // namespace cairn::grammar
