#include "api/responses/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat/messages.h"
#include "api/params/request_notes.h"
#include "api/responses/transcript.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

ordered_json json(const char* text) { return ordered_json::parse(text); }

/// A store with one response, resp_a, and one item, msg_a.
StoredItems one_response() {
  const auto not_found = [](const std::string& id) { return fail(Code::kNotFound, "no \"{}\" is stored", id); };
  return {.history = [=](const std::string& id) -> Result<ordered_json> {
            if (id != "resp_a") return not_found(id);
            return json(R"([{"type":"message","id":"m1","role":"user","content":[{"type":"input_text","text":"One?"}]},
                            {"type":"message","id":"msg_a","role":"assistant","status":"completed",
                             "content":[{"type":"output_text","text":"Two.","annotations":[]}]}])");
          },
          .item = [=](const std::string& id) -> Result<ordered_json> {
            if (id != "msg_a") return not_found(id);
            return json(R"({"type":"message","id":"msg_a","role":"assistant","content":[]})");
          }};
}

ResponsesRequest parsed(const ordered_json& body, const StoredItems& stored = {}) {
  auto request = parse_responses(body, stored);
  EXPECT_TRUE(request.has_value()) << request.error().text();
  return request ? std::move(*request) : ResponsesRequest{};
}

ordered_json messages(const ordered_json& input) { return parsed({{"input", input}}).chat.input.messages; }

struct Bad {
  const char* body;
  const char* at;
  const char* words;
};
void expect_refused(const Bad& bad, const StoredItems& stored = {}) {
  const RequestNotes strict(true);
  const auto request = parse_responses(json(bad.body), stored);
  ASSERT_FALSE(request.has_value()) << bad.body;
  EXPECT_EQ(request.error().at, bad.at) << bad.body;
  EXPECT_THAT(request.error().message, HasSubstr(bad.words)) << bad.body;
}

TEST(ResponsesRequest, AStringIsTheUsersMessage) {
  const auto request = parsed(json(R"({"model":"m","input":"Hello!","instructions":"Be brief.","stream":true,
                                       "max_output_tokens":7,"temperature":0.7,"metadata":{"target_ttft_ms":"250"}})"));
  EXPECT_EQ(request.chat.model, "m");
  EXPECT_TRUE(request.chat.stream);
  EXPECT_EQ(request.chat.generate.max_tokens, 7);
  EXPECT_EQ(request.chat.generate.target_ttft, std::chrono::milliseconds(250));
  EXPECT_EQ(request.chat.input.messages,
            json(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hello!"}])"));
  EXPECT_TRUE(request.chat.input.tools.is_null());
  EXPECT_FALSE(request.store);
  EXPECT_EQ(request.echo["temperature"].dump(), "0.7");
  EXPECT_EQ(request.echo["max_output_tokens"], 7);
  EXPECT_EQ(request.echo["instructions"], "Be brief.");
  EXPECT_EQ(request.echo["store"], false);
  EXPECT_EQ(request.echo["metadata"]["target_ttft_ms"], "250");
}

TEST(ResponsesRequest, MessagesOfEveryRole) {
  EXPECT_EQ(messages(json(R"([{"role":"developer","content":"A"},
                              {"type":"message","role":"system","content":[{"type":"input_text","text":"B"}]},
                              {"role":"user","content":[{"type":"input_text","text":"C"},{"type":"input_text","text":"D"}]},
                              {"role":"assistant","content":[{"type":"output_text","text":"E","annotations":[]},
                                                             {"type":"refusal","refusal":"F"}],"status":"completed"},
                              {"role":"user","content":[]}])")),
            json(R"([{"role":"system","content":"A"},{"role":"system","content":"B"},
                     {"role":"user","content":[{"type":"text","text":"C"},{"type":"text","text":"D"}]},
                     {"role":"assistant","content":"EF"},{"role":"user","content":""}])"));
}

