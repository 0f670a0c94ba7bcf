#include "base/thread_pool.h"

#include <algorithm>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cairn {
namespace {

// About 20 us: longer than the gap between two operations of a step, far shorter than a scheduler's time slice, so an
// idle or crowded team soon gives its cores back.
constexpr int kSpinsMax = 500;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Returns when value != old.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpinsMax; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  CAIRN_CHECK(threads >= 1);
  workers_.reserve(threads - 1);
  for (int member = 1; member < threads; ++member) workers_.emplace_back([this, member] { worker(member); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (auto& thread : workers_) thread.join();
}

void ThreadPool::parallel_for(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> body) {
  CAIRN_DCHECK(grain >= 1);
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count), 0);
    return;
  }
  loop_ = {count, grain, &body};
  next_.store(0, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  run_chunks(0);
  const auto team = static_cast<uint32_t>(workers_.size());
  for (uint32_t done; (done = finished_.load(std::memory_order_acquire)) != team;) wait_for_change(finished_, done);
}

void ThreadPool::run_chunks(int member) {
  const Loop loop = loop_;
  while (true) {
    const int64_t begin = next_.fetch_add(loop.grain, std::memory_order_relaxed);
    if (begin >= loop.count) return;
    (*loop.body)(begin, std::min(begin + loop.grain, loop.count), member);
  }
}

void ThreadPool::worker(int member) {
  uint32_t seen = 0;
  while (true) {
    wait_for_change(started_, seen);
    // A loop starts only after every worker finished the one before, so at most one start can be pending.
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    run_chunks(member);
    finished_.fetch_add(1, std::memory_order_release);
    finished_.notify_one();
  }
}

}  // namespace cairn
