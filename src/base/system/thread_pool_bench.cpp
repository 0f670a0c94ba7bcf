// Measures how long loops of a model step take on an idle machine, and beside a process that never sleeps on one of the
// cores. Arguments: threads, chunks of a loop, microseconds of a chunk (about), whether the other process runs.
//   base_bench --benchmark_filter=Loops --benchmark_min_time=2
#include <benchmark/benchmark.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/system/thread_pool.h"

namespace {

// A process that keeps the last core of this one's affinity mask busy while the object lives.
class BusyProcess {
 public:
  BusyProcess() {
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t mask;
    int last = 0;
    ::sched_getaffinity(0, sizeof mask, &mask);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) last = CPU_ISSET(cpu, &mask) ? cpu : last;
    CPU_ZERO(&mask);
    CPU_SET(last, &mask);
    ::sched_setaffinity(0, sizeof mask, &mask);
    for (uint64_t turns = 0;; ++turns) benchmark::DoNotOptimize(turns);
  }
  ~BusyProcess() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  pid_t child_;
};

// Work that takes the same number of cycles each time: a chain of dependent multiplications.
float chain(int64_t links) {
  float value = 1;
  benchmark::DoNotOptimize(value);
  for (int64_t i = 0; i < links; ++i) value = value * 0.999f + 0.001f;
  return value;
}

int64_t links_per_microsecond() {
  static const int64_t links = [] {
    double best = 1e9;
    for (int turn = 0; turn < 20; ++turn) {
      const auto begin = std::chrono::steady_clock::now();
      benchmark::DoNotOptimize(chain(100000));
      const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
      best = std::min(best, taken.count());
    }
    return static_cast<int64_t>(100000 / best);
  }();
  return links;
}

void Loops(benchmark::State& state) {
  const int64_t links = links_per_microsecond() * state.range(2);
  std::vector<BusyProcess> busy(static_cast<size_t>(state.range(3)));
  cairn::ThreadPool pool(static_cast<int>(state.range(0)));
  std::vector<double> times;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(state.range(1), 1, [&](int64_t, int64_t, int) { benchmark::DoNotOptimize(chain(links)); });
    // Simulates the work of a step between two loops.
    benchmark::DoNotOptimize(chain(links_per_microsecond()));
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(times);
  state.counters["median_us"] = times[times.size() / 2];
  state.counters["p99_us"] = times[times.size() * 99 / 100];
  state.counters["max_us"] = times.back();
}
BENCHMARK(Loops)
    ->ArgNames({"threads", "chunks", "us", "busy"})
    ->ArgsProduct({{1, 2}, {2, 8, 32}, {20}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
