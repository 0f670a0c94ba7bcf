#include "api/responses/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat/messages.h"
#include "api/params/request_context.h"
#include "api/responses/transcript.h"
#include "api/serialization/json_text.h"

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

ResponsesRequest parsed(const ordered_json& body, const StoredItems& stored = one_response()) {
  RequestContext context;
  auto request = parse_responses(context, body, stored);
  EXPECT_TRUE(request.has_value()) << request.error().text();
  return request ? std::move(*request) : ResponsesRequest{};
}

ordered_json messages(const ordered_json& input) { return parsed({{"input", input}}).chat.input.messages; }

struct Bad {
  const char* body;
  const char* at;
  const char* words;
};
void expect_refused(const Bad& bad, const StoredItems& stored = one_response()) {
  RequestContext context({.strict_fields = true});
  const auto request = parse_responses(context, json(bad.body), stored);
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
  EXPECT_TRUE(request.store);
  EXPECT_EQ(request.echo["temperature"].dump(), "0.7");
  EXPECT_EQ(request.echo["max_output_tokens"], 7);
  EXPECT_EQ(request.echo["instructions"], "Be brief.");
  EXPECT_EQ(request.echo["store"], true);
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
      {"type":"context_compaction","encrypted_content":"gAAAA"},
      {"type":"reasoning","summary":[],"content":null,"encrypted_content":"gAAAA"}],
    "tools":[{"type":"local_shell"},{"type":"web_search"},
             {"type":"function","name":"shell","description":null,"strict":false,
              "parameters":{"type":"object","properties":{"command":{"type":"array"}}}},
             {"type":"function","name":"plan"}],
    "tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"low","summary":"auto"},
    "store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k",
    "client_metadata":{"a":"b"},"text":{"verbosity":"low"}})"));
  EXPECT_THAT(request.left_out,
              ElementsAre("context_compaction", "local_shell", "local_shell_call", "web_search", "web_search_call"));
  EXPECT_EQ(request.chat.input.messages, json(R"([{"role":"user","content":"Hi"}])"));
  EXPECT_EQ(request.chat.input.tools, json(R"([{"type":"function","function":{"name":"shell","description":"",
                      "parameters":{"type":"object","properties":{"command":{"type":"array"}}}}},
                     {"type":"function","function":{"name":"plan","description":"",
                      "parameters":{"type":"object","properties":{}}}}])"));
  EXPECT_FALSE(request.chat.parallel_calls);
  EXPECT_EQ(request.chat.reasoning.effort, "low");
  EXPECT_TRUE(request.encrypted_reasoning);
  EXPECT_EQ(request.echo["tools"].size(), 4u);
  EXPECT_EQ(request.echo["prompt_cache_key"], "k");
  EXPECT_EQ(request.echo["text"]["verbosity"], "low");
  EXPECT_EQ(request.echo["text"]["format"]["type"], "text");
}

TEST(ResponsesRequest, APictureInAnOutputBecomesAText) {
  const auto request = parsed(json(R"({"input":[{"role":"user","content":"Look."},
      {"type":"function_call","call_id":"a","name":"view","arguments":"{}"},
      {"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"a picture"},
        {"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="},
        {"type":"input_image","file_id":"file_1"},
        {"type":"input_file","filename":"report.pdf","file_data":"data:application/pdf;base64,JVBERi0="},
        {"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0="},
        {"type":"hologram"}]},
      {"role":"user","content":[{"type":"input_image","image_url":"data:image/gif;base64,R0lGOD"}]},
      {"role":"assistant","content":[{"type":"output_audio","data":"AAAA"}]}]})"));
  EXPECT_EQ(request.chat.input.messages[2]["content"], json(R"([{"type":"text","text":"a picture"},
                     {"type":"text","text":"[image: image/png, this model reads text only]"},
                     {"type":"text","text":"[image, this model reads text only]"},
                     {"type":"text","text":"[file: report.pdf, this model reads text only]"},
                     {"type":"text","text":"[file: application/pdf, this model reads text only]"},
                     {"type":"text","text":"[hologram, this model reads text only]"}])"));
  EXPECT_EQ(request.chat.input.messages[3]["content"], "[image: image/gif, this model reads text only]");
  EXPECT_EQ(request.chat.input.messages[4]["content"], "[output_audio, this model reads text only]");
  EXPECT_THAT(request.left_out, ElementsAre("hologram", "input_file", "input_image", "output_audio"));
  // A picture of the user that no tool has made is a question which this model cannot answer.
  expect_refused({R"({"input":[{"type":"function_call","call_id":"a","name":"f"},
                               {"type":"function_call_output","call_id":"a","output":"x"},
                               {"role":"user","content":"y"},
                               {"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})",
                  "input[3].content[0].type", "reads text only"});
}

