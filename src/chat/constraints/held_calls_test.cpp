// Calls drawn from the masks alone, in every format, read by the format's parser.
#include "chat/constraints/held_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/test_data.h"
#include "chat/constraints/chat_constraint.h"
#include "chat/output/callable_names.h"
#include "chat/output/output_parser.h"
#include "chat/testing/output_parser_fixture.h"
#include "chat/testing/tool_names.h"
#include "chat/tool_calls/call_form.h"
#include "chat/tool_calls/format.h"
#include "grammar/grammar_source.h"
#include "grammar/masks/token_walks.h"

namespace cairn::chat {
namespace {

using grammar::CalledTool;
using grammar::GrammarSource;
using nlohmann::ordered_json;

const ordered_json kTools = ordered_json::parse(R"([
  {"type": "function", "function": {"name": "paint", "strict": true, "parameters": {"type": "object", "properties": {
    "colour": {"enum": ["red", "dark green"]}, "layers": {"type": "integer", "minimum": 1, "maximum": 9},
    "note": {"type": ["string", "null"], "maxLength": 12}, "dry": {"type": "boolean"},
    "place": {"type": "object", "properties": {"room": {"type": "string", "maxLength": 9}, "walls": {"type": "array",
      "items": {"enum": ["north", "south"]}, "maxItems": 3}}, "required": ["room"], "additionalProperties": false}},
    "required": ["colour", "layers", "dry", "place"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "stop_all", "strict": true, "parameters": {"type": "object",
    "properties": {}, "additionalProperties": false}}}
])");

void expect_fits(const std::string& name, const std::string& text) {
  const ordered_json value = ordered_json::parse(text, nullptr, false);
  ASSERT_TRUE(value.is_object()) << name << text;
  if (name == "stop_all") {
    EXPECT_TRUE(value.empty()) << text;
    return;
  }
  ASSERT_EQ(name, "paint");
  for (const auto& [key, member] : value.items())
    EXPECT_THAT(key, testing::AnyOf("colour", "layers", "note", "dry", "place")) << text;
  EXPECT_TRUE(value.value("colour", "") == "red" || value.value("colour", "") == "dark green") << text;
  ASSERT_TRUE(value.contains("layers") && value["layers"].is_number_integer()) << text;
  EXPECT_TRUE(value["layers"] >= 1 && value["layers"] <= 9) << text;
  ASSERT_TRUE(value.contains("dry") && value["dry"].is_boolean()) << text;
  EXPECT_TRUE(value.value("note", ordered_json()).is_string() || value.value("note", ordered_json()).is_null()) << text;
  ASSERT_TRUE(value.contains("place") && value["place"].is_object()) << text;
  EXPECT_TRUE(value["place"].contains("room") && value["place"]["room"].is_string()) << text;
  for (const ordered_json& wall : value["place"].value("walls", ordered_json::array()))
    EXPECT_TRUE(wall == "north" || wall == "south") << text;
}

class HeldCallsTest : public testing::TestWithParam<const tool_call::ToolStyle*> {
 protected:
  void SetUp() override {
    auto file = gguf::Reader::open(test_data("/models/llama.gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().text();
    tokenizer_ = tokenizer::Tokenizer::load(file->metadata()).value();
    vocabulary_ = std::make_shared<const AnswerVocabulary>(*tokenizer_);
  }

  std::string spell(std::string_view text, bool opens) const { return vocabulary_->spell(text, opens); }

  HeldCallsRules rules(bool strict, const ordered_json& tools = kTools) {
    const auto spelled = [this](std::string_view text, bool opens) { return spell(text, opens); };
    GrammarSource source{.kind = GrammarSource::Kind::kCalls, .forms = tool_call::call_forms(*GetParam(), spelled)};
    const tool_call::ToolSchemas schemas(tools);
    for (const ordered_json& tool : tools) {
      const ordered_json& function = tool["function"];
      CalledTool called{.name = function["name"], .schema = function["parameters"], .strict = strict};
      for (const auto& [name, schema] : called.schema["properties"].items())
        called.kinds[name] = tool_call::parameter_kind(schemas.kind(called.name, name));
      source.tools.push_back(std::move(called));
    }
    auto made = grammar::compile(source);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    HeldCallsRules rules{.vocabulary = vocabulary_};
    if (made) rules.grammar = *made;
    std::vector<std::string_view> texts;
    for (const tool_call::CallStart& start : tool_call::call_starts(*GetParam())) {
      texts.push_back(start.text);
      rules.starts.push_back({std::string(start.text), spell(start.text, true), start.certain});
    }
    if (!texts.empty()) rules.completing = std::make_shared<const sampling::TextBan>(*tokenizer_, texts);
    return rules;
  }

  /// The parts of a block that begins with `opening`, with what is drawn from masks behind it.
  std::vector<Part> draw(const HeldCallsRules& rules, const std::string& opening, uint64_t seed, std::string& text,
                         const ordered_json& tools = kTools) {
    grammar::Matcher matcher(rules.grammar);
    const std::string spelled = spell(opening, true);
    EXPECT_EQ(matcher.push(spelled), spelled.size()) << opening;
    const grammar::DrawnText drawn = grammar::draw_text(vocabulary_->masks, matcher, seed, 600);
    text = opening + drawn.text;
    if (!drawn.ended && !(matcher.may_end() && matcher.next_bytes().empty())) return {};
    OutputParser parser({GetParam()->format, ReasoningFormat::kNone}, tools, "");
    std::vector<Part> parts;
    parser.feed(text, parts);
    parser.finish(parts);
    return parts;
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::shared_ptr<const AnswerVocabulary> vocabulary_;
};

TEST_P(HeldCallsTest, WhatMasksAllowIsReadAsCallsThatFit) {
  const HeldCallsRules made = rules(/*strict=*/true);
  int calls = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const std::string name : {"", "paint", "stop_all"}) {
      std::string opening = tool_call::forced_opening(*GetParam(), name, 0, "abcdefghi");
      while (opening.ends_with(' ')) opening.pop_back();
      std::string text, called, arguments;
      for (const Part& part : draw(made, opening, seed, text)) {
        SCOPED_TRACE(text);
        EXPECT_NE(part.kind, PartKind::kContent) << part.text;
        if (part.kind == PartKind::kCallBegin) called = part.text;
        if (part.kind == PartKind::kArguments) arguments += part.text;
        if (part.kind != PartKind::kCallEnd) continue;
        EXPECT_EQ(part.state, CallState::kWhole);
        expect_fits(called, arguments);
        arguments.clear();
        ++calls;
      }
    }
  }
  EXPECT_GE(calls, 30);
}

TEST_P(HeldCallsTest, WithoutSchemasArgumentsAreWhole) {
  const HeldCallsRules made = rules(/*strict=*/false);
  int calls = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::string opening = tool_call::forced_opening(*GetParam(), "paint", 0, "abcdefghi");
    while (opening.ends_with(' ')) opening.pop_back();
    std::string text, arguments;
    for (const Part& part : draw(made, opening, seed, text)) {
      SCOPED_TRACE(text);
      EXPECT_NE(part.kind, PartKind::kContent) << part.text;
      if (part.kind == PartKind::kArguments) arguments += part.text;
      if (part.kind != PartKind::kCallEnd) continue;
      EXPECT_EQ(part.state, CallState::kWhole);
      EXPECT_TRUE(ordered_json::accept(arguments)) << arguments;
      arguments.clear();
      ++calls;
    }
  }
  EXPECT_GE(calls, 1);
}

TEST_P(HeldCallsTest, InputsFollowTheirLanguage) {
  const ordered_json tools = ordered_json::parse(R"([{"type": "function", "function": {"name": "query", "parameters":
    {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}}}])");
  const auto spelled = [this](std::string_view text, bool opens) { return spell(text, opens); };
  GrammarSource source{.kind = GrammarSource::Kind::kCalls, .forms = tool_call::call_forms(*GetParam(), spelled)};
  source.tools.push_back(
      {.name = "query",
       .input = grammar::CallInput{
           .key = "input",
           .definition = "start: \"SELECT \" NAME (\",\" NAME)~0..2 \"\\n\"\nNAME: /[a-z\\\\\"<]{1,5}/\n"}});
  const auto made = grammar::compile(source);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  std::string opening = tool_call::forced_opening(*GetParam(), "query", 0, "abcdefghi");
  while (opening.ends_with(' ')) opening.pop_back();
  int calls = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    std::string text, arguments;
    for (const Part& part : draw({.grammar = *made}, opening, seed, text, tools)) {
      SCOPED_TRACE(text);
      if (part.kind == PartKind::kArguments) arguments += part.text;
      if (part.kind != PartKind::kCallEnd) continue;
      EXPECT_EQ(part.state, CallState::kWhole);
      const ordered_json value = ordered_json::parse(arguments, nullptr, false);
      arguments.clear();
      ASSERT_TRUE(value.is_object() && value.size() == 1 && value.contains("input"));
      EXPECT_THAT(value["input"].get<std::string>(),
                  testing::MatchesRegex("SELECT [a-z\\\\\"<]+(,[a-z\\\\\"<]+)?(,[a-z\\\\\"<]+)?\n"));
      ++calls;
    }
  }
  EXPECT_GE(calls, 5);
}

