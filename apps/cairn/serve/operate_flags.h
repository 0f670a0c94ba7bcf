/// Flags of `cairn serve` for whoever operates it: what it tells, and how it stops.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

namespace cairn {

/// --drain-seconds at most.
inline constexpr int kDrainSecondsMax = 86'400;

struct OperateFlags {
  bool log_requests = true;
  int drain_seconds = 10;
  std::string otlp;        ///< URL; empty: none
  std::string trace_file;  ///< empty: none

  void add_to(CLI::App& command);
};

}  // namespace cairn
