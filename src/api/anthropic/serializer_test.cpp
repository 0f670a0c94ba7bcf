#include "api/anthropic/serializer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

/// Answers with scripted parts.
class Script {
 public:
  explicit Script(ResponseOptions options) : serializer_(with_names(std::move(options))) {
    bytes_ = serializer_.begin();
  }

  Script& say(const std::vector<chat::Part>& parts) {
    bytes_ += serializer_.parts(0, parts, nullptr);
    return *this;
  }
  Script& finish(chat::ChatFinishReason end, std::string stop = "", engine::Usage usage = {10, 4, 3},
                 int32_t reasoning_tokens = 0) {
    chat::ChatFinish finish;
    finish.reason = end;
    finish.stop = std::move(stop);
    finish.usage = usage;
    finish.reasoning_tokens = reasoning_tokens;
    bytes_ += serializer_.finish(0, std::move(finish));
    bytes_ += serializer_.done();
    return *this;
  }
  /// The body of an answer that does not stream.
  ordered_json body() const { return ordered_json::parse(bytes_); }
  /// "NAME" or "NAME INDEX" of every event, and what it carries.
  std::vector<std::string> events() const {
    std::vector<std::string> events;
    std::string_view rest = bytes_;
    while (!rest.empty()) {
      const size_t line = rest.find('\n');
      const size_t end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("event: ") && rest.substr(line + 1).starts_with("data: ") && end > line) << rest;
      const std::string name(rest.substr(7, line - 7));
      const auto data = ordered_json::parse(rest.substr(line + 7, end - line - 7));
      EXPECT_EQ(data["type"], name);
      events.push_back(told(data, name));
      rest.remove_prefix(end + 2);
    }
    return events;
  }

 private:
  static ResponseOptions with_names(ResponseOptions options) {
    options.id = "msg_1";
    options.model = "m";
    options.prompt_tokens = 10;
    options.max_tokens = options.max_tokens == 0 ? 0 : 8;
    return options;
  }
  static std::string told(const ordered_json& data, const std::string& name) {
    std::string text = name;
    if (data.contains("index")) text += " " + data["index"].dump();
    for (const char* what : {"content_block", "delta", "usage", "message"})
      if (data.contains(what)) text += " " + data[what].dump();
    return text;
  }

  MessagesSerializer serializer_;
  std::string bytes_;
};

chat::Part part(chat::PartKind kind, std::string_view said, std::string_view id = "") {
  return {kind, std::string(said), 0, std::string(id), chat::CallState::kWhole};
}
chat::Part text(std::string_view said) { return part(chat::PartKind::kContent, said); }
chat::Part thought(std::string_view said) { return part(chat::PartKind::kReasoning, said); }
chat::Part call(std::string_view name, std::string_view id) { return part(chat::PartKind::kCallBegin, name, id); }
chat::Part arguments(std::string_view said) { return part(chat::PartKind::kArguments, said); }
chat::Part call_end() { return part(chat::PartKind::kCallEnd, ""); }

const std::string kStart =
    R"(message_start {"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,)"
    R"("stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,)"
    R"("output_tokens":0,"output_tokens_details":{"thinking_tokens":0}}})";
std::string delta_event(std::string_view reason, int thinking = 0) {
  return fmt::format(R"(message_delta {{"stop_reason":"{}","stop_sequence":null}} {{"input_tokens":7,)"
                     R"("cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":4,)"
                     R"("output_tokens_details":{{"thinking_tokens":{}}}}})",
                     reason, thinking);
}

TEST(MessagesSerializer, StreamsTextAsOneBlock) {
  Script script({.stream = true});
  script.say({text("Hel")}).say({}).say({text("lo")}).finish(chat::ChatFinishReason::kStop);
  EXPECT_THAT(script.events(),
              testing::ElementsAre(kStart, "ping", R"(content_block_start 0 {"type":"text","text":""})",
                                   R"(content_block_delta 0 {"type":"text_delta","text":"Hel"})",
                                   R"(content_block_delta 0 {"type":"text_delta","text":"lo"})", "content_block_stop 0",
                                   delta_event("end_turn"), "message_stop"));
}

