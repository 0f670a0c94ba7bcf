#include "api/responses/serializer.h"
#include "api/serialization/token_json.h"
#include "base/testing/test_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::StartsWith;

chat::Part part(chat::PartKind kind, std::string text, int32_t call = -1) {
  chat::Part made;
  made.kind = kind;
  made.text = std::move(text);
  made.call = call;
  return made;
}
chat::Part text(std::string said) { return part(chat::PartKind::kContent, std::move(said)); }
chat::Part thought(std::string said) { return part(chat::PartKind::kReasoning, std::move(said)); }
chat::Part call(int32_t index, std::string name) {
  chat::Part begin = part(chat::PartKind::kCallBegin, std::move(name), index);
  begin.id = fmt::format("call_{}", index);
  return begin;
}
chat::Part arguments(int32_t index, std::string said) {
  return part(chat::PartKind::kArguments, std::move(said), index);
}
chat::Part call_end(int32_t index, chat::CallState state = chat::CallState::kWhole) {
  chat::Part end = part(chat::PartKind::kCallEnd, "", index);
  end.state = state;
  return end;
}

std::unique_ptr<tokenizer::Tokenizer> load_tokenizer() {
  const auto file = gguf::Reader::open(test_data() + "/models/llama.gguf");
  return tokenizer::Tokenizer::load(file->metadata()).value();
}

/// Answers with scripted parts.
class Script {
 public:
  explicit Script(bool stream = true, bool store = false, bool raw = false)
      : serializer_(options(stream, store, raw), running_) {
    serializer_.on_start([this] { ++cancels_; });
    bytes_ = serializer_.begin();
  }
  Script& say(const std::vector<chat::Part>& parts) {
    for (const chat::Part& part : parts) {
      bytes_ += serializer_.parts(0, std::span(&part, 1), nullptr);
      if (part.kind == chat::PartKind::kContent) turn_.content += part.text;
      if (part.kind == chat::PartKind::kCallBegin) turn_.calls.push_back({part.id, part.text, ""});
    }
    return *this;
  }
  Script& finish(chat::ChatFinishReason end = chat::ChatFinishReason::kStop) {
    chat::ChatFinish finish;
    finish.reason = end;
    finish.turn = turn_;
    finish.usage = {10, 4, 3};
    finish.reasoning_tokens = 2;
    bytes_ += serializer_.finish(0, std::move(finish));
    if (const auto work = serializer_.settle(nullptr)) work();
    bytes_ += serializer_.done();
    return *this;
  }
  Script& fail(Error error) {
    if (const auto work = serializer_.settle(&error)) work();
    bytes_ += serializer_.failure(error);
    return *this;
  }
  ordered_json body() const { return ordered_json::parse(bytes_); }
  /// Every event's data; names and numbers are checked.
  std::vector<ordered_json> events() const {
    std::vector<ordered_json> events;
    std::string_view rest = bytes_;
    while (!rest.empty()) {
      const size_t line = rest.find('\n');
      const size_t end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("event: ") && rest.substr(line + 1).starts_with("data: ") && end > line) << rest;
      auto data = ordered_json::parse(rest.substr(line + 7, end - line - 7));
      EXPECT_EQ(data["type"], rest.substr(7, line - 7));
      EXPECT_EQ(data["sequence_number"], events.size());
      events.push_back(std::move(data));
      rest.remove_prefix(end + 2);
    }
    return events;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& event : events()) names.push_back(event["type"].get<std::string>().substr(9));  // "response."
    return names;
  }

  RunningResponses running_;
  bool keeps_ = true;
  std::vector<ordered_json> kept_;
  int cancels_ = 0;

 private:
  ResponseOptions options(bool stream, bool store, bool raw) {
    ResponseOptions options;
    options.id = "resp_1";
    options.model = "m";
    options.stream = stream;
    options.echo = {{"store", store}, {"metadata", {{"a", "b"}}}};
    options.tenant = "me";
    options.store = store;
    options.raw_reasoning = raw;
    options.tools = {{"mcp__note__add", {ToolKind::kFunction, "mcp__note", "add"}},
                     {"apply_patch", {ToolKind::kCustom, "", "apply_patch"}},
                     {"tool_search", {ToolKind::kSearch, "", "tool_search"}}};
    options.keep = [this](const ordered_json& response) {
      kept_.push_back(response);
      return keeps_;
    };
    return options;
  }

  ResponsesSerializer serializer_;
  chat::ChatTurn turn_;
  std::string bytes_;
};

