#include "base/system/machine.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "base/system/cgroup.h"

namespace cairn {
namespace {

// The number of a one-line file such as topology/core_id; `missing` if there is none.
int64_t read_number(const std::string& path, int64_t missing) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : missing;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    CpuFeatures found;
#if defined(__x86_64__)
    found.avx2_fma_f16c = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
    found.avx_vnni = found.avx2_fma_f16c && __builtin_cpu_supports("avxvnni");
    found.avx512_vnni = found.avx2_fma_f16c && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    found.avx512_bf16 = found.avx512_vnni && __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
    found.neon_dotprod = (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
    return found;
  }();
  return features;
}

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) {
    // There are more processors than the mask has bits.
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  std::set<std::pair<int64_t, int64_t>> cores;  // (package, core): hyper-threads of one core count once
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    cores.emplace(read_number(topology + "physical_package_id", 0), read_number(topology + "core_id", cpu));
  }
  // A fraction of a core does not justify a thread, as the team would wait for it.
  const double quota = std::floor(read_cgroup_limits().cores + 0.001);
  return static_cast<int>(std::clamp(quota, 1.0, std::max(1.0, static_cast<double>(cores.size()))));
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
  return std::min(available, read_cgroup_limits().memory_bytes_left);
}

int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t address_space_left_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<int64_t>::max();
  }
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - pages * ::sysconf(_SC_PAGESIZE));
}

}  // namespace cairn
