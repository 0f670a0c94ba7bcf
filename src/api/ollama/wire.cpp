#include "api/ollama/wire.h"

#include <chrono>
#include <ctime>

namespace cairn::api::ollama {

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

Result<LoadedModel*> find_model(const Registry& registry, std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  auto found = registry.find(name);
  if (found || !name.ends_with(kLatest)) return found;
  name.remove_suffix(kLatest.size());
  auto without = name.empty() ? found : registry.find(name);
  return without ? without : found;
}

std::string human_number(int64_t number) {
  struct Unit {
    double size;
    std::string_view name;
  };
  constexpr Unit kUnits[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  for (const Unit& unit : kUnits) {
    const double count = static_cast<double>(number) / unit.size;
    if (count >= 10) return fmt::format("{:.0f}{}", count, unit.name);
    if (count >= 1) return fmt::format("{:.1f}{}", count, unit.name);
  }
  return fmt::format("{}", number);
}

}  // namespace cairn::api::ollama