TEST(ResponsesSerializer, AText) {
  Script script;
  script.say({text("Hel"), text("lo")}).finish();
  EXPECT_THAT(script.names(), ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                                          "output_text.delta", "output_text.delta", "output_text.done",
                                          "content_part.done", "output_item.done", "completed"));
  const auto events = script.events();
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], ordered_json::array());
  EXPECT_EQ(events[0]["response"]["usage"], nullptr);
  const std::string id = events[2]["item"]["id"];
  EXPECT_THAT(id, StartsWith("msg_"));
  EXPECT_EQ(events[2]["item"]["status"], "in_progress");
  EXPECT_EQ(events[2]["item"]["content"], ordered_json::array());
  for (size_t i = 3; i <= 7; ++i) {
    EXPECT_EQ(events[i]["item_id"], id);
    EXPECT_EQ(events[i]["output_index"], 0);
    EXPECT_EQ(events[i]["content_index"], 0);
  }
  EXPECT_EQ(events[3]["part"]["text"], "");
  EXPECT_EQ(events[4]["delta"], "Hel");
  EXPECT_EQ(events[6]["text"], "Hello");
  const auto& last = events.back()["response"];
  EXPECT_EQ(last["id"], "resp_1");
  EXPECT_EQ(last["status"], "completed");
  EXPECT_EQ(last["metadata"]["a"], "b");
  EXPECT_EQ(last["output"], ordered_json::array({events[8]["item"]}));
  EXPECT_EQ(last["output"][0]["content"],
            ordered_json::parse(R"([{"type":"output_text","annotations":[],"logprobs":[],"text":"Hello"}])"));
  EXPECT_EQ(last["usage"], ordered_json::parse(R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":3},
      "output_tokens":4,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":14})"));
  EXPECT_EQ(last["timings"]["cache_n"], 3);
  EXPECT_TRUE(script.kept_.empty());
}

TEST(ResponsesSerializer, ThinkingThenText) {
  Script script;
  script.say({thought("Let me"), thought(" see."), text("Yes.")}).finish();
  EXPECT_THAT(script.names(),
              ElementsAreArray({"created", "in_progress", "output_item.added", "reasoning_summary_part.added",
                                "reasoning_summary_text.delta", "reasoning_summary_text.delta",
                                "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
                                "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
                                "content_part.done", "output_item.done", "completed"}));
  const auto events = script.events();
  EXPECT_EQ(events[3]["part"], ordered_json::parse(R"({"type":"summary_text","text":""})"));
  EXPECT_EQ(events[4]["summary_index"], 0);
  EXPECT_FALSE(events[4].contains("content_index"));
  EXPECT_EQ(events[6]["text"], "Let me see.");
  EXPECT_EQ(events[9]["output_index"], 1);
  const auto& output = events.back()["response"]["output"];
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_THAT(output[0]["id"].get<std::string>(), StartsWith("rs_"));
  EXPECT_EQ(output[0]["summary"], ordered_json::parse(R"([{"type":"summary_text","text":"Let me see."}])"));
  EXPECT_FALSE(output[0].contains("content"));
  EXPECT_EQ(output[1]["content"][0]["text"], "Yes.");
}

TEST(ResponsesSerializer, ThinkingAsItIs) {
  Script script(true, false, true);
  script.say({thought("Let me see.")}).finish();
  const auto events = script.events();
  EXPECT_EQ(events[3]["type"], "response.content_part.added");
  EXPECT_EQ(events[4]["type"], "response.reasoning_text.delta");
  EXPECT_EQ(events[4]["content_index"], 0);
  const auto& item = events.back()["response"]["output"][0];
  EXPECT_EQ(item["summary"], ordered_json::array());
  EXPECT_EQ(item["content"], ordered_json::parse(R"([{"type":"reasoning_text","text":"Let me see."}])"));
}

