// Answers of libcairn: events, whole bodies, many at once, and those that are cancelled.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "library/library.h"

namespace cairn::library {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

/// One model for all tests, which therefore leave nothing running.
class Answers : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = open(guide_file(), {{"ctx", 1024}, {"parallel", 4}}); }
  static void TearDownTestSuite() { model_.reset(); }
  static cairn_model* model() { return model_.get(); }

  static std::vector<Choice> ask(const json& request) { return read(chat(model(), request).get()); }
  /// An answer that takes long enough to be interrupted.
  static json long_request(int tokens = 900) {
    // Noise, which does not repeat itself.
    return {{"prompt", "Cairn"}, {"max_tokens", tokens}, {"ignore_eos", true}, {"temperature", 4},
            {"top_p", 1},        {"min_p", 0},           {"top_k", 0},         {"seed", 1}};
  }
  /// Waits until the engine has nothing to do.
  static bool idle() {
    for (int i = 0; i < 500; ++i) {
      const json now = stats(model());
      if (now["active_requests"] == 0 && now["waiting_requests"] == 0) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

 private:
  static inline Handle<cairn_model> model_;
};

TEST_F(Answers, EventsAndTheBodySayTheSame) {
  const auto stream = chat(model(), conversation("Who are you?", {{"seed", 7}, {"n", 2}, {"temperature", 1}}));
  const auto choices = read(stream.get());
  const json body = response(stream.get());
  ASSERT_EQ(choices.size(), 2U);
  ASSERT_EQ(body["choices"].size(), 2U);
  int64_t tokens = 0;
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(body["choices"][i]["message"]["content"], choices[i].text);
    EXPECT_EQ(body["choices"][i]["finish_reason"], choices[i].finish);
    EXPECT_FALSE(choices[i].text.empty());
    tokens += static_cast<int64_t>(choices[i].tokens.size()) + (choices[i].finish == "stop" ? 1 : 0);
  }
  EXPECT_EQ(body["usage"]["completion_tokens"], tokens);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "guide");
  // The end stays the end.
  cairn_event event{};
  EXPECT_EQ(cairn_stream_next(stream.get(), 0, &event, nullptr), CAIRN_NEXT_EVENT);
  EXPECT_EQ(event.type, CAIRN_EVENT_END);
  EXPECT_EQ(event.choice, -1);
}

TEST_F(Answers, TheTokensOfEventsAreTheText) {
  const auto stream = complete(model(), {{"prompt", "Cairn is"}, {"max_tokens", 20}, {"seed", 3}});
  const auto choices = read(stream.get());
  ASSERT_EQ(choices.size(), 1U);
  Failure error;
  size_t size = 0;
  const auto text =
      ok(cairn_detokenize(model(), choices[0].tokens.data(), choices[0].tokens.size(), &size, error), error);
  EXPECT_EQ(std::string(text.get(), size), choices[0].text);
  EXPECT_EQ(response(stream.get())["choices"][0]["text"], choices[0].text);
}

TEST_F(Answers, TheSameSeedGivesTheSameText) {
  const json request = conversation("What is a slot?", {{"seed", 5}, {"temperature", 1.5}, {"min_p", 0}, {"top_p", 1}});
  const auto first = ask(request), second = ask(request);
  EXPECT_EQ(first[0].text, second[0].text);
  json other = request;
  bool differs = false;
  for (int seed = 6; seed < 12 && !differs; ++seed) {
    other["seed"] = seed;
    differs = ask(other)[0].text != first[0].text;
  }
  EXPECT_TRUE(differs) << "no other seed gives another text";
}

TEST_F(Answers, AFormHolds) {
  const json schema = {{"type", "object"},
                       {"properties",
                        {{"name", {{"type", "string"}, {"maxLength", 10}}},
                         {"age", {{"type", "integer"}, {"minimum", 0}, {"maximum", 99}}}}},
                       {"required", {"name", "age"}},
                       {"additionalProperties", false}};
  const auto choices = ask(conversation(
      "Who are you?",
      {{"seed", 1},
       {"max_tokens", 200},
       {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "person"}, {"schema", schema}}}}}}));
  ASSERT_EQ(choices[0].finish, "stop");
  const json read_back = json::parse(choices[0].text);
  EXPECT_TRUE(read_back["name"].is_string());
  EXPECT_TRUE(read_back["age"].is_number_integer());
}

