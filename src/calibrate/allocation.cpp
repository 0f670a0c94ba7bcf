#include "calibrate/allocation.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>

namespace cairn::calibrate {
namespace {

double saved_for_each_byte(const TypeOption& from, const TypeOption& to) {
  return (from.harm - to.harm) / static_cast<double>(to.bytes - from.bytes);
}

// The options on the lower convex hull of harm over bytes, from the smallest on: each saves less for each byte than the
// one before, and all others cost more than a mixture of two of these.
std::vector<size_t> hull_of(std::span<const TypeOption> options) {
  std::vector<size_t> order(options.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return options[a].bytes != options[b].bytes ? options[a].bytes < options[b].bytes
                                                : options[a].harm < options[b].harm;
  });
  std::vector<size_t> hull;
  for (const size_t next : order) {
    if (!hull.empty() && options[next].harm >= options[hull.back()].harm) continue;
    while (hull.size() > 1 && saved_for_each_byte(options[hull.back()], options[next]) >=
                                  saved_for_each_byte(options[hull[hull.size() - 2]], options[hull.back()])) {
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

struct Step {
  double saved = 0;  // for each byte
  size_t tensor = 0;
  size_t to = 0;  // place on its hull
  bool operator<(const Step& other) const { return saved != other.saved ? saved < other.saved : tensor > other.tensor; }
};

}  // namespace

Result<std::vector<size_t>> allocate(std::span<const std::vector<TypeOption>> tensors, int64_t bytes) {
  std::vector<std::vector<size_t>> hulls;
  std::vector<size_t> places(tensors.size());  // on the hulls
  int64_t used = 0;
  for (const auto& options : tensors) {
    hulls.push_back(hull_of(options));
    used += options[hulls.back().front()].bytes;
  }
  if (used > bytes) {
    return fail(Code::kInvalidArgument,
                "the tensors take at least {} bytes, with the smallest types that their rows can have, and {} are left "
                "for them",
                used, std::max<int64_t>(bytes, 0));
  }
  std::priority_queue<Step> steps;
  const auto add_step = [&](size_t tensor) {
    const std::vector<size_t>& hull = hulls[tensor];
    const size_t to = places[tensor] + 1;
    if (to == hull.size()) return;
    steps.push({saved_for_each_byte(tensors[tensor][hull[to - 1]], tensors[tensor][hull[to]]), tensor, to});
  };
  for (size_t i = 0; i < tensors.size(); ++i) add_step(i);
  while (!steps.empty()) {
    const Step step = steps.top();
    steps.pop();
    const auto option = [&](size_t place) { return tensors[step.tensor][hulls[step.tensor][place]]; };
    const int64_t more = option(step.to).bytes - option(step.to - 1).bytes;
    if (used + more > bytes) continue;  // a smaller step of another tensor may fit
    used += more;
    places[step.tensor] = step.to;
    add_step(step.tensor);
  }
  std::vector<size_t> chosen;
  for (size_t i = 0; i < tensors.size(); ++i) chosen.push_back(hulls[i][places[i]]);
  return chosen;
}

}  // namespace cairn::calibrate
