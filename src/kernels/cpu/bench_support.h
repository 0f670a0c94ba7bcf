/// Helpers shared by the benchmarks of this folder.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/system/machine.h"

namespace cairn::kernels::cpu {

/// Bytes that are read from DRAM each time they are read from front to back: many times all last-level caches, since a
/// part of them survives a pass (with 96 MiB beside a cache of 32 MiB, one thread seemed to read a sixth faster).
inline int64_t cold_bytes() {
  const benchmark::CPUInfo& cpu = benchmark::CPUInfo::Get();
  int64_t largest = 0;
  for (const auto& cache : cpu.caches) {
    const int count = std::max(1, cpu.num_cpus / std::max(1, cache.num_sharing));
    largest = std::max(largest, int64_t{cache.size} * count);
  }
  return std::clamp(16 * largest, int64_t{512} << 20, int64_t{1} << 30);
}

/// Thread counts: one thread, and one for each core.
inline std::vector<int64_t> bench_threads() {
  if (usable_cores() == 1) return {1};
  return {1, usable_cores()};
}

}  // namespace cairn::kernels::cpu
