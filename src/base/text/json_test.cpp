#include "base/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string object_of(size_t members) {
  std::string text = "{";
  for (size_t i = 0; i < members; ++i) text += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", i, i);
  return text + "}";
}

TEST(Json, ReadsTheSameDocumentsAsTheLibrary) {
  for (const std::string_view text :
       {R"({"a":1,"b":[true,false,null,-2,1.5e3,"x\n\"]}"],"c":{"d":{},"e":[]}})", "[]", "{}", "7", " \"s\" ",
        R"([[],[[]],{"a":[{"b":1},2]},18446744073709551615,-9223372036854775808,1e400])", R"({"":{"":[""]}})"}) {
    const auto read = read_json(text);
    const auto wanted = ordered_json::parse(text, nullptr, false);
    ASSERT_EQ(read.has_value(), !wanted.is_discarded()) << text;
    if (!read) continue;
    EXPECT_EQ(read->dump(), wanted.dump());
  }
}

TEST(Json, NumbersKeepTheDigitsThatADoubleDoesNotHold) {
  const std::string text =
      R"({"a":1500000000000000000001,"b":[0.1000000000000000055,-18446744073709551617],"c":1e-5,"d":0.1,"e":1.50})";
  const auto read = read_json(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(
      json_text(*read),
      R"({"a":1500000000000000000001,"b":[0.1000000000000000055,-18446744073709551617],"c":1e-05,"d":0.1,"e":1.5})");
  EXPECT_EQ(json_text({{"n", (*read)["a"]}}, 2), "{\n  \"n\": 1500000000000000000001\n}");
  EXPECT_TRUE((*read)["c"].is_number());
  EXPECT_TRUE(is_any_number((*read)["a"]));
  EXPECT_EQ(number_value((*read)["a"]), 1.5e21);
  ordered_json rounded = *read;
  round_numbers(rounded);
  EXPECT_EQ(rounded["b"][0], 0.1);
  EXPECT_TRUE(read_json("0.70000000000000000000").value().is_number()) << "zeros change nothing";
  // The JSON library writes this double as 0.0020000056000000002.
  EXPECT_EQ(json_text(read_json("[0.0020000056,-15e-1]").value()), "[0.0020000056,-1.5]");
}

TEST(Json, EscapesThatAreNoCharacterBecomeTheReplacementCharacter) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"("a\u0000b")", "a\uFFFDb"},
      {R"("\ud83d")", "\uFFFD"},
      {R"("\ude00 first")", "\uFFFD first"},
      {R"("\uDE00\uD83D")", "\uFFFD\uFFFD"},
      {R"("\ud83d\ud83d\ude00")", "\uFFFD\U0001F600"},
      {R"("\ud83d\ude00\ude00")", "\U0001F600\uFFFD"},
      {R"("\ud83d\n\ude00")", "\uFFFD\n\uFFFD"},
      {R"("\uD83D\uDE00")", "\U0001F600"},
      {R"("\\ud83d \\u0000")", "\\ud83d \\u0000"},
      {R"("\\\ud83d")", "\\\uFFFD"},
  };
  for (const auto& [text, wanted] : cases) {
    const auto read = read_json(text);
    ASSERT_TRUE(read.has_value()) << text << ": " << read.error().text();
    EXPECT_EQ(read->get<std::string>(), wanted) << text;
  }
  EXPECT_EQ(read_json(R"({"\u0000": {"\ud800": ["\udc00"]}})")->dump(), "{\"\uFFFD\":{\"\uFFFD\":[\"\uFFFD\"]}}");
  for (const std::string_view text :
       {R"("\u")", R"("\ud8")", R"("\ud83d\u")", R"("\u-001")", R"("\u00g0")", "\"\\", R"("\ud83d)"})
    EXPECT_FALSE(read_json(text).has_value()) << text;
}

TEST(Json, ForRepeatedNamesTheLastValueTakesTheFirstPlace) {
  const auto read = read_json(R"({"a":1,"b":[1],"a":{"x":1,"x":2,"y":3},"c":4,"b":5,"a":[6]})");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->dump(), R"({"a":[6],"b":5,"c":4})");
  const auto inner = read_json(R"([{"x":1,"x":2,"y":3,"x":4}])");
  ASSERT_TRUE(inner.has_value());
  EXPECT_EQ(inner->dump(), R"([{"x":4,"y":3}])");
}

TEST(Json, TextsOverALimitAreRefusedNamingIt) {
  EXPECT_TRUE(read_json(object_of(kJsonMembersMax)).has_value());
  EXPECT_EQ(read_json(object_of(kJsonMembersMax))->size(), kJsonMembersMax);
  const auto members = read_json(object_of(kJsonMembersMax + 1));
  ASSERT_FALSE(members.has_value());
  EXPECT_EQ(members.error().code, Code::kTooLarge);
  EXPECT_EQ(members.error().message, "has an object of more than 65536 members");
  EXPECT_TRUE(read_json("[" + repeated("0,", kJsonMembersMax + 10) + "0]").has_value()) << "arrays may have more";
  EXPECT_THAT(read_json("[" + repeated("{},", kJsonValuesMax) + "0]").error().message,
              HasSubstr("more than 4194304 values"));
  EXPECT_TRUE(read_json(repeated("[", kJsonDepthMax) + repeated("]", kJsonDepthMax)).has_value());
  EXPECT_THAT(read_json(repeated("[", kJsonDepthMax + 1) + repeated("]", kJsonDepthMax + 1)).error().message,
              HasSubstr("nested deeper than 64"));
  EXPECT_TRUE(read_json("\"" + repeated("[{,:\\\"", 1'000) + "\"").has_value()) << "within a string";
}

TEST(Json, ANulByteDoesNotEndTheText) {
  using namespace std::string_view_literals;
  EXPECT_THAT(read_json("{}\0\0"sv).error().message, HasSubstr("NUL byte at byte 2"));
  EXPECT_THAT(read_json("{\"a\":\0 1}"sv).error().message, HasSubstr("NUL byte"));
  EXPECT_FALSE(read_json("{\"a\":\"\0\"}"sv).has_value());
}

TEST(Json, AnErrorGivesThePlaceWhereATextStopsBeingJson) {
  EXPECT_THAT(read_json("{\"a\":\n ]").error().message, HasSubstr("is not valid JSON: parse error at line 2"));
  for (const std::string_view text :
       {"", " ", "{", "[1,", "]", "}{", "{\"a\"}", "[1 2]", "{\"a\":1,}", "\"", "\"\\", "1 2"})
    EXPECT_FALSE(read_json(text).has_value()) << text;
}

TEST(Json, TheMeasureCountsValuesAndBoundsTheMemory) {
  const auto measure = measure_json(R"({"a":[1,22,"x",{}],"b":{"c":null,"d":[[]]}})");
  ASSERT_TRUE(measure.has_value());
  EXPECT_EQ(measure->sizes, (std::vector<uint32_t>{2, 4, 0, 2, 1, 0}));
  EXPECT_EQ(measure->values, 10u) << "with the whole";
  // An element for each, and a name and a string's heap block for those that have them.
  EXPECT_GE(measure_json("[" + repeated("\"\",", 999) + "\"\"]")->bytes,
            1'000 * (sizeof(ordered_json) + sizeof(std::string)));
  EXPECT_GE(measure_json("[" + repeated("{},", 999) + "{}]")->bytes, 1'000 * (sizeof(ordered_json) + 24));
  EXPECT_LE(measure_json("[" + repeated("0,", 999) + "0]")->bytes, 1'000 * 2 * sizeof(ordered_json));
}

}  // namespace
}  // namespace cairn
