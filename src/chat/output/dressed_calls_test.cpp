// Calls in another dress than the model's own format, and texts that must stay text.
#include "chat/output/dressed_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat/testing/output_parser_fixture.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

const auto kDressTools = std::make_shared<const ordered_json>(ordered_json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "required": ["city"],
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "units": {"enum": ["C", "F"]},
                   "opts": {"type": "object", "additionalProperties": false, "properties": {"fine": {"type": "boolean"}}},
                   "list": {"type": "array", "items": {"type": "number"}}}}}},
  {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
  {"type": "function", "function": {"name": "find_definition",
    "parameters": {"type": "object", "required": ["symbol"], "properties": {"symbol": {"type": "string"}}}}}])"));

OutputParser parser_of(ToolFormat format = ToolFormat::kHermes, int32_t calls_max = kCallsMax) {
  return {{format, ReasoningFormat::kThink}, *kDressTools, "", {kDressTools, calls_max}};
}

Lines read(std::string_view output, ToolFormat format = ToolFormat::kHermes) {
  return lines_of(parse_deltas(parser_of(format), {output}));
}

const std::string kOslo = R"({"name": "get_weather", "arguments": {"city": "Oslo"}})";
const std::string kNowObject = R"({"name": "now", "arguments": {}})";
const std::string kOsloCall = R"(get_weather{"city": "Oslo"})";

struct DressedCase {
  std::string output;
  Lines lines;
  std::string_view dress;
};

