#include "api/ollama/serializer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/model_list.h"
#include "base/testing/test_data.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using namespace std::chrono_literals;

chat::Part part(chat::PartKind kind, std::string_view delta, std::string_view id = "",
                chat::CallState state = chat::CallState::kWhole) {
  return {kind, std::string(delta), kind == chat::PartKind::kContent || kind == chat::PartKind::kReasoning ? -1 : 0,
          std::string(id), state};
}
chat::Part text(std::string_view delta) { return part(chat::PartKind::kContent, delta); }
chat::Part thought(std::string_view delta) { return part(chat::PartKind::kReasoning, delta); }
chat::Part call(std::string_view name, std::string_view id) { return part(chat::PartKind::kCallBegin, name, id); }
chat::Part arguments(std::string_view delta) { return part(chat::PartKind::kArguments, delta); }
chat::Part call_end(chat::CallState state = chat::CallState::kWhole) {
  return part(chat::PartKind::kCallEnd, "", "", state);
}

class OllamaAnswerTest : public testing::Test {
 protected:
  OllamaAnswerTest() {
    auto file = gguf::Reader::open(test_data() + "/models/llama.gguf");
    file_ = std::make_unique<gguf::Reader>(std::move(file).value());
    tokenizer_ = tokenizer::Tokenizer::load(file_->metadata()).value();
  }

  /// Lines of the answer, or its only object, without what differs from run to run.
  std::vector<std::string> answer(ResponseOptions options, const std::vector<std::vector<chat::Part>>& steps,
                                  chat::ChatFinishReason end) {
    options.model = "m";
    OllamaSerializer serializer(std::move(options), *tokenizer_);
    std::string bytes = serializer.begin();
    engine::TokenEvent event;
    event.token = TokenId{5};
    event.logprob = -1;
    event.top = {{TokenId{6}, -0.5f}};
    for (const auto& step : steps) bytes += serializer.parts(0, step, &event);
    chat::ChatFinish finish;
    finish.reason = end;
    finish.usage = {10, 4, 3};
    finish.timings = {.queue = 1ns, .prefill = 20ns, .decode = 300ns};
    bytes += serializer.finish(0, std::move(finish));
    bytes += serializer.done();
    std::vector<std::string> lines;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t end_of_line = std::min(bytes.find('\n', begin), bytes.size());
      ordered_json line = ordered_json::parse(bytes.substr(begin, end_of_line - begin));
      EXPECT_THAT(line["created_at"].get<std::string>(), testing::MatchesRegex("....-..-..T..:..:..[.].*Z"));
      EXPECT_EQ(line["model"], "m");
      line.erase("created_at");
      line.erase("model");
      lines.push_back(line.dump());
      begin = end_of_line + 1;
    }
    return lines;
  }

  std::unique_ptr<gguf::Reader> file_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

const std::string kEnd = R"("total_duration":321,"load_duration":0,"prompt_eval_count":10,"prompt_eval_duration":20,)"
                         R"("eval_count":4,"eval_duration":300})";

TEST_F(OllamaAnswerTest, AStreamHasALinePerStepAndOneAtTheEnd) {
  EXPECT_THAT(answer({}, {{thought("hm")}, {}, {text("Hel")}, {text("lo")}}, chat::ChatFinishReason::kStop),
              ElementsAre(R"({"message":{"role":"assistant","content":"","thinking":"hm"},"done":false})",
                          R"({"message":{"role":"assistant","content":"Hel"},"done":false})",
                          R"({"message":{"role":"assistant","content":"lo"},"done":false})",
                          R"({"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",)" + kEnd));
}

TEST_F(OllamaAnswerTest, AWholeAnswerIsOneObject) {
  EXPECT_THAT(
      answer({.stream = false}, {{thought("hm")}, {text("Hel")}, {text("lo")}}, chat::ChatFinishReason::kLength),
      ElementsAre(R"({"message":{"role":"assistant","content":"Hello","thinking":"hm"},"done":true,)"
                  R"("done_reason":"length",)" +
                  kEnd));
}

TEST_F(OllamaAnswerTest, AGeneratedTextIsAResponse) {
  EXPECT_THAT(answer({.generates = true}, {{thought("hm")}, {text("Hi")}}, chat::ChatFinishReason::kStopString),
              ElementsAre(R"({"response":"","thinking":"hm","done":false})", R"({"response":"Hi","done":false})",
                          R"({"response":"","done":true,"done_reason":"stop",)" + kEnd));
}

