#include "api/anthropic/content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/chat/messages.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

ordered_json json(std::string_view text) { return ordered_json::parse(text); }

Result<Conversation> read(std::string_view messages, const ordered_json& system = nullptr) {
  return read_conversation(system.is_null() ? nullptr : &system, json(messages));
}

void expect_read(std::string_view messages, std::string_view as, const ordered_json& system = nullptr) {
  const auto conversation = read(messages, system);
  ASSERT_TRUE(conversation.has_value()) << messages << conversation.error().text();
  EXPECT_EQ(conversation->messages, json(as)) << conversation->messages;
}

void expect_refused(std::string_view messages, const std::string& at, const std::string& words,
                    Code code = Code::kInvalidArgument) {
  const auto conversation = read(messages);
  ASSERT_FALSE(conversation.has_value()) << messages;
  EXPECT_EQ(conversation.error().code, code);
  EXPECT_EQ(conversation.error().at, at) << conversation.error().message;
  EXPECT_THAT(conversation.error().message, testing::HasSubstr(words));
  EXPECT_THAT(conversation.error().message, testing::HasSubstr(at));
}

/// A conversation whose last message has `content`.
std::string user(std::string_view content) { return fmt::format(R"([{{"role": "user", "content": {}}}])", content); }
std::string assistant(std::string_view content) {
  return fmt::format(
      R"([{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": {}}}, {{"role": "user", "content": "b"}}])",
      content);
}

TEST(MessagesContent, TextIsAStringOrBlocks) {
  expect_read(user(R"("Hi")"), R"([{"role": "user", "content": "Hi"}])");
  expect_read(
      user(R"([{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": ""},
                       {"type": "text", "text": "two"}])"),
      R"([{"role": "user", "content": "one\ntwo"}])");
  expect_read(user("[]"), R"([{"role": "user", "content": ""}])");
}

TEST(MessagesContent, SystemIsTextOrBlocksWithoutTheBillingHeader) {
  const auto system = [&](std::string_view text, std::string_view as) {
    expect_read(user(R"("Hi")"),
                fmt::format(R"([{{"role": "system", "content": "{}"}}, {{"role": "user", "content": "Hi"}}])", as),
                json(text));
  };
  const auto none = [&](std::string_view text) {
    expect_read(user(R"("Hi")"), R"([{"role": "user", "content": "Hi"}])", json(text));
  };
  system(R"("Be kind.")", "Be kind.");
  system(
      R"([{"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=abc;"}, {"type": "text", "text": "Be kind."},
             {"type": "text", "text": "Be short."}])",
      R"(Be kind.\nBe short.)");
  system(R"("x-anthropic-billing-header: cch=abc;\nBe kind.")", "Be kind.");
  none(R"("x-anthropic-billing-header: cch=abc;")");
  none(R"([{"type": "text", "text": "x-anthropic-billing-header: cch=abc;"}])");
  none("[]");
  for (const auto& [text, at, words] : std::initializer_list<std::array<std::string, 3>>{
           {"5", "system", "not a number"},
           {"[5]", "system[0]", "must be an object"},
           {R"([{"type": "image"}])", "system[0].type", "must be \"text\""},
           {R"([{"type": "text"}])", "system[0].text", "is missing"}}) {
    const auto refused = read(user(R"("Hi")"), json(text));
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().at, at);
    EXPECT_THAT(refused.error().message, testing::HasSubstr(words));
  }
}

TEST(MessagesContent, SystemMessagesJoinTheSystemOrStandWhereTheyAre) {
  expect_read(R"([{"role": "system", "content": "Be short."}, {"role": "user", "content": "a"},
                  {"role": "system", "content": [{"type": "text", "text": "Now be long."}]}, {"role": "user", "content": "b"}])",
              R"([{"role": "system", "content": "Be kind.\nBe short."}, {"role": "user", "content": "a"},
                  {"role": "system", "content": "Now be long."}, {"role": "user", "content": "b"}])",
              "Be kind.");
}

TEST(MessagesContent, NeighboursOfOneRoleAreOneMessage) {
  expect_read(
      R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"},
                  {"role": "assistant", "content": "d"}, {"role": "user", "content": "e"}])",
      R"([{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c\nd"}, {"role": "user", "content": "e"}])");
}

TEST(MessagesContent, ACallAndItsResult) {
  expect_read(R"([
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": [
      {"type": "thinking", "thinking": "I should look.", "signature": "s"}, {"type": "redacted_thinking", "data": "x"},
      {"type": "text", "text": "Let me "}, {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}},
      {"type": "text", "text": "see."}, {"type": "tool_use", "id": "t2", "name": "time"},
      {"type": "tool_use", "id": "t3", "name": "time", "input": "{bad"}]},
    {"role": "user", "content": [
      {"type": "text", "text": "Well?"},
      {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "12"}, {"type": "text", "text": "30"}]},
      {"type": "tool_result", "tool_use_id": "t1", "content": "no such city", "is_error": true}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t3"}]}])",
              R"([
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "Let me see.", "reasoning_content": "I should look.", "tool_calls": [
      {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
      {"id": "t2", "type": "function", "function": {"name": "time", "arguments": "{}"}},
      {"id": "t3", "type": "function", "function": {"name": "time", "arguments": "{bad"}}]},
    {"role": "tool", "tool_call_id": "t2", "name": "time", "content": "12\n30"},
    {"role": "tool", "tool_call_id": "t1", "name": "weather", "content": "Error: no such city"},
    {"role": "tool", "tool_call_id": "t3", "name": "time", "content": ""},
    {"role": "user", "content": "Well?"}])");
}

