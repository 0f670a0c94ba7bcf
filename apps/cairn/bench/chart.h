/// A chart of two curves as an SVG file.
#pragma once

#include <string>
#include <vector>

namespace cairn::bench {

/// A curve with an axis of its own.
struct Curve {
  std::string name;            ///< what the axis says: "prefill, tokens/s"
  std::vector<double> values;  ///< one for each x; not negative
};

/// `x` are above 0, ascending, and drawn on a logarithmic axis with a mark at each. The axis of `left` stands at the
/// left, and that of `right` at the right; both begin at 0. All texts may hold any characters.
std::string chart_svg(const std::string& title, const std::string& x_name, const std::vector<double>& x,
                      const Curve& left, const Curve& right);

}  // namespace cairn::bench
