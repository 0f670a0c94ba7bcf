/// What the control groups that this process is in leave it of the machine (Linux cgroups, version 1 and 2).
/// Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

namespace cairn {

struct CgroupLimits {
  double cores = std::numeric_limits<double>::infinity();           ///< processor time per time
  int64_t memory_bytes_left = std::numeric_limits<int64_t>::max();  ///< until the group's limit; 0 if at it
};

/// The smallest of the process's group and all groups above it. `root` is where proc/ and sys/ are found; what cannot
/// be read limits nothing.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace cairn
