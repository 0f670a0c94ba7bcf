/// Ranges of bytes in a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace cairn {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// The parts of `ranges`, which ascend and do not touch, that lie in bytes [begin, end) of their text, counted from
/// `begin`.
inline std::vector<ByteRange> ranges_within(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  std::vector<ByteRange> within;
  auto range = std::ranges::upper_bound(ranges, begin, {}, &ByteRange::end);
  for (; range != ranges.end() && range->begin < end; ++range)
    within.push_back({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  return within;
}

}  // namespace cairn
