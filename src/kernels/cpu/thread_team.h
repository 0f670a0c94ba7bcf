/// The backend's threads, and the size of the chunks into which work is divided among them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/function_ref.h"
#include "base/system/thread_pool.h"

namespace cairn::kernels::cpu {

class ThreadTeam {
 public:
  explicit ThreadTeam(int threads) : pool_(threads) {}

  int threads() const { return pool_.threads(); }

  /// The smallest number of items that is worth handing to a thread, if each takes about `item_ns` nanoseconds.
  static int64_t chunk_least(double item_ns) {
    return static_cast<int64_t>(std::ceil(kChunkNsMin / std::max(item_ns, 1e-3)));
  }

  /// A good chunk size for `items` items, a multiple of `multiple`.
  int64_t chunk_items(int64_t items, double item_ns, int64_t multiple) const {
    const int64_t even = items / (threads() * kChunksPerThread) + 1;
    const int64_t chunk = std::max(chunk_least(item_ns), even);
    return (chunk + multiple - 1) / multiple * multiple;
  }

  /// The largest of the chunk sizes between `most` / 2 and `most`, in steps of `multiple`, with which the last member
  /// finishes earliest if all members are equally fast.
  int64_t balanced_chunk(int64_t items, int64_t most, int64_t multiple) const {
    int64_t best = most;
    int64_t least = items;
    for (int64_t chunk = most; chunk < items && 2 * chunk > most; chunk -= multiple) {
      const int64_t round = threads() * chunk;
      const int64_t longest = items / round * chunk + std::min(items % round, chunk);
      if (longest < least) {
        least = longest;
        best = chunk;
      }
    }
    return best;
  }

  /// Calls body(begin, end, member) over [0, count) on whichever threads are free; `member` as in ThreadPool.
  void run(int64_t count, int64_t chunk, FunctionRef<void(int64_t, int64_t, int)> body) {
    pool_.parallel_for(count, chunk, body);
  }

  /// Runs body() as run() does, with the chunk size of chunk_items.
  void run_items(int64_t count, double item_ns, int64_t multiple, FunctionRef<void(int64_t, int64_t, int)> body) {
    pool_.parallel_for(count, chunk_items(count, item_ns, multiple), body);
  }

 private:
  // Handing out a chunk costs about 1 us when the team is awake; shorter work stays with the caller.
  static constexpr double kChunkNsMin = 8e3;
  // Chunks per thread: several, so that members that started late or lost their core for a while do not delay the
  // others.
  static constexpr int64_t kChunksPerThread = 16;

  ThreadPool pool_;
};

}  // namespace cairn::kernels::cpu