ordered_json tools_named(const std::vector<std::string>& names) {
  ordered_json tools = ordered_json::array();
  for (const std::string& name : names) {
    ordered_json function = ordered_json::parse(R"({"parameters": {"type": "object", "properties": {
      "q": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["q"], "additionalProperties": false}})");
    function["name"] = name;
    tools.push_back(ordered_json::object({{"type", "function"}, {"function", function}}));
  }
  return tools;
}

TEST_P(HeldCallsTest, ToolsAreCalledByExactlyTheirNames) {
  const OutputFormat format{GetParam()->format, ReasoningFormat::kNone};
  for (const std::string& name : odd_tool_names()) {
    if (!uncallable_beginning(*GetParam(), name).empty()) continue;
    // The name of one is the beginning of another's.
    const ordered_json tools = tools_named({"get", name, "get_weather"});
    const HeldCallsRules made = rules(/*strict=*/true, tools);
    int calls = 0;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const bool named = seed % 2 == 0;
      std::string opening = tool_call::forced_opening(*GetParam(), named ? name : "", 0, "abcdefghi");
      while (opening.ends_with(' ')) opening.pop_back();
      std::string text;
      if (draw(made, opening, seed, text, tools).empty()) continue;
      const std::vector<Part> parts = parse_deltas({format, tools, ""}, {text});
      SCOPED_TRACE(text);
      EXPECT_EQ(parse_deltas({format, tools, ""}, cut_at_random(text, seed, 3)), parts);
      for (const Part& part : parts) {
        EXPECT_NE(part.kind, PartKind::kContent) << part.text;
        EXPECT_EQ(part.state, CallState::kWhole);
        if (part.kind == PartKind::kCallBegin) {
          const bool free = !named || part.call > 0;
          EXPECT_TRUE(part.text == name || (free && (part.text == "get" || part.text == "get_weather"))) << part.text;
          calls += part.text == name ? 1 : 0;
        } else if (part.kind == PartKind::kArguments) {
          const ordered_json value = ordered_json::parse(part.text, nullptr, false);
          EXPECT_TRUE(value.is_object() && value.size() == 1 && value.value("q", -1) >= 0) << part.text;
        }
      }
    }
    EXPECT_GE(calls, 1) << name;
  }
}

