/// Which question of a set is asked next, of how many at once, and what has come of each.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "evaluation/grading.h"
#include "evaluation/question.h"

namespace cairn::evaluation {

enum class Progress : uint8_t { kWaiting, kAsked, kDone };

struct QuestionState {
  Progress progress = Progress::kWaiting;
  Answer answer{};
  Grade grade{};
};

/// Asks the questions on so many threads, in the set's order, until all are answered or stop() is called. Thread-safe.
class QuestionRun {
 public:
  /// Answers one question. Called on several threads at once, for different questions. Nothing: it was stopped.
  using Ask = std::function<std::optional<Answer>(const Question& question)>;

  /// The questions outlive the run. Without `begins`, it waits for go_on() or ask().
  QuestionRun(std::span<const Question> questions, int32_t parallel, Ask ask, bool begins = true);
  /// Waits for what is being asked.
  ~QuestionRun();
  QuestionRun(const QuestionRun&) = delete;
  QuestionRun& operator=(const QuestionRun&) = delete;

  /// What is being asked is answered, and nothing else is asked.
  void pause();
  void go_on();
  bool paused() const;
  /// Asks this question before all others, also while paused, and once more if it has been answered.
  void ask(size_t index);
  /// Asks nothing any more.
  void stop();

  QuestionState state(size_t index) const;
  size_t done() const;
  size_t right() const;
  /// Waits until every question is answered, stop() was called, or the time has passed; whether nothing is left to do.
  bool wait(std::chrono::milliseconds time);

 private:
  void work();
  std::optional<size_t> next();

  const std::span<const Question> questions_;
  const Ask ask_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<QuestionState> states_;
  std::deque<size_t> wanted_;  // before all others
  size_t first_ = 0;           // no question before it waits
  bool paused_;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;  // the last member: they use the others
};

}  // namespace cairn::evaluation
