#include "jinja/builtins/sort.h"

#include <algorithm>
#include <numeric>

#include "jinja/value/operators.h"

namespace cairn::jinja {

// Our own merge sort: comparisons can fail, and std::sort must not be used with NaN.
Result<std::vector<size_t>> sorted_places(Budget& budget, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> places(keys.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::vector<size_t> merged(places.size());
  for (size_t width = 1; width < places.size(); width *= 2) {
    for (size_t begin = 0; begin < places.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, places.size());
      const size_t end = std::min(begin + 2 * width, places.size());
      size_t left = begin;
      size_t right = middle;
      for (size_t out = begin; out < end; ++out) {
        bool take_right = left == middle;
        if (left < middle && right < end) {
          const Value& a = keys[places[left]];
          const Value& b = keys[places[right]];
          CAIRN_TRY(take_right, reverse ? less(budget, a, b) : less(budget, b, a));
        }
        merged[out] = places[take_right ? right++ : left++];
      }
    }
    places.swap(merged);
  }
  return places;
}

}  // namespace cairn::jinja