TEST(ResponsesSerializer, ACallOfANamespace) {
  Script script;
  script.say({call(0, "mcp__note__add"), arguments(0, "{}"), call_end(0)}).finish(chat::ChatFinishReason::kToolCalls);
  const auto events = script.events();
  for (const auto& item : {events[2]["item"], events.back()["response"]["output"][0]}) {
    EXPECT_EQ(item["type"], "function_call");
    EXPECT_EQ(item["namespace"], "mcp__note");
    EXPECT_EQ(item["name"], "add");
  }
}

TEST(ResponsesSerializer, ACallOfACustomTool) {
  Script script;
  script
      .say({call(0, "apply_patch"), arguments(0, "{\"input\""), arguments(0, ": \"*** Begin\\"), arguments(0, "n\\\"x"),
            arguments(0, "\"}"), call_end(0)})
      .finish(chat::ChatFinishReason::kToolCalls);
  EXPECT_THAT(script.names(), ElementsAre("created", "in_progress", "output_item.added", "custom_tool_call_input.delta",
                                          "custom_tool_call_input.delta", "custom_tool_call_input.done",
                                          "output_item.done", "completed"));
  const auto events = script.events();
  EXPECT_EQ(events[2]["item"]["type"], "custom_tool_call");
  EXPECT_EQ(events[3]["delta"], "*** Begin");
  EXPECT_EQ(events[4]["delta"], "\n\"x");
  EXPECT_EQ(events[5]["input"], "*** Begin\n\"x");
  const auto& item = events.back()["response"]["output"][0];
  EXPECT_THAT(item["id"].get<std::string>(), StartsWith("ctc_"));
  EXPECT_EQ(item["name"], "apply_patch");
  EXPECT_EQ(item["call_id"], "call_0");
  EXPECT_EQ(item["input"], "*** Begin\n\"x");
  EXPECT_EQ(item["status"], "completed");
  // What comes in another shape is the input as it stands.
  Script other(false);
  other.say({call(0, "apply_patch"), arguments(0, "*** Begin"), call_end(0, chat::CallState::kBroken)}).finish();
  EXPECT_EQ(other.body()["output"][0]["input"], "*** Begin");
}

TEST(ResponsesSerializer, ASearchOfTheClient) {
  Script script;
  script.say({call(0, "tool_search"), arguments(0, "{\"query\":"), arguments(0, "\"db\"}"), call_end(0)})
      .finish(chat::ChatFinishReason::kToolCalls);
  EXPECT_THAT(script.names(),
              ElementsAre("created", "in_progress", "output_item.added", "output_item.done", "completed"));
  const auto item = script.events()[3]["item"];
  EXPECT_EQ(item["type"], "tool_search_call");
  EXPECT_EQ(item["execution"], "client");
  EXPECT_EQ(item["call_id"], "call_0");
  EXPECT_EQ(item["arguments"], ordered_json::parse(R"({"query":"db"})"));
}

TEST(ResponsesSerializer, TwoCalls) {
  Script script;
  script
      .say({call(0, "f"), arguments(0, "{\"a\""), arguments(0, ":1}"), call_end(0), call(1, "g"), arguments(1, "{}"),
            call_end(1)})
      .finish(chat::ChatFinishReason::kToolCalls);
  EXPECT_THAT(script.names(),
              ElementsAreArray({"created", "in_progress", "output_item.added", "function_call_arguments.delta",
                                "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
                                "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
                                "output_item.done", "completed"}));
  const auto events = script.events();
  EXPECT_EQ(events[2]["item"]["arguments"], "");
  EXPECT_EQ(events[2]["item"]["call_id"], "call_0");
  EXPECT_FALSE(events[3].contains("content_index"));
  EXPECT_EQ(events[5]["arguments"], "{\"a\":1}");
  const auto& output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 2u);
  EXPECT_THAT(output[0]["id"].get<std::string>(), StartsWith("fc_"));
  EXPECT_EQ(output[0]["status"], "completed");
  EXPECT_EQ(output[0]["name"], "f");
  EXPECT_EQ(output[0]["arguments"], "{\"a\":1}");
  EXPECT_EQ(output[1]["name"], "g");
  EXPECT_EQ(output[1]["call_id"], "call_1");
  EXPECT_EQ(events.back()["response"]["status"], "completed");
}

