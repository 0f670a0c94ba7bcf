#include "base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace cairn {
namespace {

// First number of a one-line file such as /sys/fs/cgroup/memory.max; `missing` if there is none ("max").
int64_t read_number(const std::string& path, int64_t missing) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : missing;
}

int cgroup_cpu_limit() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::numeric_limits<int>::max();
  return std::max(1, static_cast<int>(std::floor(quota / period + 0.001)));
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    CpuFeatures found;
#if defined(__x86_64__)
    found.avx2_fma_f16c = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
    found.avx512_vnni = found.avx2_fma_f16c && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#endif
    return found;
  }();
  return features;
}

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  std::set<std::pair<int64_t, int64_t>> cores;  // (package, core): hyper-threads of one core count once
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    cores.emplace(read_number(topology + "physical_package_id", 0), read_number(topology + "core_id", cpu));
  }
  return std::max(1, std::min(static_cast<int>(cores.size()), cgroup_cpu_limit()));
}

int64_t available_memory_bytes() {
  int64_t available = std::numeric_limits<int64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") available = kib * 1024;
  }
  const int64_t limit = read_number("/sys/fs/cgroup/memory.max", std::numeric_limits<int64_t>::max());
  if (limit != std::numeric_limits<int64_t>::max()) {
    available = std::min(available, std::max<int64_t>(0, limit - read_number("/sys/fs/cgroup/memory.current", 0)));
  }
  return available;
}

}  // namespace cairn