TEST_F(Answers, ToolsAreCalled) {
  const json parameters = {{"type", "object"}, {"properties", {{"ok", {{"type", "boolean"}}}}}, {"required", {"ok"}}};
  const json tool = {{"type", "function"}, {"function", {{"name", "confirm"}, {"parameters", parameters}}}};
  const auto stream = chat(model(), conversation("Confirm.", {{"tools", {tool}},
                                                              {"tool_choice", "required"},
                                                              {"parallel_tool_calls", false},
                                                              {"max_tokens", 100},
                                                              {"seed", 1}}));
  const auto choices = read(stream.get());
  ASSERT_EQ(choices[0].calls.size(), 1U);
  EXPECT_EQ(choices[0].calls[0].first, "confirm");
  EXPECT_TRUE(json::parse(choices[0].calls[0].second)["ok"].is_boolean());
  EXPECT_EQ(choices[0].finish, "tool_calls");
  const json call = response(stream.get())["choices"][0]["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "confirm");
  EXPECT_EQ(call["function"]["arguments"], choices[0].calls[0].second);
}

TEST_F(Answers, SixteenThreadsAtOnceGetWhatEachGetsAlone) {
  constexpr size_t kThreads = 16;
  const auto request = [](size_t i) {
    return conversation("Tell me about number " + std::to_string(i) + ".", {{"seed", i}, {"temperature", 1}});
  };
  std::vector<std::string> alone(kThreads), together(kThreads);
  for (size_t i = 0; i < kThreads; ++i) alone[i] = ask(request(i))[0].text;
  std::vector<std::thread> threads;
  std::atomic<size_t> waiting = kThreads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (--waiting; waiting > 0;) std::this_thread::yield();
      together[i] = ask(request(i))[0].text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alone, together);
}

TEST_F(Answers, OneThreadHasManyAtOnce) {
  constexpr size_t kStreams = 24;
  std::vector<Handle<cairn_stream>> streams;
  for (size_t i = 0; i < kStreams; ++i)
    streams.push_back(chat(model(), conversation("Hello", {{"seed", i}, {"temperature", 1}, {"n", 2}})));
  std::vector<std::vector<Choice>> choices(kStreams);
  size_t running = kStreams;
  std::vector<bool> over(kStreams);
  while (running > 0) {
    for (size_t i = 0; i < kStreams; ++i) {
      if (over[i]) continue;
      cairn_event event{};
      const cairn_next next = cairn_stream_next(streams[i].get(), 1, &event, nullptr);
      ASSERT_NE(next, CAIRN_NEXT_FAILED);
      if (next == CAIRN_NEXT_TIMEOUT) continue;
      add(event, choices[i]);
      over[i] = event.type == CAIRN_EVENT_END;
      running -= over[i] ? 1 : 0;
    }
  }
  for (const auto& each : choices) {
    ASSERT_EQ(each.size(), 2U);
    for (const Choice& choice : each) EXPECT_TRUE(choice.finish == "stop" || choice.finish == "length");
  }
}

TEST_F(Answers, AnotherThreadCancels) {
  const int64_t before = stats(model())["cancelled_requests"];
  const auto stream = complete(model(), long_request());
  cairn_event event{};
  ASSERT_EQ(cairn_stream_next(stream.get(), -1, &event, nullptr), CAIRN_NEXT_EVENT);
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    cairn_stream_cancel(stream.get());
  });
  const auto choices = read(stream.get());
  other.join();
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0].finish, "cancelled");
  EXPECT_LT(choices[0].tokens.size(), 900U);
  Failure error;
  EXPECT_EQ(cairn_stream_response(stream.get(), nullptr, error), nullptr);
  EXPECT_EQ(error.code(), CAIRN_CANCELLED);
  EXPECT_EQ(error.message(), "the answer has been cancelled");
  EXPECT_TRUE(idle());
  EXPECT_EQ(stats(model())["cancelled_requests"], before + 1);
}

