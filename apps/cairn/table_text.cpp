#include "table_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn {

std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> lines;
  if (rows.empty()) return lines;
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string grouped(int64_t number) {
  constexpr size_t kGroupDigits = 3;
  std::string text = std::to_string(number);
  const size_t begin = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > begin + kGroupDigits;) text.insert(at -= kGroupDigits, ",");
  return text;
}

}  // namespace cairn