const std::vector<DressedCase> kDressed = {
    // Fences, with and without a word, with text before, several, without the end.
    {"```json\n" + kOslo + "\n```", {kOsloCall}, "a code fence"},
    {"```json " + kOslo + " ```", {kOsloCall}, "a code fence"},
    {"```\n" + kOslo + "\n```\n", {kOsloCall}, "a code fence"},
    {"I will look.\n\n```json\n" + kOslo + "\n```", {"C I will look.", kOsloCall}, "a code fence"},
    {"```json\n" + kOslo + "\n```\n```json\n" + kNowObject + "\n```", {kOsloCall, "now{}"}, "a code fence"},
    {"```json\n" + kOslo + "\n" + kNowObject + "\n```", {kOsloCall, "now{}"}, "a code fence"},
    {"```json\n[" + kOslo + ", " + kNowObject + "]\n```", {kOsloCall, "now{}"}, "a code fence"},
    {"```json\n" + kOslo, {kOsloCall}, "a code fence"},
    {"```json\n" + kOslo + "\n``", {kOsloCall}, "a code fence"},
    {"```xml\n<tools>" + kOslo + "</tools>\n```", {kOsloCall}, "a code fence"},
    // A bare object, several, a list.
    {kOslo, {kOsloCall}, "a bare object"},
    {" \n " + kOslo + " \n", {kOsloCall}, "a bare object"},
    {"Well:\n" + kOslo, {"C Well:", kOsloCall}, "a bare object"},
    {kOslo + "\n" + kNowObject, {kOsloCall, "now{}"}, "a bare object"},
    {kOslo + "; " + kNowObject, {kOsloCall, "now{}"}, "a bare object"},
    {"[" + kOslo + ",\n " + kNowObject + "]", {kOsloCall, "now{}"}, "a list"},
    // Tags, closed, unclosed, or closed by another name.
    {"<function>" + kOslo + "</function>", {kOsloCall}, "<function>"},
    {"<tools> " + kOslo + " </tool", {kOsloCall}, "<tools>"},
    {"<tools>\n" + kOslo + "\n</tool_call>", {kOsloCall}, "<tools>"},
    {"<function-call> " + kOslo, {kOsloCall}, "<function-call>"},
    {"<tools>" + kOslo + "</tools>\n<tools>" + kNowObject + "</tools>", {kOsloCall, "now{}"}, "<tools>"},
    // Other keys.
    {R"({"function": "get_weather", "parameters": {"city": "Oslo"}})", {kOsloCall}, "a bare object"},
    {R"({"type": "function", "name": "get_weather", "parameters": {"city": "Oslo"}})", {kOsloCall}, "a bare object"},
    {R"({"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}})",
     {kOsloCall},
     "a bare object"},
    {R"({"arguments": {"city": "Oslo"}, "name": "get_weather"})", {kOsloCall}, "a bare object"},
    {R"({"id": 7, "name": "get_weather", "arguments": {"city": "Oslo"}})", {kOsloCall}, "a bare object"},
    {R"({"tool_calls": [{"function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}},
         {"id": "x", "type": "function", "function": {"name": "now", "arguments": "{}"}}]})",
     {kOsloCall, "now{}"},
     "\"tool_calls\""},
    // Doubled braces, as templates show them.
    {R"({{"name": "get_weather", "arguments": {"city": "Oslo"}}})", {kOsloCall}, "doubled braces"},
    {R"({{"name": "get_weather", "arguments": {{"city": "Oslo"}}}})", {kOsloCall}, "doubled braces"},
    {R"(<tool_call>{{"name": "now", "arguments": {}}}</tool_call>)", {"now{}"}, "doubled braces"},
    // Call expressions in the right tags.
    {R"(<tool_call>find_definition(symbol="Parser")</tool_call>)",
     {R"(find_definition{"symbol":"Parser"})"},
     "a call expression"},
    {"<tool_call>\nget_weather(city='Oslo', days=3)\n",
     {R"(get_weather{"city":"Oslo", "days":3})"},
     "a call expression"},
    // Tags with attributes.
    {R"(<function name="get_weather" arguments='{"city": "Oslo"}'/>)", {kOsloCall}, "<function> with attributes"},
    {R"(<function name="get_weather" arguments='{"city": "Oslo"}' />)", {kOsloCall}, "<function> with attributes"},
    {R"(<function name="get_weather" arguments='{"city": "Oslo"}'></function>)",
     {kOsloCall},
     "<function> with attributes"},
    {R"(<tool_calls> <tool id="1" name='get_weather' arguments="{"city": "Oslo"}"/> </tool_calls>)",
     {kOsloCall},
     "<tool_calls>"},
    {R"(<call arguments={"city": "Oslo"} name="get_weather">)", {kOsloCall}, "<call> with attributes"},
    {R"(<function name="find_definition" arguments='{"symbol": "it's >"}'/>)",
     {R"(find_definition{"symbol": "it's >"})"},
     "<function> with attributes"},
    {"<function name=\"get_weather\">\n{\"city\": \"Oslo\"}\n</function>\n<function name=\"now\">{}</function>",
     {kOsloCall, "now{}"},
     "<function> with attributes"},
    {"Now:\n<function name=\"now\" arguments='{}'/>\n<function name=\"now\" arguments='{}'/>",
     {"C Now:", "now{}", "now{}"},
     "<function> with attributes"},
    // What JSON writers of models get wrong is put right, as in the model's own format.
    {R"({"name": "get_weather", "arguments": {'city': "Oslo",}})", {kOsloCall}, "a bare object"},
    {R"({"name": "get_weather", "arguments": {"city": "Oslo", "days": 3, "units": "C", "opts": {"fine": true},
         "list": [1, 2.5], "unknown": null}})",
     {R"(get_weather{"city": "Oslo", "days": 3, "units": "C", "opts": {"fine": true},
         "list": [1, 2.5], "unknown": null})"},
     "a bare object"},
    {"<think>" + kNowObject + "</think>\n\n" + kOslo, {"R " + kNowObject, kOsloCall}, "a bare object"},
    // A line that could have been one before it.
    {"{\n" + kOslo, {"C {", kOsloCall}, "a bare object"},
    {R"({"name": "now", "arguments": {"a" 1})"
     "\n" +
         kOslo,
     {R"(C {"name": "now", "arguments": {"a" 1})", kOsloCall},
     "a bare object"},
    {R"({"name": "now", "arguments": {})"
     "\n" +
         kOslo,
     {R"(C {"name": "now", "arguments": {})", kOsloCall},
     "a bare object"},
    {"```json\n{\"city\": \"Oslo\"}\n```\n" + kOslo,
     {"C ```json\n{\"city\": \"Oslo\"}\n```", kOsloCall},
     "a bare object"},
};

