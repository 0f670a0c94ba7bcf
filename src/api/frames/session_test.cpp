#include "api/frames/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "api/stream/response_stream.h"
#include "base/testing/test_data.h"
#include "loader/model_load.h"

namespace cairn::api::frames {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

/// A request as the test plays the engine for it.
struct Script {
  engine::GenerateRequest request;
  engine::Events pending;
  std::function<void()> notify;
  int drains = 0;
  bool cancelled = false;
  bool alive = true;

  void say(std::string_view text, int32_t token = 1) {
    engine::TokenEvent event;
    event.text = text;
    event.token = TokenId{token};
    pending.tokens.push_back(std::move(event));
  }
  void finish(engine::FinishReason reason, std::string text = {}) {
    pending.finished = true;
    pending.finish.reason = reason;
    pending.finish.text = std::move(text);
    pending.finish.usage = {5, 2, 3};
    pending.finish.error = {Code::kInternal, "scripted", {}};
  }
};

class FakeStream final : public engine::GenerateStream {
 public:
  explicit FakeStream(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  ~FakeStream() override { script_->alive = false; }
  engine::Events drain() override {
    ++script_->drains;
    return std::exchange(script_->pending, {});
  }
  engine::Events wait(std::chrono::milliseconds) override { return drain(); }
  void on_events(std::function<void()> notify) override { script_->notify = std::move(notify); }
  void cancel() override { script_->cancelled = true; }

 private:
  std::shared_ptr<Script> script_;
};

class FakeEngine final : public engine::Engine {
 public:
  explicit FakeEngine(std::map<std::string, std::shared_ptr<Script>>& scripts) : scripts_(scripts) {}
  Result<std::unique_ptr<engine::GenerateStream>> submit(engine::GenerateRequest request) override {
    auto script = std::make_shared<Script>();
    script->request = std::move(request);
    scripts_[script->request.id] = script;
    return std::make_unique<FakeStream>(script);
  }
  void stop() override {}
  engine::EngineStats stats() const override {
    engine::EngineStats stats;
    stats.active_requests = 42;
    return stats;
  }
  Result<engine::PrefixReport> prefix_report(std::string_view, const engine::Party&) const override {
    return fail(Code::kNotFound, "none");
  }
  int32_t context_tokens() const override { return 1; }

 private:
  std::map<std::string, std::shared_ptr<Script>>& scripts_;
};

/// A client that reads when the test says so.
class FakeSender final : public net::FrameSender {
 public:
  void send(std::string_view message) override {
    EXPECT_LE(message.size(), net::kFrameBytesMax);
    sent.push_back(ordered_json::parse(message));
    unsent += message.size();
  }
  void end() override { ended = true; }
  size_t unsent_bytes() const override { return unsent; }
  void on_drained(size_t bytes, std::function<void()> callback) override {
    drained_at = bytes;
    drained = std::move(callback);
  }
  void post(std::function<void()> work) override {
    const std::lock_guard lock(mutex);
    posted.push_back(std::move(work));
    ready.notify_all();
  }

  /// The client reads on.
  void drain_to(size_t bytes) {
    unsent = bytes;
    const auto callback = std::exchange(drained, {});
    ASSERT_TRUE(callback);
    callback();
  }

  std::vector<ordered_json> sent;
  std::mutex mutex;  // guards `posted`
  std::condition_variable ready;
  std::vector<std::function<void()>> posted;
  std::function<void()> drained;
  size_t drained_at = 0;
  size_t unsent = 0;
  bool ended = false;
};

class FramesSessionTest : public testing::Test {
 protected:
  FramesSessionTest() {
    loader::LoadOptions options;
    options.model.context_tokens = 64;
    options.device.cpu.threads = 1;
    auto model = loader::load_model_file(test_data("/models/llama.gguf"), options);
    EXPECT_TRUE(model.has_value()) << model.error().text();
    (*model)->engine = std::make_unique<FakeEngine>(scripts_);
    EXPECT_TRUE(registry_.add(std::move(*model)).has_value());
    session_ = make_handler(service_)(sender_);
  }
  ~FramesSessionTest() override {
    session_->closed();
    for (const auto& [id, script] : scripts_) EXPECT_FALSE(script->alive) << id;
  }

