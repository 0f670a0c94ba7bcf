// Outputs of every format give the same parts however they are cut. The cases are in output_parser_*_test.cpp.
#include "chat/output/output_parser.h"

#include <gtest/gtest.h>

#include "chat/testing/output_parser_cases.h"
#include "chat/testing/output_parser_fixture.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

std::vector<OutputCase> all_cases() {
  std::vector<OutputCase> cases;
  for (const auto& family : {text_cases(), json_cases(), marked_cases(), tagged_cases(), harmony_cases()})
    cases.insert(cases.end(), family.begin(), family.end());
  return cases;
}

OutputParser parser_of(const OutputCase& each) {
  static const ordered_json tools = ordered_json::parse(kCaseTools);
  return {{each.tools, each.reasoning}, tools, each.prompt};
}

std::vector<Part> parse(const OutputCase& each) { return parse_deltas(parser_of(each), {each.output}); }

std::vector<Part> parse_hermes(std::string_view output) {
  return parse_deltas({{ToolFormat::kHermes, ReasoningFormat::kThink}, nullptr, ""}, {output});
}

TEST(OutputParser, UnderstandsEveryFormat) {
  for (const OutputCase& each : all_cases()) EXPECT_EQ(lines_of(parse(each)), each.lines) << each.output;
}

TEST(OutputParser, GivesTheSamePartsHoweverTheOutputIsCut) {
  size_t splits = 0;
  for (const OutputCase& each : all_cases()) {
    const std::vector<Part> whole = parse(each);
    const std::string_view text = each.output;
    for (size_t at = 0; at <= text.size(); ++at, ++splits)
      ASSERT_EQ(parse_deltas(parser_of(each), {text.substr(0, at), text.substr(at)}), whole)
          << each.output << "\ncut at " << at;
    for (uint64_t seed = 1; seed <= 8; ++seed)
      ASSERT_EQ(parse_deltas(parser_of(each), cut_at_random(text, seed, 1 + seed)), whole)
          << each.output << "\nseed " << seed;
  }
  std::printf("%zu cases, %zu two-way splits\n", all_cases().size(), splits);
}

TEST(OutputParser, WhereverTheOutputEndsOnlyWholeCallsHaveValidArguments) {
  for (const OutputCase& each : all_cases()) {
    for (size_t size = 0; size < each.output.size(); ++size) {
      if ((static_cast<unsigned char>(each.output[size]) & 0xC0) == 0x80) continue;
      std::string arguments;
      bool open = false;
      for (const Part& part : parse_deltas(parser_of(each), {std::string_view(each.output).substr(0, size)})) {
        if (part.kind == PartKind::kCallBegin) arguments.clear(), open = true;
        if (part.kind == PartKind::kArguments) arguments += part.text;
        if (part.kind != PartKind::kCallEnd) continue;
        open = false;
        if (part.state == CallState::kBroken) continue;
        EXPECT_EQ(nlohmann::json::accept(arguments), part.state == CallState::kWhole)
            << each.output.substr(0, size) << "\n"
            << arguments;
      }
      EXPECT_FALSE(open) << each.output.substr(0, size);
    }
  }
}

TEST(OutputParser, EmitsPartsAsSoonAsTheyAreCertain) {
  OutputParser parser({ToolFormat::kHermes, ReasoningFormat::kThink}, nullptr, "<think>\n");
  const auto after = [&](std::string_view text) {
    std::vector<Part> parts;
    parser.feed(text, parts);
    return lines_of(parts);
  };
  EXPECT_TRUE(parser.in_reasoning());
  EXPECT_EQ(after("Hm <"), Lines{"R Hm"});
  EXPECT_EQ(after("x"), Lines{"R  <x"});
  EXPECT_EQ(after("</think>\n"), Lines{});
  EXPECT_FALSE(parser.in_reasoning());
  EXPECT_EQ(after("\nYes"), Lines{"C Yes"});
  EXPECT_EQ(after(" <tool_call>{\"name\": \"f"), Lines{});
  EXPECT_EQ(after("\""), Lines{"f"});
  std::vector<Part> parts;
  parser.feed(", \"arguments\": {\"a\": \"b", parts);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].text, "{\"a\": \"b");
  parser.feed("c", parts);
  EXPECT_EQ(parts[0].text, "{\"a\": \"bc");
}