TEST(ResponsesRequest, CallsAndOutputsThatDoNotMatchAreShown) {
  EXPECT_EQ(messages(json(R"([{"type":"function_call_output","call_id":"z","output":"orphan"},
                              {"type":"function_call","name":"f"},
                              {"type":"function_call","call_id":null,"name":"g"},
                              {"type":"function_call_output","output":"of f"},
                              {"type":"function_call_output","output":null},
                              {"type":"function_call_output","call_id":"z","output":"again"}])")),
            json(R"([{"role":"tool","tool_call_id":"z","content":"orphan"},
                     {"role":"assistant","content":"","tool_calls":[
                       {"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}},
                       {"id":"call_3","type":"function","function":{"name":"g","arguments":"{}"}}]},
                     {"role":"tool","tool_call_id":"call_2","content":"of f"},
                     {"role":"tool","tool_call_id":"call_3","content":""},
                     {"role":"tool","tool_call_id":"z","content":"again"}])"));
}

TEST(ResponsesRequest, FunctionsOfANamespaceAreOfferedUnderANameOfBoth) {
  const auto request = parsed(json(R"({"input":[{"role":"user","content":"Add."},
      {"type":"function_call","call_id":"a","namespace":"mcp__note","name":"add","arguments":"{\"text\":\"x\"}"},
      {"type":"function_call_output","call_id":"a","output":"added"}],
    "tools":[{"type":"function","name":"shell"},
             {"type":"namespace","name":"mcp__note","description":"Notes","tools":[
               {"type":"function","name":"add","description":"Adds a note","parameters":{"type":"object"}},
               {"type":"web_search"}]}],
    "tool_choice":{"type":"function","namespace":"mcp__note","name":"add"}})"));
  ASSERT_EQ(request.chat.input.tools.size(), 2u);
  EXPECT_EQ(request.chat.input.tools[1]["function"],
            json(R"({"name":"mcp__note__add","description":"Adds a note","parameters":{"type":"object"}})"));
  EXPECT_EQ(request.chat.input.messages[1]["tool_calls"][0]["function"]["name"], "mcp__note__add");
  EXPECT_EQ(request.chat.tool_name, "mcp__note__add");
  const auto& offered = request.offered.at("mcp__note__add");
  EXPECT_EQ(offered.name_space, "mcp__note");
  EXPECT_EQ(offered.name, "add");
  EXPECT_THAT(request.left_out, ElementsAre("web_search"));
}

