#include "evaluation/run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cairn::evaluation {
namespace {

using namespace std::chrono_literals;

std::vector<Question> numbered(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += R"({"id":"q)" + std::to_string(i) + R"(","kind":"number","question":"q","answer":1})" + "\n";
  return *read_questions(text, "test");
}

TEST(Run, AsksEveryQuestionOnceAndSeveralAtOnce) {
  const auto questions = numbered(20);
  std::atomic<int> now = 0, most = 0, calls = 0;
  QuestionRun run(questions, 4, [&](const Question&) {
    const int running = ++now;
    for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
    }
    std::this_thread::sleep_for(5ms);
    --now;
    return Answer{.content = std::to_string(++calls % 2)};
  });
  ASSERT_TRUE(run.wait(60s));
  EXPECT_EQ(calls, 20);
  EXPECT_EQ(run.done(), 20U);
  EXPECT_EQ(run.right(), 10U);
  EXPECT_LE(most, 4);
  EXPECT_GE(most, 2);
}

TEST(Run, PausedItAsksOnlyWhatIsWanted) {
  const auto questions = numbered(5);
  std::mutex mutex;
  std::vector<std::string> asked;
  QuestionRun run(
      questions, 1,
      [&](const Question& question) {
        const std::scoped_lock lock(mutex);
        asked.push_back(question.id);
        return Answer{.content = "1"};
      },
      false);
  EXPECT_FALSE(run.wait(30ms));
  EXPECT_EQ(run.done(), 0U);
  run.ask(3);
  while (run.state(3).progress != Progress::kDone) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(run.done(), 1U);
  run.ask(3);  // once more
  while (run.state(3).progress != Progress::kDone) std::this_thread::sleep_for(1ms);
  run.go_on();
  ASSERT_TRUE(run.wait(60s));
  EXPECT_EQ(asked, (std::vector<std::string>{"q3", "q3", "q0", "q1", "q2", "q4"}));
}

TEST(Run, WithoutAnAnswerItStops) {
  const auto questions = numbered(50);
  QuestionRun run(questions, 2, [](const Question&) { return std::optional<Answer>(); });
  ASSERT_TRUE(run.wait(60s));
  EXPECT_EQ(run.done(), 0U);
}

}  // namespace
}  // namespace cairn::evaluation