TEST(OutputParser, CountsCalls) {
  std::string output;
  for (int i = 0; i < kCallsMax + 1; ++i) output += "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  const auto lines = lines_of(parse_hermes(output));
  ASSERT_EQ(lines.size(), static_cast<size_t>(kCallsMax) + 1);
  EXPECT_EQ(lines.back(), "C <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
}

TEST(OutputParser, HoldsBackAtMostItsLimit) {
  // Arguments that come before the name are held back until the name is known.
  const std::string early = "<tool_call>{\"arguments\": {\"a\": \"" + std::string(kHeldBytesMax - 100, 'x') + "\"}, ";
  EXPECT_EQ(parse_hermes(early + "\"name\": \"f\"}</tool_call>").at(0).kind, PartKind::kCallBegin);
  const std::string late = "<tool_call>{\"arguments\": {\"a\": \"" + std::string(kHeldBytesMax, 'x') + "\"}, ";
  const std::string output = late + "\"name\": \"f\"}</tool_call>";
  EXPECT_EQ(lines_of(parse_hermes(output)), std::vector<std::string>{"C " + output});

  const std::string name(kCallNameBytesMax + 1, 'f');
  EXPECT_EQ(parse_hermes("<tool_call>{\"name\": \"" + name + "\"}").at(0).kind, PartKind::kContent);

  OutputParser parser({ToolFormat::kNone, ReasoningFormat::kNone}, nullptr, "");
  std::vector<Part> parts;
  parser.feed("x" + std::string(kSpaceBytesMax - 1, ' '), parts);
  EXPECT_EQ(parts.at(0).text, "x");
  parser.feed(" ", parts);
  EXPECT_EQ(parts.at(0).text.size(), kSpaceBytesMax + 1);
}

TEST(OutputParser, LongTaggedValuesBecomeStrings) {
  const auto parse_value = [](const std::string& value) {
    return lines_of(parse_deltas({{ToolFormat::kQwenCoder, ReasoningFormat::kNone}, nullptr, ""},
                                 {"<function=f><parameter=a>" + value + "</parameter></function>"}));
  };
  EXPECT_EQ(parse_value("[" + std::string(100, '1') + "]").at(0), "f{\"a\": [" + std::string(100, '1') + "]}");
  const std::string over = "[\"" + std::string(kValueBytesMax, 'x') + "\"]";
  EXPECT_TRUE(parse_value(over).at(0).starts_with("f{\"a\": \"[\\\"x"));
  EXPECT_TRUE(parse_value(over).at(0).ends_with("x\\\"]\"}"));
}

TEST(OutputParser, NestingOverTheBoundBreaksTheCall) {
  const std::string deep(kArgumentDepthMax, '[');
  const auto lines = lines_of(parse_hermes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + deep + "1"));
  EXPECT_TRUE(lines.at(0).ends_with("[[[1!")) << lines.at(0);
}

TEST(OutputParser, CallsThatAreNotWholeHaveTheirTextAsTheModelWroteIt) {
  for (const std::string_view text : {"<tool_call>\n{\"name\": \"f\", \"arguments\": {'a': \"x",
                                      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": x}}\n</tool_call>"}) {
    const auto parts = parse_hermes("I look.\n" + std::string(text));
    ASSERT_EQ(parts.back().kind, PartKind::kCallEnd);
    EXPECT_EQ(parts.back().text, text);
  }
  EXPECT_EQ(parse_hermes("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>").back().text, "");
  const std::string harmony = "<|channel|>commentary to=functions.f<|message|>{\"a\": 1";
  const OutputFormat format{ToolFormat::kHarmony, ReasoningFormat::kHarmony};
  EXPECT_EQ(parse_deltas({format, nullptr, "<|start|>assistant"}, {harmony}).back().text, harmony);
}

