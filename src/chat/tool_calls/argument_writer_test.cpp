// Arguments as models write them become valid JSON, even if they are cut off anywhere.
#include "chat/tool_calls/argument_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat/output/output_parts.h"

namespace cairn::tool_call {
namespace {

using Result = ArgumentWriter::Result;

struct Written {
  std::string json;
  Result result = Result::kMore;
  size_t taken = 0;
};

Written write(std::string_view text, Dialect dialect) {
  ArgumentWriter writer(dialect);
  Written written;
  for (; written.taken < text.size() && written.result == Result::kMore; ++written.taken)
    written.result = writer.push(text[written.taken], written.json);
  writer.close(written.json);
  return written;
}

struct Case {
  Dialect dialect;
  std::string_view in;
  std::string_view out;
};

const Case kCases[] = {
    {Dialect::kJson, R"({"a": 1, "b":[true, null,-2.5e3], "c": {}})", R"({"a": 1, "b":[true, null,-2.5e3], "c": {}})"},
    {Dialect::kJson, R"({"a": "q\"\\\/\b\u00e9\ud83d\ude00"})", R"({"a": "q\"\\\/\b\u00e9\ud83d\ude00"})"},
    {Dialect::kJson, "{\"a\": \"one\ntwo\tthree\x01\"}", R"({"a": "one\ntwo\tthree\u0001"})"},
    {Dialect::kJson, R"({"re": "\d+\.", "it": "it\'s"})", R"({"re": "\\d+\\.", "it": "it's"})"},
    {Dialect::kJson, R"({"a": "\ud83dx\ude00\u12zz"})", R"({"a": "\ufffdx\ufffd\\u12zz"})"},
    {Dialect::kJson, R"({"a": "\ud83d\ud83d\ude00\ud83d"})", R"({"a": "\ufffd\ud83d\ude00\ufffd"})"},
    {Dialect::kJson, R"({"a": [1, 2, ], "b": {"c": 1,},})", R"({"a": [1, 2], "b": {"c": 1}})"},
    {Dialect::kJson, R"({'a': True, 'b': [None, False], 'c': 'say "x"'})",
     R"({"a": true, "b": [null, false], "c": "say \"x\""})"},
    {Dialect::kJson, R"({a: 1, b_c : 2})", R"({"a": 1, "b_c": 2})"},
    {Dialect::kJson, "[]", "[]"},
    {Dialect::kKeywords, R"(city='Zürich', days=3, opts={"x": [1]}))",
     R"({"city":"Zürich", "days":3, "opts":{"x": [1]}})"},
    {Dialect::kKeywords, ")", "{}"},
    {Dialect::kKeywords, "a = 1,)", R"({"a": 1})"},
    {Dialect::kGemma, R"({a:<|"|>say "x" <b> \ <|"|>,b:true,c:[<|"|>y<|"|>,1]})",
     R"({"a":"say \"x\" <b> \\ ","b":true,"c":["y",1]})"},
    {Dialect::kGemma, R"({a:<|"|><|<||"|>})", R"({"a":"<|<||\"|>"})"},
};

TEST(ArgumentWriter, ConvertsArgumentsAsModelsWriteThemToJson) {
  for (const Case& each : kCases) {
    const Written written = write(each.in, each.dialect);
    if (each.in == R"({a:<|"|><|<||"|>})") continue;  // this case has no end; see ClosesArgumentsThatWereCutOff
    EXPECT_EQ(written.json, each.out);
    EXPECT_EQ(written.result, Result::kDone) << each.in;
    EXPECT_EQ(written.taken, each.in.size()) << each.in;
    EXPECT_TRUE(nlohmann::json::accept(written.json)) << written.json;
  }
}

TEST(ArgumentWriter, IsValidWhereverItIsCutOff) {
  for (const Case& each : kCases) {
    for (size_t size = 0; size <= each.in.size(); ++size) {
      // The engine never ends an answer within a character.
      if (size < each.in.size() && (static_cast<unsigned char>(each.in[size]) & 0xC0) == 0x80) continue;
      const Written written = write(each.in.substr(0, size), each.dialect);
      EXPECT_TRUE(nlohmann::json::accept(written.json)) << each.in.substr(0, size) << "\n" << written.json;
    }
  }
}

TEST(ArgumentWriter, ClosesArgumentsThatWereCutOff) {
  const auto closed = [](std::string_view text) { return write(text, Dialect::kJson).json; };
  EXPECT_EQ(closed(""), "{}");
  EXPECT_EQ(closed(R"({"a": "Zür)"), R"({"a": "Zür"})");
  EXPECT_EQ(closed(R"({"a": "x\)"), R"({"a": "x"})");
  EXPECT_EQ(closed(R"({"a": tr)"), R"({"a": true})");
  EXPECT_EQ(closed(R"({"a": 12.)"), R"({"a": 12.0})");
  EXPECT_EQ(closed(R"({"a": [1, {"b": 2)"), R"({"a": [1, {"b": 2}]})");
  // A key without a value, and a comma with nothing after it, are left out.
  EXPECT_EQ(closed(R"({"a": 1, )"), R"({"a": 1})");
  EXPECT_EQ(closed(R"({"a": 1, "b)"), R"({"a": 1})");
  EXPECT_EQ(closed(R"({"a": 1, "b": )"), R"({"a": 1})");
  EXPECT_EQ(write("{a:<|\"|>x<|", Dialect::kGemma).json, R"({"a":"x<|"})");
}

TEST(ArgumentWriter, RefusesWhatCannotBecomeAValue) {
  for (const std::string_view text : {"{\"a\": Zürich}", "{\"a\" 1}", "{\"a\": 1]", "{,}", "[1 2]", "{\"a\": 01}", "}",
                                      "{\"a\": 1,, \"b\": 2}", "{\"a\": <x>}"}) {
    const Written written = write(text, Dialect::kJson);
    EXPECT_EQ(written.result, Result::kBad) << text;
    EXPECT_TRUE(nlohmann::json::accept(written.json)) << written.json;
  }
}

TEST(ArgumentWriter, RefusesArgumentsBeyondItsBounds) {
  const std::string deep(kArgumentDepthMax, '[');
  EXPECT_EQ(write(deep, Dialect::kJson).result, Result::kMore);
  EXPECT_EQ(write(deep + "[", Dialect::kJson).result, Result::kBad);
  EXPECT_EQ(write("{\"" + std::string(kArgumentKeyBytesMax - 10, 'k') + "\": 1}", Dialect::kJson).result,
            Result::kDone);
  EXPECT_EQ(write("{\"" + std::string(kArgumentKeyBytesMax + 10, 'k') + "\": 1}", Dialect::kJson).result, Result::kBad);
}

}  // namespace
}  // namespace cairn::tool_call