// What a model of one format writes, held token by token.
class HeldText {
 public:
  HeldText(HeldCallsRules rules, const tokenizer::Tokenizer& tokenizer, ToolFormat format, const std::string& prompt)
      : tokenizer_(tokenizer),
        constraint_({.calls = std::move(rules)}, OutputParser({format, ReasoningFormat::kThink}, kTools, prompt),
                    tokenizer, kNoToken) {
    constraint_.begin(next);
    if (next.unfinished) constraint_.finish(next);
  }
  /// False: one of its tokens may not come.
  bool say(const std::string& text) {
    bool allowed = true;
    const auto tokens = tokenizer_.encode(text, {.parse_special = true, .after = last_}).value();
    for (const TokenId token : tokens) {
      allowed &= may_come(token);
      constraint_.token(token, std::string(tokenizer_.piece(token, true)), next);
      if (next.unfinished) constraint_.finish(next);
      last_ = token;
    }
    return allowed;
  }
  bool may_come(TokenId token) const {
    const auto at = static_cast<size_t>(index(token));
    const bool masked = !next.allowed.empty() && (next.allowed[at / 64] >> (at % 64) & 1) == 0;
    return !masked && std::ranges::find(next.banned, token) == next.banned.end();
  }
  bool held() const { return !next.allowed.empty(); }
  engine::NextTokenRule next;

