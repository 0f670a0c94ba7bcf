/// Flags of `cairn serve` for whoever operates it: what it tells, and how it stops.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "engine/power_limit.h"
#include "engine/step_trace.h"
#include "net/frames/frame_server.h"

namespace cairn {

/// --drain-seconds at most.
inline constexpr int kDrainSecondsMax = 86'400;

struct OperateFlags {
  bool log_requests = true;
  int drain_seconds = 10;
  std::string otlp;        ///< URL; empty: none
  std::string trace_file;  ///< empty: none
  bool trace_text = false;
  std::string trace_steps;                   ///< path of a file; empty: none
  std::shared_ptr<engine::StepTrace> steps;  ///< the same once it is open; null: none
  std::shared_ptr<engine::PowerLimit> power = std::make_shared<engine::PowerLimit>();

  void add_to(CLI::App& command);
};

/// Adds the limits of the frames socket.
void add_frames_flags(CLI::App& command, net::FrameLimits& limits);

}  // namespace cairn
