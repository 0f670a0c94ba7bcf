/// The backend's threads, and how long a piece of work must be to be worth handing out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/function_ref.h"
#include "base/system/thread_pool.h"

namespace cairn::cpu {

class ThreadTeam {
 public:
  explicit ThreadTeam(int threads) : pool_(threads) {}

  int threads() const { return pool_.threads(); }

  /// How many items of `item_ns` nanoseconds each, roughly, make the smallest chunk that is worth handing out.
  static int64_t chunk_least(double item_ns) {
    return static_cast<int64_t>(std::ceil(kChunkNsMin / std::max(item_ns, 1e-3)));
  }

  /// How many of `items` make a good chunk. A multiple of `multiple`.
  int64_t chunk_items(int64_t items, double item_ns, int64_t multiple) const {
    const int64_t even = items / (threads() * kChunksPerThread) + 1;
    const int64_t chunk = std::max(chunk_least(item_ns), even);
    return (chunk + multiple - 1) / multiple * multiple;
  }

  /// The largest chunk of those between half of `most` and `most`, a multiple of `multiple`, with which the last member
  /// is done first if all are equally fast.
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

  /// body(begin, end, member) over [0, count), by whoever is free; `member` as in ThreadPool.
  void run(int64_t count, int64_t chunk, FunctionRef<void(int64_t, int64_t, int)> body) {
    pool_.parallel_for(count, chunk, body);
  }

  /// The same, in chunks that chunk_items finds.
  void run_items(int64_t count, double item_ns, int64_t multiple, FunctionRef<void(int64_t, int64_t, int)> body) {
    pool_.parallel_for(count, chunk_items(count, item_ns, multiple), body);
  }

 private:
  // Handing a chunk out costs about 1 us with the team awake; what is shorter than this stays with the caller.
  static constexpr double kChunkNsMin = 8e3;
  // Several, so that members that started late or lost their core for a while do not hold up the rest.
  static constexpr int64_t kChunksPerThread = 16;

  ThreadPool pool_;
};

}  // namespace cairn::cpu