TEST(MessagesContent, ResultsAloneNeedNoMessageOfTheUser) {
  const auto conversation = read(R"([{"role": "user", "content": "a"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true}]}])");
  ASSERT_TRUE(conversation.has_value());
  EXPECT_EQ(conversation->messages.size(), 3u);
  EXPECT_EQ(conversation->messages[2]["content"], "Error");
}

TEST(MessagesContent, DocumentsAndSearchResultsAreTheirText) {
  expect_read(user(R"([{"type": "document", "title": "Cats", "context": "A book.",
                        "source": {"type": "text", "media_type": "text/plain", "data": "Cats purr."}},
                       {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "Dogs bark."}]}},
                       {"type": "search_result", "title": "T", "source": "U", "content": [{"type": "text", "text": "V"}]},
                       {"type": "text", "text": "Which purr?"}])"),
              R"([{"role": "user", "content": "Cats\nA book.\nCats purr.\nDogs bark.\nT\nU\nV\nWhich purr?"}])");
  expect_refused(user(R"([{"type": "document"}])"), "messages[0].content[0].source", "is missing");
  expect_refused(user(R"([{"type": "document", "source": {"type": "base64", "data": "x"}}])"),
                 "messages[0].content[0].source.type", "does not support PDF input", Code::kUnsupported);
  expect_refused(
      user(R"([{"type": "document", "citations": {"enabled": true}, "source": {"type": "text", "data": "x"}}])"),
      "messages[0].content[0].citations.enabled", "cites nothing", Code::kUnsupported);
}

TEST(MessagesContent, ALastMessageOfTheAssistantIsAPrefill) {
  const auto conversation = read(
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "text", "text": "The answer is ("}]}])");
  ASSERT_TRUE(conversation.has_value());
  EXPECT_EQ(conversation->messages, json(R"([{"role": "user", "content": "a"}])"));
  EXPECT_EQ(conversation->prefill, "The answer is (");
  EXPECT_EQ(read(user(R"("a")"))->prefill, "");
  // Calls are no beginning of a text, and neither is an answer to nobody.
  const auto called = read(
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}])");
  ASSERT_TRUE(called.has_value()) << called.error().text();
  EXPECT_EQ(called->messages.size(), 2u);
  EXPECT_EQ(called->prefill, "");
  const auto lone = read(R"([{"role": "assistant", "content": "What we did: x"}])", "Be kind.");
  ASSERT_TRUE(lone.has_value()) << lone.error().text();
  EXPECT_EQ(lone->messages,
            json(R"([{"role": "system", "content": "Be kind."}, {"role": "assistant", "content": "What we did: x"}])"));
  EXPECT_EQ(lone->prefill, "");
}

TEST(MessagesContent, NamesTheMessageThatItCannotUse) {
  expect_refused("5", "messages", "must be an array, not a number");
  expect_refused("[]", "messages", "must have 1 to");
  expect_refused("[5]", "messages[0]", "must be an object");
  expect_refused(R"([{"content": "x"}])", "messages[0].role", "is missing");
  expect_refused(R"([{"role": "tool", "content": "x"}])", "messages[0].role", "\"tool\" is not one of");
  expect_refused(R"([{"role": "user"}])", "messages[0].content", "is missing");
  expect_refused(user("5"), "messages[0].content", "must be a string or an array of blocks, not a number");
  expect_refused(user("[5]"), "messages[0].content[0]", "must be an object");
  expect_refused(user("[{}]"), "messages[0].content[0].type", "is missing");
  expect_refused(user(R"([{"type": "text"}])"), "messages[0].content[0].text", "is missing");
  expect_refused(user(R"([{"type": "image", "source": {}}])"), "messages[0].content[0].type", "Could not process image",
                 Code::kUnsupported);
  expect_refused(user(R"([{"type": "tool_use", "id": "1", "name": "f", "input": {}}])"), "messages[0].content[0].type",
                 "\"tool_use\" cannot stand here", Code::kUnsupported);
}

TEST(MessagesContent, NamesTheBlockOfTheAssistantThatItCannotUse) {
  const std::string block = "messages[1].content[0]";
  expect_refused(assistant(R"([{"type": "tool_use", "id": "1", "name": 5}])"), block + ".name", "not a string");
  expect_refused(assistant(R"([{"type": "tool_use", "id": "1", "name": ""}])"), block + ".name", "is empty");
  expect_refused(assistant(R"([{"type": "thinking"}])"), block + ".thinking", "is missing");
  std::string many = "[";
  for (size_t i = 0; i <= kHistoryCallsMax; ++i)
    many += fmt::format(R"({}{{"type": "tool_use", "id": "{}", "name": "f"}})", i == 0 ? "" : ",", i);
  expect_refused(assistant(many + "]"), fmt::format("messages[1].content[{}]", kHistoryCallsMax), "one tool_use more");
}