TEST(ResponsesRequest, ACustomToolIsAFunctionOfOneString) {
  const auto request = parsed(json(R"({"input":[{"role":"user","content":"Patch."},
      {"type":"custom_tool_call","call_id":"a","name":"apply_patch","input":"*** \"Begin\"\n"},
      {"type":"custom_tool_call_output","call_id":"a","output":[{"type":"input_text","text":"done"}]}],
    "tools":[{"type":"custom","name":"apply_patch","description":"Edits files",
              "format":{"type":"grammar","syntax":"lark","definition":"start: \"x\""}},
             {"type":"custom","name":"say","format":{"type":"text"}}],
    "tool_choice":{"type":"custom","name":"apply_patch"}})"));
  const auto& function = request.chat.input.tools[0]["function"];
  EXPECT_EQ(function["description"], "Edits files\n\nThe input must match this lark grammar:\nstart: \"x\"");
  EXPECT_EQ(function["parameters"]["properties"]["input"]["type"], "string");
  EXPECT_EQ(function["parameters"]["required"], json(R"(["input"])"));
  EXPECT_EQ(request.chat.input.tools[1]["function"]["description"], "");
  EXPECT_EQ(request.offered.at("apply_patch").kind, ToolKind::kCustom);
  EXPECT_EQ(request.chat.input.messages[1]["tool_calls"][0]["function"]["arguments"], R"({"input":"*** \"Begin\"\n"})");
  EXPECT_EQ(request.chat.input.messages[2]["content"], "done");
  EXPECT_EQ(request.chat.custom_inputs.at("apply_patch").definition, "start: \"x\"");
  EXPECT_EQ(request.chat.custom_inputs.at("say").syntax, grammar::CallInput::Syntax::kRegex);
  EXPECT_TRUE(request.left_out.empty());
}

TEST(ResponsesRequest, WhatASearchFindsCanBeCalledAndStandsBehindTheTools) {
  constexpr const char* kTools = R"([{"type":"tool_search","execution":"client","description":"Finds tools.",
      "parameters":{"type":"object","properties":{"query":{"type":"string"}}}},
     {"type":"function","name":"later","defer_loading":true},
     {"type":"namespace","name":"db","tools":[{"type":"function","name":"query","defer_loading":true}]}])";
  const auto before = parsed({{"input", "Hi"}, {"tools", json(kTools)}});
  ASSERT_EQ(before.chat.input.tools.size(), 1u);
  EXPECT_EQ(before.chat.input.tools[0]["function"]["name"], "tool_search");
  EXPECT_EQ(before.offered.at("tool_search").kind, ToolKind::kSearch);
  const auto after = parsed({{"input", json(R"([{"role":"user","content":"Hi"},
      {"type":"tool_search_call","call_id":"a","execution":"client","arguments":{"query":"db"}},
      {"type":"tool_search_output","call_id":"a","execution":"client","status":"completed","tools":[
        {"type":"namespace","name":"db","tools":[{"type":"function","name":"query","defer_loading":true}]},
        {"type":"function"}, 7]}])")},
                             {"tools", json(kTools)}});
  EXPECT_EQ(after.chat.input.tools, before.chat.input.tools);
  ASSERT_EQ(after.chat.found_tools.size(), 1u);
  EXPECT_EQ(after.chat.found_tools[0]["function"]["name"], "db__query");
  EXPECT_EQ(after.offered.at("db__query").name_space, "db");
  EXPECT_EQ(after.chat.input.messages[1]["tool_calls"][0]["function"],
            json(R"({"name":"tool_search","arguments":"{\"query\":\"db\"}"})"));
  EXPECT_EQ(after.chat.input.messages[2]["content"], dump({{"tools", after.chat.found_tools}}));
  // Nobody here would find what is to be loaded later.
  const auto hosted = parsed(
      json(R"({"input":"x","tools":[{"type":"tool_search"},{"type":"function","name":"f","defer_loading":true}]})"));
  EXPECT_EQ(hosted.chat.input.tools.size(), 1u);
  EXPECT_THAT(hosted.left_out, ElementsAre("tool_search"));
}

TEST(ResponsesRequest, OnlyAllowedToolsAreOffered) {
  const auto request =
      parsed(json(R"({"input":"x","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}],
      "tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"},{"type":"mcp"}]}})"));
  ASSERT_EQ(request.chat.input.tools.size(), 1u);
  EXPECT_EQ(request.chat.input.tools[0]["function"]["name"], "g");
  EXPECT_EQ(request.chat.tool_use, chat::ToolUse::kRequired);
}

