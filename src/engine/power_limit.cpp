#include "engine/power_limit.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

#include "engine/scheduling/request_queue.h"

namespace cairn::engine {
namespace {

/// A rest consists of parts no longer than this, after each of which the limit is read again.
constexpr std::chrono::milliseconds kRestPart{100};

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

int32_t PowerLimit::effective_percent() const {
  return on_battery() ? std::min(percent(), on_battery_percent()) : percent();
}

std::chrono::nanoseconds PowerLimit::rest_after(std::chrono::nanoseconds busy) const {
  const int32_t percent = effective_percent();
  return busy * (kPowerPercentMax - percent) / percent;
}

void rest_after_step(const PowerLimit* limit, std::chrono::nanoseconds busy, RequestQueue& queue,
                     std::atomic<int64_t>& rested_ns) {
  using Clock = std::chrono::steady_clock;
  if (limit == nullptr || limit->rest_after(busy).count() == 0) return;
  const Clock::time_point begin = Clock::now();
  while (!queue.stopped()) {
    const auto left = limit->rest_after(busy) - (Clock::now() - begin);
    if (left.count() <= 0) break;
    queue.wait_until_stopped(std::min<std::chrono::nanoseconds>(left, kRestPart));
  }
  rested_ns.fetch_add((Clock::now() - begin) / std::chrono::nanoseconds(1), std::memory_order_relaxed);
}

bool runs_on_battery(const std::filesystem::path& supplies) {
  bool discharges = false;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(supplies, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::filesystem::path& supply = entry->path();
    if (first_line(supply / "type") != "Battery") {
      if (first_line(supply / "online") == "1") return false;
    } else if (first_line(supply / "scope") != "Device") {  // not that of a mouse
      discharges = discharges || first_line(supply / "status") == "Discharging";
    }
  }
  return discharges;
}

}  // namespace cairn::engine