TEST(ResponsesRequest, ATurnOfTheAssistantIsOneMessage) {
  EXPECT_EQ(messages(json(R"([
              {"role":"user","content":"Weather?"},
              {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Look it up."}],
               "encrypted_content":null},
              {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Wait. "}]},
              {"type":"function_call","call_id":"a","name":"weather","arguments":"{\"city\":\"Bern\"}"},
              {"type":"function_call","call_id":"b","name":"weather","arguments":"not json"},
              {"type":"function_call_output","call_id":"a","output":"sun"},
              {"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"rain"}]},
              {"type":"reasoning","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}]},
              {"role":"assistant","content":"Sun."},
              {"role":"assistant","content":"And rain."}])")),
            json(R"([
              {"role":"user","content":"Weather?"},
              {"role":"assistant","content":"Wait. ","reasoning_content":"Look it up.","tool_calls":[
                {"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}},
                {"id":"b","type":"function","function":{"name":"weather","arguments":"not json"}}]},
              {"role":"tool","tool_call_id":"a","content":"sun"},
              {"role":"tool","tool_call_id":"b","content":"rain"},
              {"role":"assistant","content":"Sun.","reasoning_content":"One.\n\nTwo."},
              {"role":"assistant","content":"And rain."}])"));
}

TEST(ResponsesRequest, TextAfterACallIsOfTheSameTurn) {
  EXPECT_EQ(messages(json(R"([{"role":"assistant","content":"A"},
                              {"type":"function_call","call_id":"a","name":"f","arguments":null},
                              {"role":"assistant","content":"B"},
                              {"role":"user","content":"No output, and yet we go on."},
                              {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                              {"type":"function_call_output","call_id":"a","output":"x"}])")),
            json(R"([{"role":"assistant","content":"AB","tool_calls":[
                       {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                     {"role":"user","content":"No output, and yet we go on."},
                     {"role":"assistant","content":"","tool_calls":[
                       {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                     {"role":"tool","tool_call_id":"a","content":"x"}])"));
}

TEST(ResponsesRequest, WhatOtherToolsLeftIsLeftOut) {
  const auto request = parsed(json(R"({"input":[{"role":"user","content":"Hi"},
      {"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}},
      {"type":"local_shell_call","call_id":"l","status":"completed","action":{"type":"exec","command":["ls"],"env":{}}},
      {"type":"reasoning","summary":[],"content":null,"encrypted_content":"gAAAA"}],
    "tools":[{"type":"local_shell"},{"type":"web_search"},{"type":"custom","name":"apply_patch","format":{}},
             {"type":"function","name":"shell","description":null,"strict":false,
              "parameters":{"type":"object","properties":{"command":{"type":"array"}}}},
             {"type":"function","name":"plan"}],
    "tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"low","summary":"auto"},
    "store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k",
    "client_metadata":{"a":"b"},"text":{"verbosity":"low"}})"));
  EXPECT_THAT(request.left_out,
              ElementsAre("custom", "local_shell", "local_shell_call", "web_search", "web_search_call"));
  EXPECT_EQ(request.chat.input.messages, json(R"([{"role":"user","content":"Hi"}])"));
  EXPECT_EQ(request.chat.input.tools, json(R"([{"type":"function","function":{"name":"shell","description":"",
                      "parameters":{"type":"object","properties":{"command":{"type":"array"}}}}},
                     {"type":"function","function":{"name":"plan","description":"",
                      "parameters":{"type":"object","properties":{}}}}])"));
  EXPECT_FALSE(request.chat.parallel_calls);
  EXPECT_EQ(request.chat.reasoning.effort, "low");
  EXPECT_TRUE(request.encrypted_reasoning);
  EXPECT_EQ(request.echo["tools"].size(), 5u);
  EXPECT_EQ(request.echo["prompt_cache_key"], "k");
  EXPECT_EQ(request.echo["text"]["verbosity"], "low");
  EXPECT_EQ(request.echo["text"]["format"]["type"], "text");
}

TEST(ResponsesRequest, ToolChoice) {
  const auto chosen = [](const char* choice) {
    return parsed(
               {{"input", "x"}, {"tools", json(R"([{"type":"function","name":"f"}])")}, {"tool_choice", json(choice)}})
        .chat;
  };
  EXPECT_EQ(chosen("\"none\"").tool_use, ToolUse::kNone);
  EXPECT_EQ(chosen("\"auto\"").tool_use, ToolUse::kAuto);
  EXPECT_EQ(chosen("\"required\"").tool_use, ToolUse::kRequired);
  EXPECT_EQ(chosen(R"({"type":"function","name":"f"})").tool_use, ToolUse::kRequired);
  EXPECT_EQ(chosen(R"({"type":"function","name":"f"})").tool_name, "f");
  EXPECT_EQ(chosen(R"({"type":"web_search"})").tool_use, ToolUse::kAuto);
}

TEST(ResponsesRequest, GoesOnFromWhatIsStored) {
  const auto request = parsed(json(R"({"previous_response_id":"resp_a","instructions":"New.",
                                       "input":[{"type":"item_reference","id":"msg_a"},{"id":"msg_a"},
                                                {"role":"user","content":"Three?"}]})"),
                              one_response());
  EXPECT_EQ(request.chat.input.messages, json(R"([{"role":"system","content":"New."},{"role":"user","content":"One?"},
                     {"role":"assistant","content":"Two."},{"role":"assistant","content":""},
                     {"role":"assistant","content":""},{"role":"user","content":"Three?"}])"));
  EXPECT_TRUE(request.store);
  EXPECT_EQ(request.previous_id, "resp_a");
  // Only the request's own items, whole.
  ASSERT_EQ(request.input.size(), 3u);
  EXPECT_EQ(request.input[0]["id"], "msg_a");
  EXPECT_THAT(request.input[2]["id"].get<std::string>(), StartsWith("msg_"));
  EXPECT_EQ(request.input[2]["type"], "message");
  EXPECT_EQ(request.input[2]["content"], json(R"([{"type":"input_text","text":"Three?"}])"));

  const auto only = parsed(json(R"({"previous_response_id":"resp_a","store":false})"), one_response());
  EXPECT_FALSE(only.store);
  EXPECT_TRUE(only.input.empty());
  EXPECT_EQ(only.chat.input.messages.size(), 2u);
}

TEST(ResponsesRequest, WhatIsNotStoredIsNotFound) {
  const auto request = parse_responses(json(R"({"previous_response_id":"resp_b","input":"x"})"), one_response());
  ASSERT_FALSE(request.has_value());
  EXPECT_EQ(request.error().code, Code::kNotFound);
  EXPECT_EQ(request.error().at, "previous_response_id");
  expect_refused({R"({"input":[{"type":"item_reference","id":"msg_b"}]})", "input[0].id", "is stored"}, one_response());
}

TEST(ResponsesRequest, LogProbabilitiesAreAskedForInTwoWays) {
  const auto sampling = [](const char* body) { return parsed(json(body)).chat.generate.sampling; };
  EXPECT_FALSE(sampling(R"({"input":"x"})").logprobs);
  EXPECT_FALSE(sampling(R"({"input":"x","top_logprobs":0,"include":["reasoning.encrypted_content"]})").logprobs);
  const auto included = sampling(R"({"input":"x","include":["message.output_text.logprobs"]})");
  EXPECT_TRUE(included.logprobs);
  EXPECT_EQ(included.top_logprobs, 0);
  const auto top = sampling(R"({"input":"x","top_logprobs":20})");
  EXPECT_TRUE(top.logprobs);
  EXPECT_EQ(top.top_logprobs, 20);
  EXPECT_EQ(parsed(json(R"({"input":"x","top_logprobs":3})")).echo["top_logprobs"], 3);
  EXPECT_EQ(parsed(json(R"({"input":"x"})")).echo["top_logprobs"], 0);
}

TEST(ResponsesRequest, EveryBadFieldIsNamed) {
  for (const Bad& bad : std::initializer_list<Bad>{
           {R"({})", "input", "is missing"},
           {R"({"input":[]})", "input", "nothing to answer"},
           {R"({"input":5})", "input", "must be a string or an array of items, not a number"},
           {R"({"input":"a\u0000b"})", "input", "NUL"},
           {R"({"input":"x","instructions":"a\u0000"})", "instructions", "NUL"},
           {R"({"input":"x","instructions":[]})", "instructions", "must be a string"},
           {R"({"input":"x","messages":[]})", "messages", "not a known field"},
           {R"({"input":"x","max_output_tokens":0})", "max_output_tokens", "must be 1 or more"},
           {R"({"input":"x","top_logprobs":21})", "top_logprobs", "from 0 to 20"},
           {R"({"input":"x","top_logprobs":true})", "top_logprobs", "must be an integer"},
           {R"({"input":"x","include":"x"})", "include", "array of strings"},
           {R"({"input":"x","include":[1]})", "include", "array of strings"},
           {R"({"input":"x","reasoning":"high"})", "reasoning", "must be an object, not a string"},
           {R"({"input":"x","reasoning":{"effort":"huge"}})", "reasoning.effort", "not \"huge\""},
           {R"({"input":"x","reasoning":{"budget":1}})", "reasoning.budget", "not a known field"},
           {R"({"input":"x","reasoning_effort":"huge"})", "reasoning_effort", "not \"huge\""},
           {R"({"input":"x","text":{"format":{"type":"json_schema"}}})", "text.format", "not supported"},
           {R"({"input":"x","text":[]})", "text", "must be an object"},
           {R"({"input":"x","stream_options":{"x":1}})", "stream_options.x", "not a known field"},
           {R"({"input":"x","truncation":"middle"})", "truncation", "must be \"disabled\""},
           {R"({"input":"x","background":true})", "background", "not supported"},
           {R"({"input":"x","prompt":{"id":"p"}})", "prompt", "not supported"},
           {R"({"input":"x","conversation":"c"})", "conversation", "not supported"},
           {R"({"input":"x","metadata":"m"})", "metadata", "must be an object"},
           {R"({"input":"x","chat_template_kwargs":1})", "chat_template_kwargs", "must be an object"},
           {R"({"input":"x","store":true})", "store", "--store PATH"},
           {R"({"input":"x","previous_response_id":"r"})", "previous_response_id", "--store PATH"},
           {R"({"input":[{"type":"item_reference","id":"m"}]})", "input[0].id", "--store PATH"},
           {R"({"input":[{"type":"item_reference"}]})", "input[0].id", "is missing"},
       })
    expect_refused(bad);
}

TEST(ResponsesRequest, EveryBadItemIsNamed) {
  for (const Bad& bad : std::initializer_list<Bad>{
           {R"({"input":["x"]})", "input[0]", "must be an object, not a string"},
           {R"({"input":[{}]})", "input[0].type", "is missing"},
           {R"({"input":[{"type":7}]})", "input[0].type", "is missing or not a string"},
           {R"({"input":[{"role":"user","content":"a"},{"type":"compaction"}]})", "input[1].type", "\"compaction\""},
           {R"({"input":[{"type":"message"}]})", "input[0].role", "is missing"},
           {R"({"input":[{"role":"tool","content":"x"}]})", "input[0].role", "\"tool\" is not one of"},
           {R"({"input":[{"role":"user"}]})", "input[0].content", "is missing"},
           {R"({"input":[{"role":"user","content":1}]})", "input[0].content", "must be a string or an array"},
           {R"({"input":[{"role":"user","content":["x"]}]})", "input[0].content[0]", "must be an object with a type"},
           {R"({"input":[{"role":"user","content":[{"type":"input_text"}]}]})", "input[0].content[0].text",
            "must be a string"},
           {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})",
            "input[0].content[0].type", "\"input_image\" is not supported"},
           {R"({"input":[{"role":"user","content":"a\u0000"}]})", "input[0].content", "NUL"},
           {R"({"input":[{"type":"reasoning","summary":1}]})", "input[0].summary", "must be a string or an array"},
           {R"({"input":[{"type":"function_call","name":"f"}]})", "input[0].call_id", "is missing"},
           {R"({"input":[{"type":"function_call","call_id":"","name":"f"}]})", "input[0].call_id", "is empty"},
           {R"({"input":[{"type":"function_call","call_id":"a"}]})", "input[0].name", "is missing"},
           {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":[]}]})", "input[0].arguments",
            "must be a string of JSON, not an array"},
           {R"({"input":[{"type":"function_call","call_id":"a","name":"f"},
                         {"type":"function_call","call_id":"a","name":"f"}]})",
            "input[1].call_id", "another call of this turn"},
           {R"({"input":[{"type":"function_call_output","call_id":"a","output":"x"}]})", "input[0].call_id",
            "no function_call before it"},
           {R"({"input":[{"type":"function_call","call_id":"a","name":"f"},
                         {"type":"function_call_output","call_id":"a"}]})",
            "input[1].output", "is missing"},
           {R"({"input":[{"type":"function_call","call_id":"a","name":"f"},
                         {"type":"function_call_output","call_id":"a","output":[{"type":"input_image"}]}]})",
            "input[1].output[0].type", "\"input_image\""},
           {R"({"input":[{"type":"function_call","call_id":"a","name":"f"},
                         {"type":"function_call_output","call_id":"a","output":"x"},
                         {"type":"function_call_output","call_id":"a","output":"x"}]})",
            "input[2].call_id", "has an output already"},
       })
    expect_refused(bad);
}