TEST(ResponsesRequest, ThinkingIsSentAsSummaryUnlessNoneIsWanted) {
  EXPECT_FALSE(parsed(json(R"({"input":"x"})")).raw_reasoning);
  EXPECT_FALSE(parsed(json(R"({"input":"x","reasoning":{"summary":"auto"}})")).raw_reasoning);
  EXPECT_TRUE(parsed(json(R"({"input":"x","reasoning":{"summary":"none"}})")).raw_reasoning);
}

TEST(ResponsesRequest, ASummaryThatWasMadeHereIsShown) {
  const auto request = parsed(json(R"({"input":[{"type":"compaction","id":"cmp_1","encrypted_content":"gAAAA"},
      {"type":"compaction","id":"cmp_2","encrypted_content":"cairn-summary:We wrote a file."},
      {"role":"user","content":"Go on."}]})"));
  ASSERT_EQ(request.chat.input.messages.size(), 2u);
  EXPECT_THAT(request.chat.input.messages[0]["content"].get<std::string>(), HasSubstr("We wrote a file."));
  EXPECT_THAT(request.left_out, ElementsAre("compaction"));
}

TEST(ResponsesRequest, ToolChoice) {
  const auto chosen = [](const char* choice) {
    return parsed(
               {{"input", "x"}, {"tools", json(R"([{"type":"function","name":"f"}])")}, {"tool_choice", json(choice)}})
        .chat;
  };
  EXPECT_EQ(chosen("\"none\"").tool_use, chat::ToolUse::kNone);
  EXPECT_EQ(chosen("\"auto\"").tool_use, chat::ToolUse::kAuto);
  EXPECT_EQ(chosen("\"required\"").tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(chosen(R"({"type":"function","name":"f"})").tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(chosen(R"({"type":"function","name":"f"})").tool_name, "f");
  EXPECT_EQ(chosen(R"({"type":"web_search"})").tool_use, chat::ToolUse::kAuto);
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
  RequestContext context;
  const auto request =
      parse_responses(context, json(R"({"previous_response_id":"resp_b","input":"x"})"), one_response());
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
           {R"({"input":"x","instructions":[]})", "instructions", "must be a string"},
           {R"({"input":"x","messages":[]})", "messages", "not a known field"},
           {R"({"input":"x","max_output_tokens":"x"})", "max_output_tokens", "must be an integer"},
           {R"({"input":"x","top_logprobs":1001})", "top_logprobs", "from 0 to 1000"},
           {R"({"input":"x","top_logprobs":true})", "top_logprobs", "must be an integer"},
           {R"({"input":"x","include":"x"})", "include", "array of strings"},
           {R"({"input":"x","include":[1]})", "include", "array of strings"},
           {R"({"input":"x","reasoning":"high"})", "reasoning", "must be an object, not a string"},
           {R"({"input":"x","reasoning":{"effort":"huge"}})", "reasoning.effort", "not \"huge\""},
           {R"({"input":"x","reasoning":{"budget":1}})", "reasoning.budget", "not a known field"},
           {R"({"input":"x","reasoning_effort":"huge"})", "reasoning_effort", "not \"huge\""},
           {R"({"input":"x","text":{"format":{"type":"xml"}}})", "text.format.type",
            "must be text, json_object or json_schema"},
           {R"({"input":"x","text":[]})", "text", "must be an object"},
           {R"({"input":"x","stream_options":{"x":1}})", "stream_options.x", "not a known field"},
           {R"({"input":"x","truncation":"middle"})", "truncation", "must be \"disabled\""},
           {R"({"input":"x","background":true})", "background", "not supported"},
           {R"({"input":"x","prompt":{"id":"p"}})", "prompt", "not supported"},
           {R"({"input":"x","conversation":"c"})", "conversation", "not supported"},
           {R"({"input":"x","metadata":"m"})", "metadata", "must be an object"},
           {R"({"input":"x","chat_template_kwargs":1})", "chat_template_kwargs", "must be an object"},
           {R"({"input":"x","store":"yes"})", "store", "must be true or false"},
           {R"({"input":"x","reasoning":{"summary":1}})", "reasoning.summary", "must be a string"},
           {R"({"input":[{"type":"item_reference"}]})", "input[0].id", "is missing"},
       })
    expect_refused(bad);
}