TEST_F(OllamaAnswerTest, CallsGoOutWhole) {
  const auto lines = answer({},
                            {{text("So:"), call("add", "call_1")},
                             {arguments(R"({"a":)")},
                             {arguments("1}"), call_end(), call("now", "call_2"), arguments("{}")},
                             {call_end()}},
                            chat::ChatFinishReason::kToolCalls);
  EXPECT_THAT(lines,
              ElementsAre(R"({"message":{"role":"assistant","content":"So:"},"done":false})",
                          R"({"message":{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":)"
                          R"({"index":0,"name":"add","arguments":{"a":1}}}]},"done":false})",
                          R"({"message":{"role":"assistant","content":"","tool_calls":[{"id":"call_2","function":)"
                          R"({"index":1,"name":"now","arguments":{}}}]},"done":false})",
                          R"({"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",)" + kEnd));
}

TEST_F(OllamaAnswerTest, ACallThatIsCutIsText) {
  const std::vector<std::vector<chat::Part>> steps = {{call("add", "c"), arguments(R"({"a":1)")},
                                                      {call_end(chat::CallState::kCut)}};
  // Nobody should run a tool with half of what it was to be told.
  for (const auto end : {chat::ChatFinishReason::kLength, chat::ChatFinishReason::kCutCall})
    EXPECT_THAT(answer({.stream = false}, steps, end),
                ElementsAre(R"({"message":{"role":"assistant","content":"add {\"a\":1"},"done":true,)"
                            R"("done_reason":"length",)" +
                            kEnd));
}

TEST_F(OllamaAnswerTest, WhatIsNoCallIsText) {
  const auto content = [&](std::string_view delta, chat::CallState state) {
    const auto lines = answer({.stream = false}, {{call("add", "c"), arguments(delta), call_end(state)}},
                              chat::ChatFinishReason::kStop);
    return ordered_json::parse(lines.front())["message"]["content"].get<std::string>();
  };
  EXPECT_EQ(content(R"({"a":1})", chat::CallState::kBroken), R"(add {"a":1})");
  EXPECT_EQ(content("[1]", chat::CallState::kWhole), "add [1]");
  EXPECT_EQ(content("{\"a\":\"\xff\"}", chat::CallState::kWhole), "add {\"a\":\"\xEF\xBF\xBD\"}");
}

TEST_F(OllamaAnswerTest, EveryTokenHasItsLogProbability) {
  const auto count = [](const std::string& line) { return ordered_json::parse(line)["logprobs"].size(); };
  const auto lines = answer({.logprobs = true}, {{}, {text("a")}, {}}, chat::ChatFinishReason::kStop);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(count(lines[0]), 2u);
  EXPECT_EQ(count(lines[1]), 1u);
  const auto whole = answer({.stream = false, .logprobs = true}, {{}, {text("a")}}, chat::ChatFinishReason::kStop);
  ASSERT_EQ(count(whole.front()), 2u);
  const auto entry = ordered_json::parse(whole.front())["logprobs"][0];
  EXPECT_EQ(entry["logprob"], -1);
  EXPECT_EQ(entry["top_logprobs"][0]["logprob"], -0.5);
}

TEST_F(OllamaAnswerTest, NothingToAnswerIsLoaded) {
  EXPECT_THAT(OllamaSerializer({.model = "m", .stream = false}, *tokenizer_).loaded(),
              testing::EndsWith(R"("message":{"role":"assistant","content":""},"done":true,"done_reason":"load"})"));
  EXPECT_THAT(OllamaSerializer({.model = "m", .generates = true}, *tokenizer_).loaded(),
              testing::EndsWith("\"response\":\"\",\"done\":true,\"done_reason\":\"load\"}\n"));
}

TEST_F(OllamaAnswerTest, AFailureIsALineWithAnError) {
  EXPECT_EQ(OllamaSerializer({}, *tokenizer_).failure({Code::kInternal, "it broke", {}}), "{\"error\":\"it broke\"}\n");
}

TEST_F(OllamaAnswerTest, RawTextIsContent) {
  RawPromptSerializer raw(std::make_unique<OllamaSerializer>(
      ResponseOptions{.model = "m", .stream = false, .generates = true}, *tokenizer_));
  engine::TokenEvent event;
  event.text = "<think> is ";
  std::string bytes = raw.begin();
  bytes += raw.token(0, std::move(event));
  engine::Finish finish;
  finish.reason = engine::FinishReason::kLength;
  finish.text = "text";
  bytes += raw.finish(0, std::move(finish));
  bytes += raw.done();
  const auto whole = ordered_json::parse(bytes);
  EXPECT_EQ(whole["response"], "<think> is text");
  EXPECT_EQ(whole["done_reason"], "length");
}

TEST(OllamaModels, NumbersOfParametersAreShortened) {
  EXPECT_EQ(human_number(999), "999");
  EXPECT_EQ(human_number(656'000), "656K");
  EXPECT_EQ(human_number(7'615'616'512), "7.6B");
}

}  // namespace
}  // namespace cairn::api::ollama