TEST(ResponsesRequest, EveryBadToolIsNamed) {
  for (const Bad& bad : std::initializer_list<Bad>{
           {R"({"input":"x","tools":{}})", "tools", "must be an array"},
           {R"({"input":"x","tools":[1]})", "tools[0]", "must be an object"},
           {R"({"input":"x","tools":[{"name":"f"}]})", "tools[0].type", "is missing"},
           {R"({"input":"x","tools":[{"type":"function"}]})", "tools[0].name", "1 to 256 bytes"},
           {R"({"input":"x","tools":[{"type":"function","function":{"name":"f"}}]})", "tools[0].name",
            "1 to 256 bytes"},
           {R"({"input":"x","tools":[{"type":"function","name":"f","description":1}]})", "tools[0].description",
            "must be a string"},
           {R"({"input":"x","tools":[{"type":"function","name":"f","parameters":[]}]})", "tools[0].parameters",
            "must be an object, not an array"},
           {R"({"input":"x","tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]})", "tools[1].name",
            "another tool"},
           {R"({"input":"x","tools":[{"type":"web_search","x":"\u0000"}]})", "tools[0].x", "NUL"},
           {R"({"input":"x","tool_choice":"required","tools":[{"type":"web_search"}]})", "tool_choice",
            "no functions among the tools"},
           {R"({"input":"x","tool_choice":"some"})", "tool_choice", "must be \"none\""},
           {R"({"input":"x","tool_choice":{"type":"function"}})", "tool_choice.name", "is missing"},
           {R"({"input":"x","tool_choice":{"type":"function","name":"g"}})", "tool_choice.name", "none of the tools"},
       })
    expect_refused(bad);
}

TEST(ResponsesRequest, AConversationHasABound) {
  ordered_json items = ordered_json::array();
  for (size_t i = 0; i < kItemsMax; ++i) items.push_back({{"role", "user"}, {"content", "x"}});
  EXPECT_EQ(messages(items).size(), kItemsMax);
  const auto with_history = parse_responses({{"input", items}, {"previous_response_id", "resp_a"}}, one_response());
  ASSERT_FALSE(with_history.has_value());
  EXPECT_EQ(with_history.error().code, Code::kTooLarge);
  items.push_back(items[0]);
  const auto more = parse_responses({{"input", items}}, {});
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, Code::kTooLarge);

  ordered_json calls = ordered_json::array();
  for (size_t i = 0; i <= kHistoryCallsMax; ++i)
    calls.push_back({{"type", "function_call"}, {"call_id", std::to_string(i)}, {"name", "f"}});
  const auto many = parse_responses({{"input", calls}}, {});
  ASSERT_FALSE(many.has_value());
  EXPECT_EQ(many.error().at, fmt::format("input[{}]", kHistoryCallsMax));
}

}  // namespace
}  // namespace cairn::api::responses
