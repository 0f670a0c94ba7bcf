#include "base/system/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <system_error>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cairn {
namespace {

// How long a member spins: longer than the gap between two operations of a step, far shorter than a scheduler's time
// slice, so that an idle or crowded team soon gives its cores back.
constexpr auto kSpinMax = std::chrono::microseconds(20);
constexpr uint32_t kStop = std::numeric_limits<uint32_t>::max();

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

// Returns when value != old.
void ThreadPool::Signal::wait_while(uint32_t old) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinMax;
  do {
    for (int i = 0; i < 16; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  // Sequentially consistent with the change of `value` before wake(): either that sees this sleeper, or wait() sees
  // the change.
  sleepers.fetch_add(1);
  value.wait(old);
  sleepers.fetch_sub(1);
}

// Called after `value` was changed by a read-modify-write or exchange.
void ThreadPool::Signal::wake() {
  if (sleepers.load() > 0) value.notify_all();
}

ThreadPool::ThreadPool(int threads) {
  CAIRN_CHECK(threads >= 1);
  workers_.reserve(threads - 1);
  try {
    for (int member = 1; member < threads; ++member) workers_.emplace_back([this, member] { worker(member); });
  } catch (const std::system_error&) {
    end();
    throw;
  }
}

ThreadPool::~ThreadPool() { end(); }

void ThreadPool::end() {
  unclaimed_.value.exchange(kStop);
  unclaimed_.wake();
  for (auto& thread : workers_) thread.join();
}

void ThreadPool::parallel_for(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> body) {
  CAIRN_DCHECK(grain >= 1);
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count), 0);
    return;
  }
  const int64_t chunks = (count - 1) / grain + 1;
  CAIRN_CHECK(chunks <= int64_t{1} << 31);
  loop_ = {count, grain, static_cast<uint32_t>(chunks), &body};
  unfinished_.value.store(loop_.chunks, std::memory_order_relaxed);
  unclaimed_.value.exchange(loop_.chunks);
  unclaimed_.wake();
  run_chunks(0);
  for (uint32_t left; (left = unfinished_.value.load(std::memory_order_acquire)) != 0;) unfinished_.wait_while(left);
}

void ThreadPool::run_chunks(int member) {
  uint32_t done = 0;
  uint32_t left = unclaimed_.value.load(std::memory_order_relaxed);
  while (left != 0 && left != kStop) {
    // A successful claim keeps the loop open until the chunk is counted as done, so loop_ is read after it. Whether
    // `left` was read in this loop or in an earlier one does not matter: its value is that of the current loop.
    if (!unclaimed_.value.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel, std::memory_order_relaxed))
      continue;
    const int64_t begin = static_cast<int64_t>(loop_.chunks - left) * loop_.grain;
    (*loop_.body)(begin, std::min(begin + loop_.grain, loop_.count), member);
    ++done;
    left = unclaimed_.value.load(std::memory_order_relaxed);
  }
  // Counted once for all chunks of this member: until then the loop stays open.
  if (done != 0 && unfinished_.value.fetch_sub(done) == done) unfinished_.wake();
}

void ThreadPool::worker(int member) {
  while (true) {
    const uint32_t left = unclaimed_.value.load(std::memory_order_relaxed);
    if (left == kStop) return;
    if (left == 0) {
      unclaimed_.wait_while(0);
    } else {
      run_chunks(member);
    }
  }
}

}  // namespace cairn
