/// Tables on standard output, and long numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

/// A line for each row, without its end: cells stand under each other, two blanks apart, and no blanks end a line. All
/// rows have as many cells as the first.
std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& rows);

/// 1234567 -> "1,234,567".
std::string grouped(int64_t number);

}  // namespace cairn
