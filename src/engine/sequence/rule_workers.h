/// Threads on which constraints find out what may come next, where that takes long: the step goes on without them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/decoding_constraint.h"

namespace cairn::engine {

/// A constraint that is at work on a rule. Nobody else uses it until `done`.
struct RuleWork {
  std::shared_ptr<DecodingConstraint> constraint;
  NextTokenRule rule;
  bool was_slow = false;  ///< the answer has waited for an earlier rule longer than a step does
  std::atomic<bool> dropped = false;
  std::atomic<bool> done = false;
};

/// Thread: the engine's. A work may be let go of while a thread is at it.
class RuleWorkers {
 public:
  /// The first takes only works of answers that were quick so far: a slow one does not hold them up.
  static constexpr size_t kThreads = 3;
  /// How long a step waits for rules: most take less, and then the answer misses no step.
  static constexpr std::chrono::microseconds kStepWaitMax{2'000};

  RuleWorkers() = default;
  /// Waits for the works that threads are at, each of which has a limit of its own.
  ~RuleWorkers();
  RuleWorkers(const RuleWorkers&) = delete;
  RuleWorkers& operator=(const RuleWorkers&) = delete;

  /// Finishes the rule on some thread, and waits for it as long as this step may.
  void submit(std::shared_ptr<RuleWork> work);
  void begin_step() { waited_ = {}; }
  /// Lets go of a constraint on another thread, as that may take long, too.
  void release(std::shared_ptr<DecodingConstraint> constraint);

 private:
  bool start();
  void push(std::shared_ptr<RuleWork> work);
  void run(bool quick_only);

  std::chrono::nanoseconds waited_{};  // in this step
  std::vector<std::thread> threads_;   // started when the first work comes
  std::mutex mutex_;                   // guards the next three
  bool stopped_ = false;
  std::deque<std::shared_ptr<RuleWork>> quick_, slow_;
  std::condition_variable wake_;
  std::condition_variable finished_;
};

}  // namespace cairn::engine