TEST(ResponsesRequest, EveryBadItemIsNamed) {
  for (const Bad& bad : std::initializer_list<Bad>{
           {R"({"input":["x"]})", "input[0]", "must be an object, not a string"},
           {R"({"input":[{}]})", "input[0].type", "is missing"},
           {R"({"input":[{"type":7}]})", "input[0].type", "is missing or not a string"},
           {R"({"input":[{"type":"message"}]})", "input[0].role", "is missing"},
           {R"({"input":[{"role":"tool","content":"x"}]})", "input[0].role", "\"tool\" is not one of"},
           {R"({"input":[{"role":"user"}]})", "input[0].content", "is missing"},
           {R"({"input":[{"role":"user","content":1}]})", "input[0].content", "must be a string or an array"},
           {R"({"input":[{"role":"user","content":["x"]}]})", "input[0].content[0]", "must be an object with a type"},
           {R"({"input":[{"role":"user","content":[{"type":"input_text"}]}]})", "input[0].content[0].text",
            "must be a string"},
           {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})",
            "input[0].content[0].type", "\"input_image\" is not supported"},
           {R"({"input":[{"type":"reasoning","summary":1}]})", "input[0].summary", "must be a string or an array"},
           {R"({"input":[{"type":"function_call","call_id":"a"}]})", "input[0].name", "is missing"},
           {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":[]}]})", "input[0].arguments",
            "must be a string of JSON, not an array"},
           {R"({"input":[{"type":"custom_tool_call","call_id":"a","name":"f","input":{}}]})", "input[0].input",
            "must be a string"},
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
           {R"({"input":"x","tool_choice":"required","tools":[{"type":"web_search"}]})", "tool_choice",
            "no functions among the tools"},
           {R"({"input":"x","tool_choice":"some"})", "tool_choice", "must be \"none\""},
           {R"({"input":"x","tool_choice":{"type":"function"}})", "tool_choice.name", "is missing"},
           {R"({"input":"x","tool_choice":{"type":"function","name":"g"}})", "tool_choice.name", "none of the tools"},
           {R"({"input":"x","tool_choice":{"type":"allowed_tools"}})", "tool_choice.tools", "must be an array"},
           {R"({"input":"x","tools":[{"type":"namespace","tools":[]}]})", "tools[0].name", "1 to 256 bytes"},
           {R"({"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":""}]}]})",
            "tools[0].tools[0].name", "1 to 256 bytes"},
           {R"({"input":"x","tools":[{"type":"custom","name":"f"},{"type":"function","name":"f"}]})", "tools[1].name",
            "another tool"},
       })
    expect_refused(bad);
}

TEST(ResponsesRequest, AConversationHasABound) {
  ordered_json items = ordered_json::array();
  for (size_t i = 0; i < kItemsMax; ++i) items.push_back({{"role", "user"}, {"content", "x"}});
  EXPECT_EQ(messages(items).size(), kItemsMax);
  RequestContext context;
  const auto with_history =
      parse_responses(context, {{"input", items}, {"previous_response_id", "resp_a"}}, one_response());
  ASSERT_FALSE(with_history.has_value());
  EXPECT_EQ(with_history.error().code, Code::kTooLarge);
  items.push_back(items[0]);
  const auto more = parse_responses(context, {{"input", items}}, one_response());
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, Code::kTooLarge);

  ordered_json calls = ordered_json::array();
  for (size_t i = 0; i <= kHistoryCallsMax; ++i)
    calls.push_back({{"type", "function_call"}, {"call_id", std::to_string(i)}, {"name", "f"}});
  const auto many = parse_responses(context, {{"input", calls}}, one_response());
  ASSERT_FALSE(many.has_value());
  EXPECT_EQ(many.error().at, fmt::format("input[{}]", kHistoryCallsMax));
}

}  // namespace
}  // namespace cairn::api::responses
