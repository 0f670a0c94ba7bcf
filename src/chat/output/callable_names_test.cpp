// Names of tools that calls in a format cannot have.
#include "chat/output/callable_names.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "chat/testing/output_parser_fixture.h"
#include "chat/testing/tool_names.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;
using Names = std::vector<std::string>;

// docs/api/chat.md has the same table, in words; a format that is not in it has all names.
const std::map<std::string_view, Names> kRefused = {
    {"deepseek_v3", {" a", "a ", "get ", "a```json"}},
    {"deepseek_v31", {" a", "a ", "get "}},
    {"dsml_v32", {" a", "a ", "get "}},
    {"dsml_v4", {" a", "a ", "get "}},
    {"functionary", {" a", "a ", "get "}},
    {"functionary_recipient", {" a", "a ", "get "}},
    {"gemma", {"{{7*7}}", "{n:1}", "a{b", " a", "a ", "get "}},
    {"glm", {"{{7*7}}", "[x]", "{n:1}", " a", "a ", "get "}},
    {"harmony", {"a ", "get ", "a json", "get json"}},
    {"hy", {" a", "a ", "get "}},
    {"kimi_k3", {" a", "a ", "get "}},
    {"lfm", {"a(b", " a", "a.b(c)"}},
    {"mini_cpm", {" a", "a ", "get "}},
    {"minimax_m2", {" a", "a ", "get "}},
    {"mistral", {"{{7*7}}", "x[ARGS]y", "[x]", "{n:1}", " a", "a ", "get "}},
    {"mistral_id", {"{{7*7}}", "x[ARGS]y", "[x]", "{n:1}", " a", "a ", "get "}},
    {"qwen_coder", {" a", "a ", "get "}},
    {"seed", {" a", "a ", "get "}},
    {"solar", {" a", "a ", "get "}},
};

TEST(CallableNames, EachFormatRefusesWhatItHasAUseFor) {
  for (const auto* style : tool_call::tool_styles()) {
    Names refused;
    for (const std::string& name : odd_tool_names())
      if (!uncallable_beginning(*style, name).empty()) refused.push_back(name);
    const auto expected = kRefused.find(style->name);
    EXPECT_EQ(refused, expected == kRefused.end() ? Names() : expected->second) << style->name;
  }
}

TEST(CallableNames, TheBeginningEndsWithTheCharacter) {
  const auto beginning = [](ToolFormat format, std::string_view name) {
    return uncallable_beginning(*tool_call::find_style(format), name);
  };
  EXPECT_EQ(beginning(ToolFormat::kMistral, "a b[ARGS]y"), "a b[ARGS]");
  EXPECT_EQ(beginning(ToolFormat::kMistral, "[x]"), "[");
  EXPECT_EQ(beginning(ToolFormat::kLfm, "天(气"), "天(");
  EXPECT_EQ(beginning(ToolFormat::kGemma, "a{b}"), "a{");
  EXPECT_EQ(beginning(ToolFormat::kGlm, "a b "), "a b ");
  EXPECT_EQ(beginning(ToolFormat::kHarmony, "a json"), "a json");
}

Lines read(ToolFormat format, const Names& names, const std::string& text, std::string_view prompt = "") {
  ordered_json tools = ordered_json::array();
  for (const std::string& name : names) tools.push_back(ordered_json::object({{"name", name}}));
  const OutputFormat output{format, ReasoningFormat::kNone};
  const std::vector<Part> parts = parse_deltas({output, tools, prompt}, {text});
  const std::string_view all = text;
  for (size_t at = 0; at < all.size(); ++at)
    EXPECT_EQ(parse_deltas({output, tools, prompt}, {all.substr(0, at), all.substr(at)}), parts);
  return lines_of(parts);
}

TEST(CallableNames, WordsOfAFormatAreToolsWhereToolsHaveTheirNames) {
  const auto recipient = ToolFormat::kFunctionaryRecipient;
  EXPECT_EQ(read(recipient, {"all"}, "all\n{\"q\": 1}", ">>>"), (Lines{"all{\"q\": 1}"}));
  EXPECT_EQ(read(recipient, {"all"}, "all\nAll {1}.", ">>>"), (Lines{"C All {1}."}));
  EXPECT_EQ(read(recipient, {"all"}, "all\n", ">>>"), Lines());
  EXPECT_EQ(read(recipient, {"f"}, "all\n{\"q\": 1}", ">>>"), (Lines{"C {\"q\": 1}"}));
  const std::string print = "<|tool_call_start|>[print(q=1)]<|tool_call_end|>";
  EXPECT_EQ(read(ToolFormat::kLfm, {"print"}, print), (Lines{"print{\"q\":1}"}));
  const std::string printed = "<|tool_call_start|>[print(f(q=1))]<|tool_call_end|>";
  EXPECT_EQ(read(ToolFormat::kLfm, {"f"}, printed), (Lines{"f{\"q\":1}"}));
  const std::string method = "<|tool_call_start|>[f.call(q=1)]<|tool_call_end|>";
  EXPECT_EQ(read(ToolFormat::kLfm, {"f"}, method), (Lines{"f{\"q\":1}"}));
  EXPECT_EQ(read(ToolFormat::kLfm, {"f", "f.call"}, method), (Lines{"f.call{\"q\":1}"}));
}

TEST(CallableNames, BesideAToolWithBracesACallMayStillLackItsMarker) {
  const std::string lacking = "<|tool_call_begin|>functions.f{\"q\": 1}<|tool_call_end|>";
  EXPECT_EQ(read(ToolFormat::kKimi, {"f", "g{n}"}, lacking), read(ToolFormat::kKimi, {"f"}, lacking));
}

TEST(CallableNames, HarmonysHeadersEndNamesAtSpacesUnlessAToolHasThem) {
  const auto call = [](const Names& names, const std::string& header) {
    return read(ToolFormat::kHarmony, names, "<|channel|>commentary to=functions." + header + "<|message|>{}<|call|>",
                "<|start|>assistant");
  };
  EXPECT_EQ(call({"a b", "a"}, "a b <|constrain|>json"), Lines{"a b{}"});
  EXPECT_EQ(call({"a b", "a"}, "a b json"), Lines{"a b{}"});
  EXPECT_EQ(call({"a b", "a"}, "a json"), Lines{"a{}"});
  EXPECT_EQ(call({"a b", "a"}, "a code"), Lines{"a{}"});
  EXPECT_EQ(call({"a"}, "a b"), Lines{"a{}"});
}

}  // namespace
}  // namespace cairn::chat