TEST(ResponsesSerializer, TextAroundACallThatIsBroken) {
  Script script(false);
  script.say({text("A"), call(0, "f"), arguments(0, "{}"), call_end(0, chat::CallState::kBroken), text("B")}).finish();
  const auto body = script.body();
  ASSERT_EQ(body["output"].size(), 3u);
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "A");
  EXPECT_EQ(body["output"][1]["status"], "incomplete");
  EXPECT_EQ(body["output"][2]["content"][0]["text"], "B");
  EXPECT_EQ(body["status"], "completed");
}

TEST(ResponsesSerializer, ACallThatIsCutStaysSoInEveryEvent) {
  Script script;
  script.say({call(0, "f"), arguments(0, "{\"a\": \"x"), call_end(0, chat::CallState::kCut)});
  script.finish(chat::ChatFinishReason::kCutCall);
  for (const auto& event : script.events()) {
    if (event["type"] == "response.function_call_arguments.done") {
      EXPECT_EQ(event["arguments"], "{\"a\": \"x");
    }
    if (event["type"] != "response.output_item.done") continue;
    EXPECT_EQ(event["item"]["arguments"], "{\"a\": \"x");
    EXPECT_EQ(event["item"]["status"], "incomplete");
  }
  const auto response = script.events().back()["response"];
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["arguments"], "{\"a\": \"x");
}

TEST(ResponsesSerializer, AnAnswerThatWasCut) {
  Script script;
  script.say({text("Hel")}).finish(chat::ChatFinishReason::kLength);
  EXPECT_EQ(script.names().back(), "incomplete");
  const auto response = script.events().back()["response"];
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");

  Script circles(false);
  circles.say({text("x")}).finish(chat::ChatFinishReason::kRepetition);
  EXPECT_EQ(circles.body()["incomplete_details"]["reason"], "repetition");

  Script thinking(false);
  thinking.say({thought("Hm")}).finish(chat::ChatFinishReason::kLength);
  EXPECT_EQ(thinking.body()["output"].size(), 1u);
}

TEST(ResponsesSerializer, AnAnswerOfNoWordsIsAMessage) {
  Script script;
  script.say({thought("Hm")}).finish();
  const auto output = script.events().back()["response"]["output"];
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[1]["content"][0]["text"], "");
  EXPECT_EQ(output[1]["status"], "completed");
}

TEST(ResponsesSerializer, AFailure) {
  Script script(true, true);
  script.say({text("Hel")}).fail({Code::kUnavailable, "the server is stopping", {}});
  EXPECT_THAT(script.names(),
              ElementsAre("created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
                          "output_text.done", "content_part.done", "output_item.done", "failed"));
  const auto response = script.events().back()["response"];
  EXPECT_EQ(response["status"], "failed");
  EXPECT_EQ(response["error"]["code"], "server_error");
  EXPECT_EQ(response["error"]["message"], "the server is stopping");
  ASSERT_EQ(script.kept_.size(), 1u);
  EXPECT_EQ(script.kept_[0], response);
}

TEST(ResponsesSerializer, IsKeptOnceBeforeItsEndIsTold) {
  Script script(true, true);
  script.say({text("Hi")}).finish();
  ASSERT_EQ(script.kept_.size(), 1u);
  EXPECT_EQ(script.kept_[0], script.events().back()["response"]);
  EXPECT_EQ(script.running_.find("me", "resp_1"), nullptr);

  Script full(false, true);
  full.keeps_ = false;
  full.say({text("Hi")}).finish();
  EXPECT_EQ(full.body()["store"], false);
}

TEST(ResponsesSerializer, IsFoundAndCancelledByItsTenant) {
  Script script(true, true);
  script.say({text("Hel")});
  EXPECT_EQ(script.running_.find("you", "resp_1"), nullptr);
  EXPECT_EQ(script.running_.find("me", "resp_2"), nullptr);
  RunningResponse* running = script.running_.find("me", "resp_1");
  ASSERT_NE(running, nullptr);
  EXPECT_EQ(running->now()["status"], "in_progress");
  const ordered_json cancelled = running->cancel();
  EXPECT_EQ(cancelled["status"], "cancelled");
  EXPECT_EQ(cancelled["output"][0]["content"][0]["text"], "Hel");
  EXPECT_EQ(cancelled["output"][0]["status"], "incomplete");
  EXPECT_EQ(script.cancels_, 1);
  EXPECT_EQ(running->cancel(), cancelled);  // once is enough
  EXPECT_EQ(script.cancels_, 1);
  script.say({text("lo")}).fail({Code::kCancelled, "cancelled", {}});
  EXPECT_THAT(script.names(),
              ElementsAre("created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
                          "output_text.done", "content_part.done", "output_item.done", "incomplete"));
  EXPECT_EQ(script.events().back()["response"], cancelled);
  ASSERT_EQ(script.kept_.size(), 1u);
}

