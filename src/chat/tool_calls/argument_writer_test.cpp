// Arguments as models write them become valid JSON, and stay as far as they came where they are cut off.
#include "chat/tool_calls/argument_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat/output_parts.h"

namespace cairn::chat::tool_call {
namespace {

using Result = ArgumentWriter::Result;

struct Written {
  std::string json;
  std::string unwritten;
  Result result = Result::kMore;
  size_t taken = 0;
};

Written write(std::string_view text, Dialect dialect) {
  ArgumentWriter writer(dialect);
  Written written;
  for (; written.taken < text.size() && written.result == Result::kMore; ++written.taken)
    written.result = writer.push(text[written.taken], written.json);
  written.unwritten = writer.unwritten();
  if (written.result == Result::kMore) writer.cut(written.json);
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
    if (each.in == R"({a:<|"|><|<||"|>})") continue;  // this case has no end
    EXPECT_EQ(written.json, each.out);
    EXPECT_EQ(written.result, Result::kDone) << each.in;
    EXPECT_EQ(written.taken, each.in.size()) << each.in;
    EXPECT_TRUE(nlohmann::json::accept(written.json)) << written.json;
  }
}

TEST(ArgumentWriter, IsNeverValidWhereItIsCutOff) {
  for (const Case& each : kCases) {
    for (size_t size = 0; size < each.in.size(); ++size) {
      const Written written = write(each.in.substr(0, size), each.dialect);
      EXPECT_EQ(written.result, Result::kMore);
      EXPECT_FALSE(nlohmann::json::accept(written.json)) << each.in.substr(0, size) << "\n" << written.json;
    }
  }
}

TEST(ArgumentWriter, CutArgumentsAreAsFarAsTheyCame) {
  for (const std::string_view text :
       {"", R"({"a": "Zür)", R"({"a": "x\)", R"({"a": "\ud83d\ud)", R"({"a": tr)", R"({"a": 12.)",
        R"({"a": [1, {"b": 2)", R"({"a": 1, )", R"({"a": 1, "b)", R"({"a": 1, "b": )"})
    EXPECT_EQ(write(text, Dialect::kJson).json, text);
  EXPECT_EQ(write("{a:<|\"|>x<|", Dialect::kGemma).json, R"({"a":"x<|)");
  EXPECT_EQ(write("a=1, b", Dialect::kKeywords).json, R"({"a":1, "b)");
}

TEST(ArgumentWriter, RefusesWhatCannotBecomeAValue) {
  for (const std::string_view text : {"{\"a\": Zürich}", "{\"a\" 1}", "{\"a\": 1]", "{,}", "[1 2]", "{\"a\": 01}", "}",
                                      "{\"a\": 1,, \"b\": 2}", "{\"a\": <x>}"}) {
    const Written written = write(text, Dialect::kJson);
    EXPECT_EQ(written.result, Result::kBad) << text;
    // What has been written and what has not are the text up to the byte that was bad.
    EXPECT_EQ(written.json + written.unwritten, text.substr(0, written.taken));
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
}  // namespace cairn::chat::tool_call
