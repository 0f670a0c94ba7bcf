/// A fixed team of threads that runs one loop at a time: fork-join for the operations of a model step.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace cairn {

/// The calling thread is a member of the team, so ThreadPool(1) starts no thread. Chunks are claimed, not assigned, and
/// a loop waits for claimed chunks only: when another process takes a core, the rest of the team does the work and does
/// not wait for the member without a core. What a chunk computes must therefore not depend on who runs it. Waiting
/// spins for a moment and then sleeps. Nothing here allocates after construction.
class ThreadPool {
 public:
  /// `threads` >= 1, including the caller. Throws std::system_error if a thread cannot be started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(begin, end, member) over [0, count) in chunks of `grain` (the last may be shorter) and returns when all
  /// are done. `member` is 0 .. threads() - 1 and never runs two chunks at once. At most 2^31 chunks. Not reentrant;
  /// one caller at a time.
  void parallel_for(int64_t count, int64_t grain, FunctionRef<void(int64_t begin, int64_t end, int member)> body);

 private:
  struct Loop {
    int64_t count = 0;
    int64_t grain = 1;
    uint32_t chunks = 0;
    const FunctionRef<void(int64_t, int64_t, int)>* body = nullptr;
  };
  // A counter that one side changes and the other waits for.
  struct alignas(64) Signal {
    std::atomic<uint32_t> value{0};
    std::atomic<uint32_t> sleepers{0};
    void wait_while(uint32_t old);
    void wake();
  };
  void worker(int member);
  void end();
  void run_chunks(int member);

  Loop loop_;          // read only by members that hold a claimed chunk of it
  Signal unclaimed_;   // chunks of the loop that are not claimed yet, or kStop
  Signal unfinished_;  // chunks of the loop that are not done
  std::vector<std::thread> workers_;
};

}  // namespace cairn
