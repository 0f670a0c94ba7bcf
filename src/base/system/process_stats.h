/// What this process uses of the machine, from Linux' /proc.
#pragma once

#include <cstdint>

namespace cairn {

struct ProcessStats {
  double cpu_seconds = 0;         ///< of all threads, user and system
  double start_unix_seconds = 0;  ///< when it began
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_files = 0;
  int64_t files_max = 0;  ///< that it may have open
  int64_t threads = 0;
};

/// What cannot be read is 0. Thread-safe.
ProcessStats process_stats();

}  // namespace cairn
