#include "bench/load.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace cairn::bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TimePoint end_of(const TrafficOptions& options) {
  if (options.seconds <= 0) return TimePoint::max();
  return steady_clock::now() +
         std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(options.seconds));
}

void run_closed(const TrafficOptions& options, const SendOne& send, const std::atomic<bool>& interrupted) {
  std::atomic<int64_t> next = 0;
  const TimePoint end = end_of(options);
  const auto client = [&] {
    while (!interrupted.load()) {
      const TimePoint now = steady_clock::now();
      if (now >= end) return;
      const int64_t index = next.fetch_add(1);
      if (index >= options.requests) return;
      send(index, now);
    }
  };
  std::vector<std::jthread> clients;
  for (int i = 0; i < options.clients; ++i) clients.emplace_back(client);
}

/// Has as many threads as requests are in flight, at most kInFlightMax.
class Senders {
 public:
  explicit Senders(const SendOne& send) : send_(send) {}
  ~Senders() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    ready_.notify_all();
  }

  /// False if kInFlightMax threads are busy.
  bool submit(int64_t index, TimePoint due) {
    {
      const std::lock_guard lock(mutex_);
      const bool idle = idle_ > queue_.size();
      if (!idle && threads_.size() >= kInFlightMax) return false;
      queue_.emplace_back(index, due);
      if (!idle) threads_.emplace_back([this] { work(); });
    }
    ready_.notify_one();
    return true;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      ready_.wait(lock, [this] { return done_ || !queue_.empty(); });
      --idle_;
      if (queue_.empty()) return;
      const auto [index, due] = queue_.front();
      queue_.pop_front();
      lock.unlock();
      send_(index, due);
      lock.lock();
    }
  }

  const SendOne& send_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable ready_;
  std::deque<std::pair<int64_t, TimePoint>> queue_;
  size_t idle_ = 0;
  bool done_ = false;
  std::vector<std::jthread> threads_;  // last member: threads end before the rest is destroyed
};

void run_open(const TrafficOptions& options, const SendOne& send, const DropOne& drop,
              const std::atomic<bool>& interrupted) {
  std::mt19937_64 random(options.seed);
  const TimePoint end = end_of(options);
  Senders senders(send);
  TimePoint due = steady_clock::now();
  for (int64_t index = 0; index < options.requests; ++index) {
    // Exponential gaps, computed here because the library's distribution differs between implementations.
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const std::chrono::duration<double> gap(-std::log1p(-uniform) / options.rate);
    due += std::chrono::duration_cast<steady_clock::duration>(gap);
    if (due >= end) return;
    while (!interrupted.load() && steady_clock::now() < due) {
      std::this_thread::sleep_until(std::min(due, steady_clock::now() + 100ms));
    }
    if (interrupted.load()) return;
    if (!senders.submit(index, due)) drop(index, due);
  }
}

}  // namespace

void run_load(const TrafficOptions& options, const SendOne& send, const DropOne& drop,
              const std::atomic<bool>& interrupted) {
  if (options.rate > 0) return run_open(options, send, drop, interrupted);
  run_closed(options, send, interrupted);
}

}  // namespace cairn::bench
