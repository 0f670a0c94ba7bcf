/// Tables on standard output.
#pragma once

#include <string>
#include <vector>

namespace cairn {

/// A line for each row, without its end: cells stand under each other, two blanks apart, and no blanks end a line. All
/// rows have as many cells as the first.
std::vector<std::string> table_lines(const std::vector<std::vector<std::string>>& rows);

}  // namespace cairn