TEST(MessagesContent, NamesTheResultThatItCannotUse) {
  const auto result = [](std::string_view content) {
    return fmt::format(R"([{{"role": "user", "content": "a"}},
      {{"role": "assistant", "content": [{{"type": "tool_use", "id": "t1", "name": "f", "input": {{}}}}]}},
      {{"role": "user", "content": {}}}])",
                       content);
  };
  const std::string block = "messages[2].content[0]";
  expect_refused(result(R"([{"type": "tool_result", "tool_use_id": 1}])"), block + ".tool_use_id", "must be a string");
  expect_refused(result(R"([{"type": "tool_result", "tool_use_id": "t1", "is_error": "no"}])"), block + ".is_error",
                 "true or false");
  expect_refused(result(R"([{"type": "tool_result", "tool_use_id": "t1", "content": 5}])"), block + ".content",
                 "not a number");
}

TEST(MessagesContent, PicturesAndDocumentsOfAToolBecomeANote) {
  const auto content_of = [](std::string_view user_blocks) {
    const auto conversation = read(fmt::format(R"([{{"role": "user", "content": "a"}},
      {{"role": "assistant", "content": [{{"type": "tool_use", "id": "t1", "name": "f", "input": {{}}}}]}},
      {{"role": "user", "content": [{}]}}])",
                                               user_blocks));
    EXPECT_TRUE(conversation.has_value()) << user_blocks << conversation.error().text();
    return conversation ? conversation->messages.back()["content"].get<std::string>() : "";
  };
  const auto result = [&](std::string_view block) {
    return content_of(fmt::format(
        R"({{"type": "tool_result", "tool_use_id": "t1", "content": [{{"type": "text", "text": "Here:"}}, {}]}})",
        block));
  };
  constexpr std::string_view kImage =
      R"({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}})";
  EXPECT_EQ(result(kImage), "Here:\n[image: image/png, this model reads text only]");
  EXPECT_EQ(result(R"({"type": "image", "source": {"type": "url", "url": "http://a/b.png"}})"),
            "Here:\n[image: http://a/b.png, this model reads text only]");
  EXPECT_EQ(
      result(R"({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "x"}})"),
      "Here:\n[file: application/pdf, this model reads text only]");
  EXPECT_EQ(result(R"({"type": "some_new_block"})"), "Here:\n[part: this model reads text only]");
  EXPECT_EQ(
      result(R"({"type": "search_result", "title": "T", "source": "U", "content": [{"type": "text", "text": "V"}]})"),
      "Here:\nT\nU\nV");
  // Beside a result, as some clients write it.
  EXPECT_EQ(content_of(fmt::format(R"({{"type": "tool_result", "tool_use_id": "t1", "content": "x"}}, {})", kImage)),
            "[image: image/png, this model reads text only]");
}

TEST(MessagesContent, BlocksOfOtherServersAreLeftOut) {
  expect_read(assistant(R"([{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
      {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}, {"type": "text", "text": "Found."}])"),
              R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "Found."},
                  {"role": "user", "content": "b"}])");
}

TEST(MessagesContent, CallsAndResultsNeedNoIdsThatFit) {
  expect_read(R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}, {"type": "tool_use", "id": "t", "name": "g"},
        {"type": "tool_use", "name": "h"}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"},
        {"type": "tool_result", "tool_use_id": "t", "content": "2"}, {"type": "tool_result", "content": "3"},
        {"type": "tool_result", "tool_use_id": "t", "content": "4"}]}])",
              R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "t", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        {"id": "call00001", "type": "function", "function": {"name": "h", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "t", "name": "f", "content": "1"},
      {"role": "tool", "tool_call_id": "t", "name": "g", "content": "2"},
      {"role": "tool", "tool_call_id": "call00001", "name": "h", "content": "3"},
      {"role": "tool", "tool_call_id": "t", "content": "4"}])");
}

TEST(MessagesContent, IdsOfCallsAreSentAsAnthropicsAndFoundAgain) {
  const std::string letters = "0123456789ABCDEFabcdefGH";
  EXPECT_EQ(sent_call_id("call_" + letters), "toolu_" + letters);
  EXPECT_EQ(sent_call_id("a1B2c3D4e"), "toolu_a1B2c3D4e") << "a model's own, as Mistral's has to be";
  for (const std::string& id : {"call_" + letters, std::string("a1B2c3D4e"), std::string("functions.look:0"),
                                std::string("toolu_x"), "toolu_call_" + letters})
    EXPECT_EQ(received_call_id(sent_call_id(id)), id);
  for (const auto* id : {"", "toolu_", "call_1", "t1", "chatcmpl-tool-5"}) EXPECT_EQ(received_call_id(id), id);
  expect_read(R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_t", "name": "f", "input": {}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_t", "content": "1"}]}])",
              R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "t", "name": "f", "content": "1"}])");
}

}  // namespace
}  // namespace cairn::api::anthropic
