#include "base/text/edit_distance.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn {

size_t edit_distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> row(width), above(width), two_above(width);
  for (size_t j = 0; j < width; ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_above, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j < width; ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace cairn