TEST_F(Answers, WhoWaitsForOthersCanStopWaiting) {
  const auto busy = open(guide_file(), {{"ctx", 1024}, {"parallel-max", 1}});
  const auto running = complete(busy.get(), long_request());
  std::thread reader([&] { read(running.get()); });
  const auto waiting = complete(busy.get(), long_request());
  // Nothing comes of it as long as the other one runs.
  cairn_event event{};
  EXPECT_EQ(cairn_stream_next(waiting.get(), 0, &event, nullptr), CAIRN_NEXT_TIMEOUT);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(cairn_stream_next(waiting.get(), 20, &event, nullptr), CAIRN_NEXT_TIMEOUT);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
  std::thread other([&] {
    std::this_thread::sleep_for(5ms);
    cairn_stream_cancel(waiting.get());
  });
  const auto choices = read(waiting.get());
  other.join();
  cairn_stream_cancel(running.get());
  reader.join();
  EXPECT_EQ(choices.at(0).finish, "cancelled");
  EXPECT_TRUE(choices.at(0).tokens.empty());
}

TEST_F(Answers, ACallbackCancels) {
  const auto stream = complete(model(), long_request());
  int events = 0;
  Failure error;
  const auto stop_at_third = [](const cairn_event*, void* user) { return ++*static_cast<int*>(user) >= 3 ? 1 : 0; };
  EXPECT_EQ(cairn_stream_run(stream.get(), stop_at_third, &events, error), CAIRN_CANCELLED);
  EXPECT_EQ(error.code(), CAIRN_CANCELLED);
  EXPECT_LT(events, 900);
  EXPECT_TRUE(idle());
}

TEST_F(Answers, ACallbackGetsTheWholeAnswer) {
  const json request = conversation("Who are you?", {{"seed", 2}});
  const auto stream = chat(model(), request);
  std::vector<Choice> choices;
  const auto keep = [](const cairn_event* event, void* user) {
    add(*event, *static_cast<std::vector<Choice>*>(user));
    return 0;
  };
  EXPECT_EQ(cairn_stream_run(stream.get(), keep, &choices, nullptr), CAIRN_OK);
  EXPECT_EQ(choices.at(0).text, ask(request).at(0).text);
}

TEST_F(Answers, ClosingCancels) {
  complete(model(), long_request()).reset();
  EXPECT_TRUE(idle());
}

TEST_F(Answers, WarningsNameWhatHasNoEffect) {
  const auto stream = chat(model(), conversation("Hi", {{"frobnicate", 1}}));
  Failure error;
  const auto warnings = ok(cairn_stream_warnings(stream.get(), nullptr, error), error);
  const json list = json::parse(warnings.get());
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].get<std::string>().find("frobnicate"), std::string::npos);
  read(stream.get());
}

TEST_F(Answers, TheBodyIsThereAtTheEndOnly) {
  const auto stream = complete(model(), long_request());
  Failure error;
  EXPECT_EQ(cairn_stream_response(stream.get(), nullptr, error), nullptr);
  EXPECT_EQ(error.code(), CAIRN_INVALID_ARGUMENT);
}

TEST_F(Answers, AStreamKeepsTheModelThatIsClosed) {
  auto other = open(guide_file());
  const json request = conversation("Who are you?", {{"seed", 2}});
  const auto stream = chat(other.get(), request);
  other.reset();
  EXPECT_EQ(read(stream.get()).at(0).text, ask(request).at(0).text);
}

TEST_F(Answers, AChildProcessIsRefused) {
  const auto stream = complete(model(), long_request());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Failure error, of_stream;
    cairn_event event{};
    const bool refused = cairn_chat(model(), R"({"messages":[]})", error) == nullptr &&
                         error.code() == CAIRN_UNAVAILABLE && error.message().find("fork()") != std::string::npos &&
                         cairn_stream_next(stream.get(), -1, &event, of_stream) == CAIRN_NEXT_FAILED &&
                         of_stream.code() == CAIRN_UNAVAILABLE;
    cairn_stream_close(stream.get());  // both do nothing, and return
    cairn_model_close(model());
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // The parent goes on.
  cairn_event event{};
  EXPECT_EQ(cairn_stream_next(stream.get(), -1, &event, nullptr), CAIRN_NEXT_EVENT);
}

TEST_F(Answers, DraftsChangeNoAnswer) {
  const auto drafting = open(guide_file(), {{"ctx", 1024}, {"draft", guide_file()}, {"speculate", 4}});
  for (const double temperature : {0.0, 1.0}) {
    const json request = conversation("What can Cairn do?", {{"seed", 4}, {"temperature", temperature}});
    EXPECT_EQ(read(chat(drafting.get(), request).get())[0].text, ask(request)[0].text);
  }
}

}  // namespace
}  // namespace cairn::library