  void message(const ordered_json& value) { message(value.dump(), "frame 1"); }
  /// Until a worker has read it and the server's thread has taken it.
  void message(const std::string& text, std::string_view position) {
    const size_t before = sender_->posted.size();
    session_->message(text, position);
    std::unique_lock lock(sender_->mutex);
    sender_->ready.wait(lock, [&] { return sender_->posted.size() > before; });
    const auto work = std::move(sender_->posted.back());
    sender_->posted.pop_back();
    lock.unlock();
    work();
  }
  /// What the engine's thread does after a step, and what the server's does then.
  void wake(Script& script) {
    script.notify();
    run_posted();
  }
  void run_posted() {
    for (const auto& work : std::exchange(sender_->posted, {})) work();
  }
  Script& start(const std::string& id, bool stream = true) {
    message({{"id", id}, {"prompt", "Once"}, {"stream", stream}});
    EXPECT_TRUE(scripts_.contains(id));
    return *scripts_[id];
  }
  /// A conversation with a tool, and with other fields.
  Script& start_chat(const std::string& id, const ordered_json& more = ordered_json::object()) {
    ordered_json value = {{"id", id}, {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
    value["tools"] = ordered_json::parse(R"([{"type": "function", "function": {"name": "read"}}])");
    value.update(more);
    message(value);
    EXPECT_TRUE(scripts_.contains(id)) << sender_->sent.back();
    return *scripts_[id];
  }
  /// The events since the last call, as "ID EVENT TEXT" with the reason or code for other events than tokens.
  std::vector<std::string> said() {
    std::vector<std::string> lines;
    for (const auto& event : std::exchange(sender_->sent, {})) {
      std::string line = event.value("id", "-") + " " + event["event"].get<std::string>();
      for (const auto* name : {"reason", "code", "text"}) {
        if (event.contains(name)) line += " " + event[name].get<std::string>();
      }
      lines.push_back(line);
    }
    return lines;
  }

  std::map<std::string, std::shared_ptr<Script>> scripts_;
  loader::Registry registry_;
  Service service_{registry_};
  std::shared_ptr<FakeSender> sender_ = std::make_shared<FakeSender>();
  std::shared_ptr<net::FrameSession> session_;
};

TEST_F(FramesSessionTest, RequestsOfAConnectionRunSideBySide) {
  Script& a = start("a");
  Script& b = start("b");
  a.say("A1", 7);
  b.say("B1");
  a.notify();
  b.notify();
  EXPECT_EQ(sender_->posted.size(), 1u);  // once for all streams
  run_posted();
  EXPECT_EQ(sender_->sent[0]["token_id"], 7);
  EXPECT_THAT(said(), ElementsAre("a token A1", "b token B1"));
  b.say("B2");
  b.finish(engine::FinishReason::kStop, "B3");
  wake(b);
  EXPECT_EQ(sender_->sent[1]["usage"],
            ordered_json::parse(R"({"prompt_tokens":5,"completion_tokens":2,"cached_tokens":3})"));
  EXPECT_EQ(sender_->sent[1]["timings"]["prompt_n"], 2);
  EXPECT_THAT(said(), ElementsAre("b token B2", "b eos stop B3"));
  EXPECT_FALSE(b.alive);
  a.finish(engine::FinishReason::kLength);
  wake(a);
  EXPECT_THAT(said(), ElementsAre("a eos length "));
  EXPECT_FALSE(sender_->ended);
}

TEST_F(FramesSessionTest, WithoutStreamTheTextComesAtOnce) {
  Script& a = start("a", false);
  a.say("one ");
  wake(a);
  a.say("two ");
  a.pending.finish.stop = "STOP";
  a.finish(engine::FinishReason::kStop, "three");
  wake(a);
  EXPECT_EQ(sender_->sent[0]["stop"], "STOP");
  EXPECT_THAT(said(), ElementsAre("a eos stop one two three"));
}

TEST_F(FramesSessionTest, AnAnswerLongerThanAFrameIsRefusedAndNotCut) {
  Script& a = start("a", false);
  a.say(std::string(net::kFrameBytesMax, 'x'));
  wake(a);
  EXPECT_THAT(said(), ElementsAre());
  a.say("x");
  wake(a);
  EXPECT_THAT(said(), ElementsAre("a error too_large"));
  EXPECT_FALSE(a.alive);
  Script& b = start("b", false);
  b.say(std::string(net::kFrameBytesMax / 2, '\n'));  // two bytes each, as JSON
  b.finish(engine::FinishReason::kStop);
  wake(b);
  EXPECT_THAT(said(), ElementsAre("b error too_large"));
}

TEST_F(FramesSessionTest, CancelEndsARequest) {
  Script& a = start("a");
  a.say("A");
  wake(a);
  message({{"id", "a"}, {"event", "cancel"}});
  EXPECT_TRUE(a.cancelled);
  a.finish(engine::FinishReason::kCancelled);
  wake(a);
  EXPECT_THAT(said(), ElementsAre("a token A", "a eos cancelled "));
  message({{"id", "a"}, {"event", "cancel"}});
  EXPECT_THAT(said(), ElementsAre("a error not_found"));
  Script& again = start("a");
  again.finish(engine::FinishReason::kCancelled);  // not by the client
  wake(again);
  EXPECT_THAT(said(), ElementsAre("a error unavailable"));
}

TEST_F(FramesSessionTest, ARunningIdIsNotTakenTwice) {
  Script& a = start("a");
  const auto first = scripts_["a"];
  message({{"id", "a"}, {"prompt", "again"}});
  EXPECT_EQ(scripts_["a"], first);
  EXPECT_THAT(sender_->sent[0]["message"].get<std::string>(), HasSubstr("\"a\" is running already"));
  message({{"id", "a"}, {"prompt", 5}});
  EXPECT_EQ(sender_->sent[1]["at"], "prompt");
  EXPECT_THAT(said(), ElementsAre("- error invalid_value", "- error invalid_value"));
  a.say("A");
  a.finish(engine::FinishReason::kStop);
  wake(a);
  EXPECT_THAT(said(), ElementsAre("a token A", "a eos stop "));
}

TEST_F(FramesSessionTest, RequestsOfAConnectionAreBounded) {
  for (size_t i = 0; i < kRunningMax; ++i) start(fmt::format("r{}", i));
  EXPECT_THAT(said(), ElementsAre());
  message({{"id", "more"}, {"prompt", "x"}});
  EXPECT_THAT(said(), ElementsAre("more error queue_full"));
  scripts_["r3"]->finish(engine::FinishReason::kStop);
  wake(*scripts_["r3"]);
  EXPECT_THAT(said(), ElementsAre("r3 eos stop "));
  start("more");
  EXPECT_THAT(said(), ElementsAre());
}

TEST_F(FramesSessionTest, WhatFailsIsSaid) {
  Script& a = start("a");
  a.say("A");
  a.finish(engine::FinishReason::kError);
  wake(a);
  EXPECT_THAT(said(), ElementsAre("a token A", "a error internal_error"));
  message("{", "frame 7");
  EXPECT_EQ(sender_->sent[0]["at"], "frame 7");
  message({{"id", "b"},
           {"messages", {{{"role", "user"}, {"content", "x"}}}},
           {"reasoning_effort", std::string(100'000, 'm')}});
  EXPECT_LT(sender_->sent[1].dump().size(), 10'000u);
  message({{"id", "c"}, {"messages", {{{"role", 5}, {"content", "x"}}}}});
  EXPECT_EQ(sender_->sent[2]["at"], "messages[0].role");
  session_->failed({Code::kTooLarge, "too much", "frame 8"});
  EXPECT_THAT(said(), ElementsAre("- error invalid_value", "b error invalid_value", "c error invalid_value",
                                  "- error too_large"));
}

TEST_F(FramesSessionTest, AConversationGoesThroughTheTemplate) {
  message({{"id", "a"}, {"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"stop", "x"}});
  const engine::GenerateRequest& request = scripts_["a"]->request;
  EXPECT_FALSE(request.prompt.empty());
  EXPECT_TRUE(request.text_at_start);
  EXPECT_THAT(request.stop, testing::Contains("x"));
}

TEST_F(FramesSessionTest, ThinkingAndCallsOfAConversationHaveEventsOfTheirOwn) {
  Script& a = start_chat("a");
  for (const auto* text : {"<think>Hm", ".</think>", "\n\nI ", "read.", "<tool_call>\n{\"name\": \"read\", \"argu",
                           "ments\": {\"a\": 1", "}}\n</tool_call>"}) {
    a.say(text);
  }
  a.finish(engine::FinishReason::kStop);
  wake(a);
  std::string text, reasoning, arguments;
  int tokens = 0;
  for (const auto& event : sender_->sent) {
    EXPECT_EQ(event["id"], "a");
    text += event.value("text", "");
    reasoning += event.value("reasoning", "");
    arguments += event.value("arguments", "");
    tokens += event["event"] == "token" ? 1 : 0;
  }
  EXPECT_EQ(tokens, 7) << "every token has its event, also where its text is no content";
  EXPECT_EQ(text, "I read.");
  EXPECT_EQ(reasoning, "Hm.");
  EXPECT_EQ(ordered_json::parse(arguments), ordered_json::parse(R"({"a": 1})"));
  const auto call = std::ranges::find_if(sender_->sent, [](const auto& event) { return event.contains("name"); });
  ASSERT_NE(call, sender_->sent.end());
  EXPECT_EQ((*call)["event"], "tool_call");
  EXPECT_EQ((*call)["index"], 0);
  EXPECT_EQ((*call)["name"], "read");
  EXPECT_THAT((*call)["call_id"].get<std::string>(), testing::StartsWith("call_"));
  const ordered_json& end = sender_->sent.back();
  EXPECT_EQ(end["event"], "eos");
  EXPECT_EQ(end["reason"], "tool_calls");
  EXPECT_FALSE(end.contains("tool_calls")) << "events have said it all";
  EXPECT_EQ(end["usage"]["reasoning_tokens"], 1) << "the token that began it was none";
}

TEST_F(FramesSessionTest, WithoutStreamAConversationsAnswerComesAtOnce) {
  Script& a = start_chat("a", {{"stream", false}});
  a.say("<think>Hm.</think>I read.");
  a.say("<tool_call>\n{\"name\": \"read\", \"arguments\": {\"a\": 1}}\n</tool_call>");
  wake(a);
  EXPECT_TRUE(sender_->sent.empty());
  a.finish(engine::FinishReason::kStop);
  wake(a);
  ASSERT_EQ(sender_->sent.size(), 1u);
  const ordered_json& end = sender_->sent[0];
  EXPECT_EQ(end["reason"], "tool_calls");
  EXPECT_EQ(end["text"], "I read.");
  EXPECT_EQ(end["reasoning"], "Hm.");
  ASSERT_EQ(end["tool_calls"].size(), 1u);
  EXPECT_EQ(end["tool_calls"][0]["name"], "read");
  EXPECT_EQ(ordered_json::parse(end["tool_calls"][0]["arguments"].get<std::string>()),
            ordered_json::parse(R"({"a": 1})"));
}

TEST_F(FramesSessionTest, ANamedToolIsWhatTheAnswerBeginsWith) {
  Script& a = start_chat("a", {{"tool_choice", {{"type", "function"}, {"function", {{"name", "read"}}}}}});
  ASSERT_FALSE(sender_->sent.empty()) << "the call's name is known before the first token";
  EXPECT_EQ(sender_->sent[0]["event"], "tool_call");
  EXPECT_EQ(sender_->sent[0]["name"], "read");
  EXPECT_TRUE(a.request.constraint);
}

TEST_F(FramesSessionTest, ACancelledConversationEndsWithWhatItHasSaid) {
  Script& a = start_chat("a", {{"stream", false}});
  a.say("Hel");
  wake(a);
  message({{"id", "a"}, {"event", "cancel"}});
  EXPECT_TRUE(a.cancelled);
  a.finish(engine::FinishReason::kCancelled);
  wake(a);
  EXPECT_EQ(sender_->sent[0]["usage"]["completion_tokens"], 2);
  EXPECT_THAT(said(), ElementsAre("a eos cancelled Hel"));
}

TEST_F(FramesSessionTest, ASampledTurnOfAConversationIsFoundAgain) {
  Script& a = start_chat("a", {{"stream", false}});
  a.say("Hello", 7);
  a.say(" you", 9);
  a.finish(engine::FinishReason::kStop);
  wake(a);
  EXPECT_THAT(said(), ElementsAre("a eos stop Hello you"));
  const std::vector<TokenId> before = a.request.prompt;
  Script& b = start_chat("b", {{"messages",
                                {{{"role", "user"}, {"content", "Hi"}},
                                 {{"role", "assistant"}, {"content", "Hello you"}},
                                 {{"role", "user"}, {"content", "Go on"}}}}});
  const std::vector<TokenId>& after = b.request.prompt;
  std::vector<TokenId> begin = before;
  begin.push_back(TokenId{7});
  begin.push_back(TokenId{9});
  ASSERT_GT(after.size(), begin.size());
  EXPECT_TRUE(std::ranges::equal(begin, std::span(after).first(begin.size()))) << "token for token as it was sampled";
}

TEST_F(FramesSessionTest, TokensWaitInTheEngineForAClientThatDoesNotRead) {
  Script& a = start("a");
  Script& b = start("b");
  Script& whole = start("whole", false);
  sender_->unsent = kUnsentBytesMax;
  for (Script* script : {&a, &b, &whole}) {
    script->say("1");
    wake(*script);
  }
  EXPECT_THAT(said(), ElementsAre());
  ASSERT_TRUE(sender_->drained);
  EXPECT_EQ(sender_->drained_at, kUnsentBytesMax / 2);
  const int drains = a.drains + b.drains + whole.drains;
  for (int i = 0; i < 10; ++i) {
    a.say("2");
    wake(a);
  }
  EXPECT_EQ(a.drains + b.drains + whole.drains, drains);  // nothing is taken while nothing can be said
  sender_->drain_to(kUnsentBytesMax - 1);                 // room for one event
  EXPECT_THAT(said(), ElementsAre("a token 1"));
  whole.finish(engine::FinishReason::kStop);
  sender_->drain_to(0);
  wake(whole);
  const auto rest = said();
  EXPECT_THAT(rest, testing::Contains("b token 1"));
  EXPECT_THAT(rest, testing::Contains("whole eos stop 1"));
  EXPECT_EQ(std::ranges::count(rest, "a token 2"), 10);
}

TEST_F(FramesSessionTest, ThatTheClientSaysNoMoreEndsTheConnectionAfterTheLastAnswer) {
  Script& a = start("a");
  session_->input_ended();
  EXPECT_FALSE(sender_->ended);
  a.say("A");
  wake(a);
  EXPECT_FALSE(sender_->ended);
  a.finish(engine::FinishReason::kStop);
  wake(a);
  EXPECT_TRUE(sender_->ended);
  const auto other = std::make_shared<FakeSender>();
  const auto idle = make_handler(service_)(other);
  idle->input_ended();
  EXPECT_TRUE(other->ended);
}

TEST_F(FramesSessionTest, WhenTheClientGoesItsRequestsGo) {
  Script& a = start("a");
  a.say("A");
  a.notify();
  session_->closed();
  EXPECT_FALSE(a.alive);
  run_posted();  // a wake-up on its way finds nothing
  session_.reset();
  run_posted();
  EXPECT_THAT(said(), ElementsAre());
  session_ = make_handler(service_)(sender_);
}

TEST_F(FramesSessionTest, MetricsAreThoseOfTheServer) {
  message({{"event", "metrics"}});
  message({{"event", "metrics"}, {"id", "m"}});
  EXPECT_EQ(sender_->sent[0]["active_requests"], 42);
  EXPECT_TRUE(sender_->sent[0].contains("pages_used"));
  EXPECT_THAT(said(), ElementsAre("- metrics", "m metrics"));
}

TEST_F(FramesSessionTest, MessagesThatComeWhileOneIsReadAreTakenInTheirOrder) {
  session_->message(R"({"id": "a", "prompt": "Once"})", "frame 1");
  session_->message(R"({"id": "a", "event": "cancel"})", "frame 2");
  session_->message("{", "frame 3");
  session_->input_ended();
  for (int i = 0; i < 3; ++i) {
    std::unique_lock lock(sender_->mutex);
    sender_->ready.wait(lock, [&] { return !sender_->posted.empty(); });
    EXPECT_EQ(sender_->posted.size(), 1u) << "the next one is read when this one has been taken";
    const auto work = std::exchange(sender_->posted, {});
    lock.unlock();
    work.front()();
  }
  EXPECT_TRUE(scripts_["a"]->cancelled);
  EXPECT_EQ(sender_->sent.back()["at"], "frame 3");
  EXPECT_FALSE(sender_->ended) << "a runs";
}

TEST_F(FramesSessionTest, WithoutMemoryForItAMessageIsRefused) {
  Service poor(registry_, {.request_bytes = 2'000});
  session_->closed();
  session_ = make_handler(poor)(sender_);
  message({{"id", "a"}, {"prompt", std::string(1'000, 'x')}});
  EXPECT_THAT(said(), ElementsAre("- error out_of_memory"));
  EXPECT_TRUE(scripts_.empty());
  EXPECT_EQ(poor.bytes()->used(), 0);
  session_->closed();
  session_ = make_handler(service_)(sender_);
}

}  // namespace
}  // namespace cairn::api::frames