TEST(OutputParser, WhatFollowsAForcedBeginningIsACall) {
  const auto after = [](ToolFormat format, std::string_view forced, std::string_view text) {
    OutputParser parser({format, ReasoningFormat::kThink}, ordered_json::parse(kCaseTools), "");
    std::vector<Part> parts;
    parser.feed(forced, parts);
    parser.expect_call();
    for (const char byte : text) parser.feed({&byte, 1}, parts);
    parser.finish(parts);
    return lines_of(parts);
  };
  const std::string_view header = "<tool_call>\n{\"name\": \"";
  EXPECT_EQ(after(ToolFormat::kHermes, header, "now\", \"arguments\": {}}\n</tool_call>"), Lines{"now{}"});
  EXPECT_EQ(after(ToolFormat::kHermes, header, "Once upon\" a time"), Lines{"Once upon\" a time!"});
  EXPECT_EQ(after(ToolFormat::kHermes, header, "now\"} </tool_call>"), Lines{"now{}"});
  EXPECT_EQ(after(ToolFormat::kHermes, header, "two words\"}</tool_call>Yes."), (Lines{"two words\"}!", "C Yes."}));
  EXPECT_EQ(after(ToolFormat::kHermes, header, "get_wea"), Lines{"get_wea{~"});
  EXPECT_EQ(after(ToolFormat::kLlama, "{\"name\": \"", "unknown\", 5"), Lines{"unknown\", 5!"});
  // A call without a name is nothing.
  EXPECT_EQ(after(ToolFormat::kHermes, header, "\"}"), Lines{"C <tool_call>\n{\"name\": \"\"}"});
}

// These outputs take milliseconds in linear time; quadratic time would be noticed.
TEST(OutputParser, LongHostileOutputsTakeLinearTime) {
  for (const std::string_view piece :
       {"<", "<tool_call>", "<tool_call>{\"name\": \"", "<tool_call>a", "  \n", "</think>",
        "<tool_call>{\"arguments\": {\"a\": \"", "<function=a><parameter=b>"}) {
    std::string output;
    while (output.size() < 64u << 10) output += piece;
    for (const auto format : {ToolFormat::kHermes, ToolFormat::kQwenCoder, ToolFormat::kGlm, ToolFormat::kLlama}) {
      const auto parts = parse_deltas({{format, ReasoningFormat::kThink}, nullptr, ""}, {output});
      EXPECT_FALSE(parts.empty() && piece != "</think>") << piece;
    }
  }
}

TEST(OutputParser, ForcedOpeningsAreParsedAsCalls) {
  for (const auto* style : tool_call::tool_styles()) {
    const std::string opening = tool_call::forced_opening(*style, "get_weather", 0, "abcdefghi");
    OutputCase each{style->format, ReasoningFormat::kNone, "", opening, {}};
    if (style->format == ToolFormat::kHarmony) each.prompt = "<|start|>assistant";
    const auto parts = parse(each);
    ASSERT_FALSE(parts.empty()) << style->name;
    EXPECT_EQ(parts[0].kind, PartKind::kCallBegin) << style->name << ": " << opening;
    EXPECT_EQ(parts[0].text, "get_weather") << style->name;
    EXPECT_TRUE(opening.starts_with(tool_call::forced_opening(*style, "", 0, "abcdefghi"))) << style->name;
  }
}

TEST(OutputParser, EveryFormatIsInTheTableOnce) {
  for (int format = 1; format <= static_cast<int>(ToolFormat::kSolar); ++format)
    EXPECT_EQ(
        std::ranges::count(tool_call::tool_styles(), static_cast<ToolFormat>(format), &tool_call::ToolStyle::format), 1)
        << format;
  // Any two styles can be combined: no marker of one is part of another's, or MarkerMatcher's check would fail.
  for (const auto* tools : tool_call::tool_styles())
    for (const ReasoningStyle& thinking : reasoning_styles())
      EXPECT_TRUE(parse_deltas({{tools->format, thinking.format}, nullptr, ""}, {}).empty());
  EXPECT_EQ(tool_call::find_style(ToolFormat::kNone), nullptr);
  EXPECT_EQ(detect_output_format("").tools, ToolFormat::kHermes);
  EXPECT_EQ(detect_output_format("").reasoning, ReasoningFormat::kThink);
}

}  // namespace
}  // namespace cairn::chat