TEST(MessagesSerializer, StreamsThinkingTextAndCallsAsBlocksInTurn) {
  Script script({.stream = true});
  script.say({thought("Hm"), thought(".")}).say({text("I look."), call("weather", "t1"), arguments("{\"city\":")});
  script.say({arguments("\"Oslo\"}"), call_end(), call("time", "t2"), arguments("{}"), call_end()});
  script.finish(chat::ChatFinishReason::kToolCalls, "", {10, 4, 3}, 2);
  const auto events = script.events();
  ASSERT_EQ(events.size(), 19u);
  EXPECT_THAT(events[5],
              testing::MatchesRegex(R"(content_block_delta 0 .."?type":"signature_delta","signature":"[0-9a-f]+"..*)"));
  std::vector<std::string> rest = events;
  rest.erase(rest.begin() + 5);
  EXPECT_THAT(rest, testing::ElementsAre(
                        kStart, "ping", R"(content_block_start 0 {"type":"thinking","thinking":"","signature":""})",
                        R"(content_block_delta 0 {"type":"thinking_delta","thinking":"Hm"})",
                        R"(content_block_delta 0 {"type":"thinking_delta","thinking":"."})", "content_block_stop 0",
                        R"(content_block_start 1 {"type":"text","text":""})",
                        R"(content_block_delta 1 {"type":"text_delta","text":"I look."})", "content_block_stop 1",
                        R"(content_block_start 2 {"type":"tool_use","id":"toolu_t1","name":"weather","input":{}})",
                        R"(content_block_delta 2 {"type":"input_json_delta","partial_json":"{\"city\":"})",
                        R"(content_block_delta 2 {"type":"input_json_delta","partial_json":"\"Oslo\"}"})",
                        "content_block_stop 2",
                        R"(content_block_start 3 {"type":"tool_use","id":"toolu_t2","name":"time","input":{}})",
                        R"(content_block_delta 3 {"type":"input_json_delta","partial_json":"{}"})",
                        "content_block_stop 3", delta_event("tool_use", 2), "message_stop"));
}

TEST(MessagesSerializer, ACallThatIsNotWholeIsATextInAWholeAnswerAndRawInAStream) {
  const chat::Part cut{chat::PartKind::kCallEnd, "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os", 0,
                       "", chat::CallState::kCut};
  const std::vector<chat::Part> parts = {text("I look."), call("weather", "t1"), arguments("{\"city\": \"Os"), cut};
  Script whole({});
  whole.say(parts).finish(chat::ChatFinishReason::kCutCall);
  EXPECT_EQ(whole.body()["content"],
            ordered_json::array({{{"type", "text"}, {"text", "I look."}}, {{"type", "text"}, {"text", cut.text}}}));
  EXPECT_EQ(whole.body()["stop_reason"], "max_tokens");

  Script streamed({.stream = true});
  streamed.say(parts).finish(chat::ChatFinishReason::kCutCall);
  const auto events = streamed.events();
  EXPECT_THAT(
      std::vector(events.begin() + 5, events.end()),
      testing::ElementsAre(R"(content_block_start 1 {"type":"tool_use","id":"toolu_t1","name":"weather","input":{}})",
                           R"(content_block_delta 1 {"type":"input_json_delta","partial_json":"{\"city\": \"Os"})",
                           "content_block_stop 1", delta_event("max_tokens"), "message_stop"));

  // Arguments that are whole, and no object.
  Script list({});
  list.say({call("weather", "t1"), arguments("[1]"), call_end()}).finish(chat::ChatFinishReason::kToolCalls);
  EXPECT_EQ(list.body()["content"][0], ordered_json({{"type", "text"}, {"text", "weather [1]"}}));
}

TEST(MessagesSerializer, EmptyAnswersHaveNoBlocks) {
  Script streamed({.stream = true});
  streamed.say({}).say({text("")}).finish(chat::ChatFinishReason::kStop);
  EXPECT_THAT(streamed.events(), testing::ElementsAre(kStart, "ping", delta_event("end_turn"), "message_stop"));
  Script whole({});
  whole.finish(chat::ChatFinishReason::kStop);
  EXPECT_EQ(whole.body()["content"], ordered_json::array());
}

