/// Threads for what the server's thread must not do: reading bodies, templating, tokenising, and waiting for a disk.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace cairn::api {

/// Jobs of up to so many bytes have a thread of their own.
inline constexpr int64_t kSmallJobBytes = 64 << 10;

/// Thread-safe. Of the jobs that wait, the one is next that came first, but for a byte of its size counting as
/// kJobTimePerByte of waiting: nobody waits long behind somebody's large body, and a large one's turn comes too.
class Workers {
 public:
  static constexpr std::chrono::nanoseconds kJobTimePerByte{100};
  /// How often an idle thread runs `idle`.
  static constexpr std::chrono::milliseconds kIdleInterval{1'000};

  /// With two threads or more the first takes only small jobs. `idle` runs on one of them, now and then. Jobs answer
  /// for what they throw; what they cannot, ends them.
  Workers(int threads, size_t waiting_max, std::function<void()> idle = {});
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// False, and the job is dropped: `waiting_max` wait already, or it has been stopped.
  [[nodiscard]] bool submit(std::move_only_function<void()> job, int64_t bytes);
  /// Waits for the jobs that run, and drops those that wait. May be called again.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  using Jobs = std::multimap<Clock::time_point, std::move_only_function<void()>>;

  void run(bool small_only);
  /// Where the next job for a thread is; null: there is none. mutex_ is held.
  Jobs* next(bool small_only);

  const size_t waiting_max_;
  const std::function<void()> idle_;
  std::mutex mutex_;  // guards the next four
  std::condition_variable wake_;
  Jobs small_, large_;
  Clock::time_point idled_{};
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cairn::api