 private:
  const tokenizer::Tokenizer& tokenizer_;
  ChatConstraint constraint_;
  TokenId last_ = kNoToken;
};

TEST_P(HeldCallsTest, ACallIsHeldFromItsOpenerToItsEnd) {
  if (GetParam()->format != ToolFormat::kHermes) return;
  const HeldCallsRules made = rules(/*strict=*/true);
  HeldText text(made, *tokenizer_, ToolFormat::kHermes, "");
  EXPECT_TRUE(text.say("I paint. <tool_call"));
  EXPECT_FALSE(text.held());
  for (const TokenId token : made.completing->completing(0, std::string_view("<tool_call").size())) {
    const std::string_view rest = tokenizer_->piece(token, true).substr(1);
    EXPECT_EQ(text.may_come(token), rest.find_first_not_of(" \n\t{\"nam:") == std::string_view::npos) << rest;
  }
  EXPECT_TRUE(text.say(">"));
  EXPECT_TRUE(text.held());
  EXPECT_TRUE(text.say("\n{\"name\": \"stop_all\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(text.held());
  EXPECT_TRUE(text.say(" Done. <tool_call>\n{\"name\": \""));
  EXPECT_FALSE(text.say("other"));
  EXPECT_TRUE(text.next.error.has_value());
}

TEST_P(HeldCallsTest, WithinThinkingACallIsHeldFromItsName) {
  if (GetParam()->format != ToolFormat::kHermes) return;
  HeldText text(rules(/*strict=*/true), *tokenizer_, ToolFormat::kHermes, "<think>\n");
  EXPECT_TRUE(text.say("I could write <tool_call> or so. Or <tool_call>\n{\"name\": \"pain"));
  EXPECT_FALSE(text.held());
  EXPECT_TRUE(text.say("t\", \"arguments\": {\"colour\": \""));
  EXPECT_TRUE(text.held());
}

TEST_P(HeldCallsTest, AnObjectThatNamesNoToolIsText) {
  if (GetParam()->format != ToolFormat::kLlama) return;
  HeldCallsRules made = rules(/*strict=*/true);
  made.bare = GetParam()->bare->text;
  HeldText answer(made, *tokenizer_, ToolFormat::kLlama, "");
  EXPECT_TRUE(answer.say("{\"name\": \"Ann\", \"age\": 3}"));
  EXPECT_FALSE(answer.held());
  HeldText call(made, *tokenizer_, ToolFormat::kLlama, "");
  EXPECT_TRUE(call.say("\n{\"name\": \"stop_all\", \"parameters\": "));
  EXPECT_TRUE(call.held());
  EXPECT_FALSE(call.say("[1]"));
}

std::string style_name(const testing::TestParamInfo<const tool_call::ToolStyle*>& info) {
  return std::string(info.param->name);
}
INSTANTIATE_TEST_SUITE_P(Formats, HeldCallsTest, testing::ValuesIn(tool_call::tool_styles()), style_name);

}  // namespace
}  // namespace cairn::chat
