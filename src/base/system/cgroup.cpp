#include "base/system/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
/// What version 1 has for no limit is the largest number of whole pages, 9223372036854771712; no machine has so much.
constexpr int64_t kNoLimitMin = int64_t{1} << 60;

// The number in a one-line file; `otherwise` if there is no file or a word ("max").
int64_t read_number(const fs::path& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// The sum of two lines of a file of "name number" lines.
int64_t read_sum(const fs::path& path, std::string_view first, std::string_view second) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0, sum = 0;
  while (file >> name >> value) sum += name == first || name == second ? value : 0;
  return sum;
}

void limit_cores(CgroupLimits& limits, double quota, double period) {
  if (quota > 0 && period > 0) limits.cores = std::min(limits.cores, quota / period);
}

// Sets the memory limit. Pages of files count as used but are reclaimed first when memory is short; a mapped model
// consists of them.
void limit_memory(CgroupLimits& limits, int64_t limit, int64_t used, int64_t of_files) {
  if (limit < 0 || limit >= kNoLimitMin) return;
  const int64_t left = limit - std::max<int64_t>(0, used - of_files);
  limits.memory_bytes_left = std::min(limits.memory_bytes_left, std::max<int64_t>(0, left));
}

void apply_v2(CgroupLimits& limits, const fs::path& group) {
  std::ifstream cpu(group / "cpu.max");
  double quota = 0, period = 0;
  if (cpu >> quota >> period) limit_cores(limits, quota, period);
  limit_memory(limits, read_number(group / "memory.max", kUnlimited), read_number(group / "memory.current", 0),
               read_sum(group / "memory.stat", "active_file", "inactive_file"));
}

void apply_v1_cpu(CgroupLimits& limits, const fs::path& group) {
  limit_cores(limits, static_cast<double>(read_number(group / "cpu.cfs_quota_us", -1)),
              static_cast<double>(read_number(group / "cpu.cfs_period_us", -1)));
}

void apply_v1_memory(CgroupLimits& limits, const fs::path& group) {
  limit_memory(limits, read_number(group / "memory.limit_in_bytes", kUnlimited),
               read_number(group / "memory.usage_in_bytes", 0),
               read_sum(group / "memory.stat", "total_active_file", "total_inactive_file"));
}

// Applies the limits of the group and of those above it. In a container the path may be the host's, which does not
// exist there; then only the top exists, which is the container's own group.
void apply_upwards(CgroupLimits& limits, const fs::path& top, const std::string& path,
                   void (*apply)(CgroupLimits&, const fs::path&)) {
  for (fs::path group = fs::path(path).relative_path(); !group.empty(); group = group.parent_path())
    apply(limits, top / group);
  apply(limits, top);
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  // Lines are "number:controllers:path"; version 2 has number 0 and no controllers.
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string number, controllers, path;
    if (!std::getline(fields, number, ':') || !std::getline(fields, controllers, ':') || !std::getline(fields, path))
      continue;
    const std::string list = "," + controllers + ",";
    if (controllers.empty()) apply_upwards(limits, mounts, path, apply_v2);
    if (list.contains(",cpu,")) apply_upwards(limits, mounts / "cpu", path, apply_v1_cpu);
    if (list.contains(",memory,")) apply_upwards(limits, mounts / "memory", path, apply_v1_memory);
  }
  return limits;
}

}  // namespace cairn