TEST(ResponsesSerializer, LogProbabilitiesAreTheTextsOwn) {
  const auto tokenizer = load_tokenizer();
  RunningResponses running;
  ResponsesSerializer serializer({.id = "resp_1", .stream = true, .tokenizer = tokenizer.get()}, running);
  std::string bytes = serializer.begin();
  const auto say = [&](int id, std::string_view token, const std::vector<chat::Part>& parts) {
    engine::TokenEvent event;
    event.token = TokenId{id};
    event.text = token;
    event.logprob = -static_cast<float>(id);
    event.top = {{TokenId{id}, -0.5f}, {TokenId{300}, -2.0f}};
    bytes += serializer.parts(0, parts, &event);
  };
  say(301, "<think>", {});
  say(302, "Hm</think>", {thought("Hm")});
  say(303, "A", {text("A")});
  say(304, " <", {text(" ")});
  say(305, "b", {text("<b")});
  say(306, "<tool", {});
  say(307, "_call>{}", {call(0, "f"), arguments(0, "{}")});
  say(308, "</tool_call>C", {call_end(0), text("C")});
  bytes += serializer.finish(0, {});
  bytes += serializer.done();

  const auto ids = [](const ordered_json& entries) {
    std::vector<int> found;
    for (const auto& entry : entries) found.push_back(-entry["logprob"].get<int>());
    return found;
  };
  std::vector<std::vector<int>> deltas, whole;
  ordered_json last;
  for (size_t at = bytes.find("data: "); at != std::string::npos; at = bytes.find("data: ", at + 1)) {
    const auto event = ordered_json::parse(bytes.substr(at + 6, bytes.find('\n', at) - at - 6));
    if (event["type"] == "response.output_text.delta") deltas.push_back(ids(event["logprobs"]));
    if (event["type"] == "response.output_text.done") whole.push_back(ids(event["logprobs"]));
    if (event["type"] == "response.content_part.added" && event["part"]["type"] == "output_text") {
      EXPECT_EQ(event["part"]["logprobs"], ordered_json::array());
    }
    if (event["type"] == "response.completed") last = event["response"]["output"];
  }
  EXPECT_THAT(deltas, ElementsAre(ElementsAre(303), ElementsAre(304), ElementsAre(305), ElementsAre(308)));
  EXPECT_THAT(whole, ElementsAre(ElementsAre(303, 304, 305), ElementsAre(308)));
  ASSERT_EQ(last.size(), 4u);
  EXPECT_FALSE(last[0]["summary"][0].contains("logprobs"));
  EXPECT_THAT(ids(last[1]["content"][0]["logprobs"]), ElementsAre(303, 304, 305));
  EXPECT_THAT(ids(last[3]["content"][0]["logprobs"]), ElementsAre(308));
  const auto& entry = last[1]["content"][0]["logprobs"][0];
  EXPECT_EQ(entry["token"], token_text(*tokenizer, TokenId{303}));
  EXPECT_EQ(entry["bytes"].size(), tokenizer->piece(TokenId{303}, true).size());
  ASSERT_EQ(entry["top_logprobs"].size(), 2u);
  EXPECT_EQ(entry["top_logprobs"][1]["logprob"], -2.0);
}

TEST(ResponsesSerializer, IsNotFoundOnceItIsGone) {
  RunningResponses running;
  {
    ResponsesSerializer serializer({.id = "resp_1", .tenant = "me"}, running);
    EXPECT_EQ(running.find("me", "resp_1"), nullptr) << "it has not begun";
    serializer.on_start([] {});
    EXPECT_NE(running.find("me", "resp_1"), nullptr);
  }
  EXPECT_EQ(running.find("me", "resp_1"), nullptr);
}

}  // namespace
}  // namespace cairn::api::responses