const std::vector<std::string> kTexts = {
    // Prose around and behind.
    kOslo + "\nThis asks for the weather.",
    "```json\n" + kOslo + "\n```\nCall it like this.",
    "Write " + kOslo + " to ask.",
    "Here is `{` and `[`, and <tools> too.",
    "- `" + kOslo + "`",
    "<tools>" + kOslo + "</tools>.",
    "[" + kOslo + "] and more",
    // Not a tool's name, no arguments, or arguments that its schema refuses.
    R"({"name": "Get_Weather", "arguments": {"city": "Oslo"}})",
    R"({"name": "get_weather2", "arguments": {"city": "Oslo"}})",
    R"({"name": "get", "arguments": {"city": "Oslo"}})",
    R"({"name": "now"})",
    R"({"name": "get_weather", "arguments": {}})",
    R"({"name": "get_weather", "arguments": {"city": 5}})",
    R"({"name": "get_weather", "arguments": {"city": "Oslo", "days": "3"}})",
    R"({"name": "get_weather", "arguments": {"city": "Oslo", "units": "K"}})",
    R"({"name": "get_weather", "arguments": {"city": "Oslo", "opts": {"coarse": true}}})",
    R"({"name": "get_weather", "arguments": {"city": "Oslo", "list": [1, "2"]}})",
    R"({"name": "get_weather", "arguments": ["Oslo"]})",
    R"({"name": "get_weather", "arguments": "Oslo"})",
    R"({"name": "get_weather", "arguments": null})",
    "<tool_call>find_definition(name=\"Parser\")</tool_call>",
    "find_definition(symbol=\"Parser\")",
    R"(<function name="get" arguments='{"city": "Oslo"}'/>)",
    R"(<function name="get_weather" arguments='{"city": 5}'/>)",
    R"(<function name="get_weather" arguments='{"city": "Oslo"}'/>, as an example)",
    R"(<function name="get_weather" arguments='{"city": "Oslo"}' unit="C"/>)",
    R"(<function name="now"/>)",
    R"(<function name="now">clock</function>)",
    R"(<function arguments='{}'/>)",
    R"(<function name="now" arguments='{}')",
    R"(<function name="now" arguments='{})",
    R"(<script name="now" arguments='{}'/>)",
    // JSON that answers.
    R"({"city": "Oslo", "degrees": 20})",
    R"({"name": "Oslo", "arguments": ["for", "against"]})",
    R"({"name": "now", "arguments": {}, "note": "an example"})",
    R"({"type": "object", "name": "now", "arguments": {}})",
    "[1, 2, 3]",
    "[]",
    "{}",
    "[a link](https://example.com/)",
    "```json\n{\"city\": \"Oslo\"}\n```",
    "```python\nprint(1)\n```",
    "```python\n" + kOslo,
    "```\nAn example:\n" + kOslo + "\n```",
    "```\n```",
    "<b>bold</b>\n<tools are fine",
    // Cut.
    R"({"name": "get_weather", "arguments": {"city": "Os)",
    R"({"name": "get_weather", "arguments": {"city": "Oslo"})",
    "[" + kOslo + ", ",
    "[" + kOslo,
    kOslo + ",",
    "```json\n" + kOslo + "\n```\n```json\n",
    "```json",
    "<tools>",
    R"({{"name": "now", "arguments": {}}  )",
    // Calls within a call that is none.
    "{\"name\": \"now\", \"arguments\": {\"a\":\n" + kNowObject + "\n}, \"x\": 1}",
    "{\"name\": \"find_definition\", \"arguments\": {\"symbol\": \"\n" + kNowObject,
};

TEST(DressedCalls, AreReadInEveryShape) {
  for (const DressedCase& each : kDressed) {
    OutputParser parser = parser_of();
    std::vector<Part> parts;
    parser.feed(each.output, parts);
    parser.finish(parts);
    EXPECT_EQ(lines_of(parts), each.lines) << each.output;
    EXPECT_EQ(parser.dress(), each.dress) << each.output;
  }
}

TEST(DressedCalls, AllElseStaysTextByteForByte) {
  for (const std::string& text : kTexts) {
    EXPECT_EQ(read(text), Lines{"C " + text});
    EXPECT_EQ(read("Well.\n" + text, ToolFormat::kMistral), Lines{"C Well.\n" + text});
  }
}

TEST(DressedCalls, DoNotDependOnHowTheOutputIsCut) {
  std::vector<std::string> outputs = kTexts;
  for (const DressedCase& each : kDressed) outputs.push_back(each.output);
  for (const std::string& output : outputs) {
    const auto whole = parse_deltas(parser_of(), {output});
    EXPECT_EQ(parse_deltas(parser_of(), cut_at_random(output, 1, 1)), whole) << output;
    for (uint64_t seed = 1; seed <= 8; ++seed)
      EXPECT_EQ(parse_deltas(parser_of(), cut_at_random(output, seed, 2 + seed)), whole) << output;
  }
}

