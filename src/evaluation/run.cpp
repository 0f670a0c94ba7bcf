#include "evaluation/run.h"

#include <algorithm>
#include <utility>

namespace cairn::evaluation {

QuestionRun::QuestionRun(std::span<const Question> questions, int32_t parallel, Ask ask, bool begins)
    : questions_(questions), ask_(std::move(ask)), states_(questions.size()), paused_(!begins) {
  for (int32_t i = 0; i < parallel; ++i) threads_.emplace_back([this] { work(); });
}

QuestionRun::~QuestionRun() { stop(); }

void QuestionRun::pause() {
  const std::scoped_lock lock(mutex_);
  paused_ = true;
}

void QuestionRun::go_on() {
  const std::scoped_lock lock(mutex_);
  paused_ = false;
  changed_.notify_all();
}

bool QuestionRun::paused() const {
  const std::scoped_lock lock(mutex_);
  return paused_;
}

void QuestionRun::ask(size_t index) {
  const std::scoped_lock lock(mutex_);
  if (states_[index].progress == Progress::kAsked || std::ranges::find(wanted_, index) != wanted_.end()) return;
  states_[index] = {};
  wanted_.push_back(index);
  changed_.notify_all();
}

void QuestionRun::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

QuestionState QuestionRun::state(size_t index) const {
  const std::scoped_lock lock(mutex_);
  return states_[index];
}

size_t QuestionRun::done() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<size_t>(std::ranges::count(states_, Progress::kDone, &QuestionState::progress));
}

size_t QuestionRun::right() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<size_t>(std::ranges::count_if(states_, [](const QuestionState& state) {
    return state.progress == Progress::kDone && state.grade.outcome == Outcome::kRight;
  }));
}

bool QuestionRun::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] {
    return stopped_ ||
           std::ranges::all_of(states_, [](const QuestionState& state) { return state.progress == Progress::kDone; });
  });
}

std::optional<size_t> QuestionRun::next() {
  if (!wanted_.empty()) {
    const size_t index = wanted_.front();
    wanted_.pop_front();
    return index;
  }
  if (paused_) return {};
  while (first_ < states_.size() && states_[first_].progress != Progress::kWaiting) ++first_;
  return first_ < states_.size() ? std::optional(first_) : std::nullopt;
}

void QuestionRun::work() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    const std::optional<size_t> index = next();
    if (!index) {
      changed_.wait(lock);
      continue;
    }
    states_[*index].progress = Progress::kAsked;
    lock.unlock();
    std::optional<Answer> answer = ask_(questions_[*index]);
    lock.lock();
    QuestionState& state = states_[*index];
    if (!answer) {
      state = {};
      stopped_ = true;  // whoever gives no answer was told to stop
    } else {
      state.grade = grade(questions_[*index], *answer);
      state.answer = *std::move(answer);
      state.progress = Progress::kDone;
    }
    changed_.notify_all();
  }
}

}  // namespace cairn::evaluation
