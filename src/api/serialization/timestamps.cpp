#include "api/serialization/timestamps.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

namespace cairn::api {

int64_t unix_seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string rfc3339(int64_t unix_microseconds) {
  constexpr int64_t kPerSecond = 1'000'000;
  const auto seconds = static_cast<std::time_t>(unix_microseconds / kPerSecond);
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", time.tm_year + 1900, time.tm_mon + 1, time.tm_mday,
                     time.tm_hour, time.tm_min, time.tm_sec, unix_microseconds % kPerSecond);
}

std::string rfc3339_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return rfc3339(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace cairn::api