TEST(MessagesSerializer, AWholeAnswerHasTheSameBlocks) {
  Script script({});
  script.say({thought("Hm"), text("I "), text("look."), call("weather", "t1"), arguments("{\"city\": "),
              arguments("\"Oslo\"}"), call_end()});
  script.finish(chat::ChatFinishReason::kToolCalls, "", {10, 4, 3}, 1);
  ordered_json body = script.body();
  const auto signature = body["content"][0]["signature"].get<std::string>();
  EXPECT_EQ(signature.size(), 32u);
  body["content"][0].erase("signature");
  EXPECT_EQ(body,
            ordered_json::parse(R"({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [
    {"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "toolu_t1", "name": "weather", "input": {"city": "Oslo"}}],
    "stop_reason": "tool_use", "stop_sequence": null,
    "usage": {"input_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 3, "output_tokens": 4,
              "output_tokens_details": {"thinking_tokens": 1}}})"));
  Script again({});
  again.say({thought("Hm")}).finish(chat::ChatFinishReason::kStop);
  EXPECT_EQ(again.body()["content"][0]["signature"], signature);
  Script other({});
  other.say({thought("Hm!")}).finish(chat::ChatFinishReason::kStop);
  EXPECT_NE(other.body()["content"][0]["signature"], signature);
}

TEST(MessagesSerializer, ThinkingMayBeOmittedButForItsSignature) {
  Script streamed({.stream = true, .shows_thinking = false});
  streamed.say({thought("Hm"), thought("."), text("Yes")}).finish(chat::ChatFinishReason::kStop);
  const auto events = streamed.events();
  ASSERT_EQ(events.size(), 10u);
  EXPECT_THAT(events[2], testing::StartsWith("content_block_start 0"));
  EXPECT_THAT(events[3], testing::HasSubstr("signature_delta"));
  EXPECT_EQ(events[4], "content_block_stop 0");
  Script whole({.shows_thinking = false});
  whole.say({thought("Hm."), text("Yes")}).finish(chat::ChatFinishReason::kStop);
  EXPECT_EQ(whole.body()["content"][0]["thinking"], "");
  EXPECT_EQ(whole.body()["content"].size(), 2u);
}

TEST(MessagesSerializer, SaysWhyItStopped) {
  const auto stopped = [](chat::ChatFinishReason end, int tokens = 4, const std::string& stop = "") {
    Script script({});
    const ordered_json body = script.finish(end, stop, {10, tokens, 0}).body();
    return ordered_json{body["stop_reason"], body["stop_sequence"]};
  };
  EXPECT_EQ(stopped(chat::ChatFinishReason::kStop), (ordered_json{"end_turn", nullptr}));
  EXPECT_EQ(stopped(chat::ChatFinishReason::kStopString, 4, "END"), (ordered_json{"stop_sequence", "END"}));
  EXPECT_EQ(stopped(chat::ChatFinishReason::kToolCalls), (ordered_json{"tool_use", nullptr}));
  EXPECT_EQ(stopped(chat::ChatFinishReason::kLength, 8), (ordered_json{"max_tokens", nullptr}));
  EXPECT_EQ(stopped(chat::ChatFinishReason::kLength, 7), (ordered_json{"model_context_window_exceeded", nullptr}));
  EXPECT_EQ(stopped(chat::ChatFinishReason::kRepetition), (ordered_json{"max_tokens", nullptr}));
}

TEST(MessagesSerializer, NoAnswerIsWantedWithMaxTokensNought) {
  Script script({.max_tokens = 0});
  const ordered_json body = script.finish(chat::ChatFinishReason::kLength, "", {10, 0, 0}).body();
  EXPECT_EQ(body["content"], ordered_json::array());
  EXPECT_EQ(body["stop_reason"], "max_tokens");
  EXPECT_EQ(body["usage"]["output_tokens"], 0);
}

TEST(MessagesSerializer, BadArgumentsOfACallAreNoReasonToFail) {
  Script script({});
  script.say({call("f", "t1"), arguments("{\"a\": \"\xff")}).finish(chat::ChatFinishReason::kLength);
  EXPECT_EQ(script.body()["content"][0], ordered_json({{"type", "text"}, {"text", "f {\"a\": \"\xEF\xBF\xBD"}}));
}

TEST(MessagesSerializer, AFailureIsAnEventOfTheStream) {
  MessagesSerializer serializer({.stream = true});
  EXPECT_EQ(
      serializer.failure({Code::kUnavailable, "the server is stopping", {}}),
      "event: error\ndata: "
      "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"the server is stopping\"}}\n\n");
  EXPECT_EQ(serializer.stream_format().keep_alive, "event: ping\ndata: {\"type\": \"ping\"}\n\n");
  EXPECT_EQ(serializer.stream_format().content_type, "text/event-stream");
}

}  // namespace
}  // namespace cairn::api::anthropic