TEST(DressedCalls, AreReadInEveryFormat) {
  for (const auto* style : tool_call::tool_styles()) {
    const auto reasoning = style->format == ToolFormat::kHarmony ? ReasoningFormat::kHarmony : ReasoningFormat::kThink;
    const std::string before = style->format == ToolFormat::kHarmony ? "<|channel|>final<|message|>" : "";
    OutputParser parser({style->format, reasoning}, *kDressTools, "<|start|>assistant", {kDressTools});
    const std::string output = before + "So:\n<tools>" + kOslo + "</tools>";
    EXPECT_EQ(lines_of(parse_deltas(std::move(parser), {output})), (Lines{"C So:", kOsloCall})) << style->name;
  }
}

TEST(DressedCalls, WhatTheFormatItselfReadsIsNotChanged) {
  EXPECT_EQ(read("<tool_call>{\"name\": \"get_weather\", \"arguments\": {}}</tool_call>"), Lines{"get_weather{}"});
  EXPECT_EQ(read("<tool_call>" + kOslo), Lines{kOsloCall});
  EXPECT_EQ(read("<tool_call>" + kNowObject + "</tool_call>\n" + kOslo), (Lines{"now{}", kOsloCall}));
  // A call of the format behind: the first is no answer's end.
  EXPECT_EQ(read(kOslo + "\n<tool_call>" + kNowObject + "</tool_call>"), (Lines{"C " + kOslo, "now{}"}));
}

TEST(DressedCalls, TextFlowsOnAsSoonAsItCanBeNoCall) {
  OutputParser parser = parser_of();
  const auto after = [&](std::string_view text) {
    std::vector<Part> parts;
    parser.feed(text, parts);
    return lines_of(parts);
  };
  EXPECT_EQ(after("Here is `{"), Lines{"C Here is `{"});
  EXPECT_EQ(after("`.\n"), Lines{"C `."});
  EXPECT_EQ(after("{"), Lines{});
  EXPECT_EQ(after("\"x"), Lines{"C \n{\"x"});
  EXPECT_EQ(after("ity\": 1}\n{\"name\": \""), Lines{"C ity\": 1}"});
  EXPECT_EQ(after("get_"), Lines{});
  EXPECT_EQ(after("x"), Lines{"C \n{\"name\": \"get_x"});
  EXPECT_EQ(after("\n```"), Lines{});
  EXPECT_EQ(after("py"), Lines{"C \n```py"});
  EXPECT_EQ(after("\n```\n"), Lines{"C \n```"});
  EXPECT_EQ(after(kOslo), Lines{});
  EXPECT_TRUE(parser.holds_calls());
  EXPECT_EQ(after("!"), Lines{"C \n" + kOslo + "!"});
}

TEST(DressedCalls, AreAtMostAsManyAsMayBe) {
  EXPECT_EQ(lines_of(parse_deltas(parser_of(ToolFormat::kHermes, 1), {kOslo})), Lines{kOsloCall});
  const std::string two = kOslo + "\n" + kNowObject;
  EXPECT_EQ(lines_of(parse_deltas(parser_of(ToolFormat::kHermes, 1), {two})), Lines{"C " + two});
  const std::string long_text = R"({"name": "get_weather", "arguments": {"city": ")" + std::string(kHeldBytesMax, 'x');
  EXPECT_EQ(read(long_text + "\"}}"), Lines{"C " + long_text + "\"}}"});
}

TEST(DressedCalls, LongHostileOutputsTakeLinearTime) {
  for (const std::string& piece :
       {kOslo + "\n", std::string("{\n"), std::string("[\n"), std::string("```json\n"), std::string("<tools>\n"),
        std::string(R"({"id":)") + "\n", std::string(R"({"name":"now","arguments":{"a":)") + "\n",
        std::string(R"({"arguments":{"a":)") + "\n", std::string(R"({"name":"now","arguments":{"a":[)") + "\n",
        std::string(R"(<function name="now" arguments='{"a":)") + "\n", std::string("<tool name=\"now\">\n")}) {
    std::string output;
    while (output.size() < 64u << 10) output += piece;
    output += "x";
    EXPECT_EQ(read(output), Lines{"C " + output});
  }
}

TEST(DressedCalls, AnswersWithoutToolsAreNotLookedAt) {
  const OutputFormat format{ToolFormat::kNone, ReasoningFormat::kThink};
  EXPECT_EQ(lines_of(parse_deltas({format, nullptr, ""}, {kOslo})), Lines{"C " + kOslo});
}

}  // namespace
}  // namespace cairn::chat
