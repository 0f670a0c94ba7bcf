#include "base/text/bytes_text.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace cairn {

std::string bytes_text(int64_t bytes) {
  // Numbers from here on would be printed as 1024.0 and are printed as 1.0 of the next unit.
  constexpr double kStepAt = 1023.95;
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= kStepAt && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

}  // namespace cairn
