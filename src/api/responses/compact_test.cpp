#include "api/responses/compact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/responses/transcript.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

const ordered_json kItems = ordered_json::parse(R"([
  {"type":"message","id":"a","role":"developer","content":"Be brief."},
  {"type":"message","id":"b","role":"user","content":"Write a file."},
  {"type":"function_call","id":"c","call_id":"1","name":"write","arguments":"{}"},
  {"type":"function_call_output","id":"d","call_id":"1","output":"done"},
  {"type":"message","id":"e","role":"assistant","content":"Written."},
  {"type":"message","id":"f","role":"user","content":"And now?"}])");

ordered_json compacted(std::string summary) {
  CompactionSerializer serializer("resp_1", kItems);
  chat::ChatFinish finish;
  finish.turn.content = std::move(summary);
  finish.usage = {10, 4, 3};
  serializer.finish(0, std::move(finish));
  return ordered_json::parse(serializer.done());
}

TEST(Compaction, KeepsWhatTheUserSaidAndASummary) {
  const ordered_json answer = compacted("A file was written.");
  EXPECT_EQ(answer["object"], "response.compaction");
  EXPECT_EQ(answer["usage"]["input_tokens"], 10);
  ASSERT_EQ(answer["output"].size(), 4u);
  EXPECT_EQ(answer["output"][0], kItems[0]);
  EXPECT_EQ(answer["output"][1], kItems[1]);
  EXPECT_EQ(answer["output"][2], kItems[5]);
  EXPECT_EQ(answer["output"][3]["type"], "compaction");
  // The next request goes on from it.
  Transcript transcript;
  for (const auto& item : answer["output"]) ASSERT_TRUE(transcript.add(item, "input[0]").has_value());
  EXPECT_THAT(transcript.messages()[3]["content"].get<std::string>(), testing::EndsWith("A file was written."));
}

TEST(Compaction, WithoutASummaryNothingIsLost) { EXPECT_EQ(compacted(" \n")["output"], kItems); }

TEST(Compaction, AsksWithTheSameToolsAndForNoCall) {
  ChatRequest chat;
  chat.input.messages = ordered_json::array({{{"role", "user"}, {"content", "x"}}});
  chat.input.tools = ordered_json::array({{{"type", "function"}}});
  chat.stream = true;
  ask_for_summary(chat);
  EXPECT_EQ(chat.input.messages.size(), 2u);
  EXPECT_EQ(chat.input.tools.size(), 1u);
  EXPECT_EQ(chat.tool_use, chat::ToolUse::kNone);
  EXPECT_FALSE(chat.stream);
  EXPECT_EQ(chat.generate.max_tokens, kSummaryTokensMax);
}

}  // namespace
}  // namespace cairn::api::responses
