// What a protocol's serializer is told of an answer, and what is remembered of it.
#include "api/chat/chat_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using testing::ElementsAre;

/// Writes down what it is told.
class SerializerLog final : public ChatSerializer {
 public:
  explicit SerializerLog(std::vector<std::string>& told) : told_(told) {}
  bool streams() const override { return true; }
  std::string begin() override { return "begin "; }
  std::string parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) override {
    std::string text = std::to_string(choice) + (event == nullptr ? " without a token:" : ":");
    for (const chat::Part& part : parts) text += " " + part.text;
    told_.push_back(text);
    return "parts ";
  }
  std::string finish(int choice, chat::ChatFinish&& finish) override {
    told_.push_back(std::to_string(choice) + " ends: " + finish.turn.reasoning + finish.turn.content +
                    (finish.reasoning_tokens > 0 ? fmt::format(" after {}", finish.reasoning_tokens) : ""));
    return "finish ";
  }
  void hidden_token() override { told_.emplace_back("hidden"); }
  std::string done() override { return {}; }
  std::string failure(const Error&) override { return {}; }

 private:
  std::vector<std::string>& told_;
};

TEST(ChatOutput, TellsTheSerializerOfEveryTokenAndStoresWholeTurnsAtTheEnd) {
  std::vector<std::string> told, stored;
  const TurnRecorder recorder = [&](const chat::AnswerReader&, const chat::ChatTurn& turn) {
    return [&stored, content = turn.content] { stored.push_back(content); };
  };
  chat::OutputContext context;
  context.format = {chat::ToolFormat::kHermes, chat::ReasoningFormat::kThink};
  ChatOutput output(std::make_unique<SerializerLog>(told), context, 2, recorder);
  EXPECT_EQ(output.begin(), "begin ");
  for (const int choice : {0, 1}) {
    engine::TokenEvent event;
    event.token = TokenId{1};
    event.text = choice == 0 ? "Yes" : "No";
    EXPECT_EQ(output.token(choice, std::move(event)), "parts ");
    engine::Finish finish;
    finish.reason = choice == 0 ? engine::FinishReason::kStop : engine::FinishReason::kLength;
    finish.text = ".";
    EXPECT_EQ(output.finish(choice, std::move(finish)), "parts finish ");
  }
  EXPECT_THAT(told, ElementsAre("0: Yes", "0 without a token: .", "0 ends: Yes.", "1: No", "1 without a token: .",
                                "1 ends: No."));
  EXPECT_THAT(stored, ElementsAre());
  EXPECT_FALSE(output.settle(nullptr, [] {}));
  EXPECT_THAT(stored, ElementsAre("Yes."));
}

TEST(ChatOutput, BeginsWithWhatIsForcedOnTheModel) {
  std::vector<std::string> told;
  chat::OutputContext context;
  context.format = {chat::ToolFormat::kHermes, chat::ReasoningFormat::kThink};
  context.tools = nlohmann::ordered_json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  context.forced_prefix = "<tool_call>\n{\"name\": \"f\", \"arguments\":";
  ChatOutput output(std::make_unique<SerializerLog>(told), context, 1, {});
  EXPECT_EQ(output.begin(), "begin parts ");
  EXPECT_THAT(told, ElementsAre("0 without a token: f"));
}

// What is kept of the turn has the thinking all the same.
TEST(ChatOutput, AHiddenThinkingIsCountedAndNotTold) {
  for (const bool hides : {false, true}) {
    std::vector<std::string> told, kept;
    const TurnRecorder recorder = [&](const chat::AnswerReader&, const chat::ChatTurn& turn) {
      kept.push_back(turn.reasoning + "|" + turn.content);
      return std::function<void()>();
    };
    chat::OutputContext context;
    context.format = {chat::ToolFormat::kNone, chat::ReasoningFormat::kThink};
    context.hides_reasoning = hides;
    ChatOutput output(std::make_unique<SerializerLog>(told), context, 1, recorder);
    EXPECT_EQ(output.begin(), "begin ");
    for (const char* text : {"<think>", "Hm", "m", "</think>", "Yes", "."}) {
      engine::TokenEvent event;
      event.token = TokenId{1};
      event.text = text;
      output.token(0, std::move(event));
    }
    output.finish(0, {});
    EXPECT_THAT(kept, ElementsAre("Hmm|Yes."));
    if (hides) {
      EXPECT_THAT(told, ElementsAre("hidden", "hidden", "hidden", "hidden", "0: Yes", "0: .", "0 ends: Yes. after 3"));
    } else {
      EXPECT_THAT(told, ElementsAre("0:", "0: Hm", "0: m", "0:", "0: Yes", "0: .", "0 ends: HmmYes. after 3"));
    }
  }
}

}  // namespace
}  // namespace cairn::api
