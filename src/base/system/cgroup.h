/// Limits that the control groups of this process set (Linux cgroups, version 1 and 2). Source: the kernel's
/// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

namespace cairn {

struct CgroupLimits {
  double cores = std::numeric_limits<double>::infinity();  ///< processor time per time
  /// Bytes left until the group's limit; 0 at the limit.
  int64_t memory_bytes_left = std::numeric_limits<int64_t>::max();
};

/// The smallest limits of the process's group and of all groups above it. `root` is the folder of proc/ and sys/; a
/// file that cannot be read sets no limit.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace cairn
