#include "bench/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/text/printable.h"

namespace cairn::bench {
namespace {

constexpr double kWidth = 760, kHeight = 420;
constexpr double kLeft = 84, kRight = 84, kTop = 56, kBottom = 64;
constexpr int kTicks = 5;  ///< about so many on each axis of values
constexpr const char* kLeftColour = "#1f5fa8";
constexpr const char* kRightColour = "#b4501e";
/// Between two marks of the axis of x.
constexpr double kMarkDistance = 44;

std::string xml(const std::string& text) {
  std::string out;
  for (const char c : printable(text, text.size())) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

/// The distance between two ticks: 1, 2 or 5 times a power of ten.
double tick_distance(double highest) {
  const double rough = highest / kTicks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

/// An axis of values, from 0 to a tick at or above the highest value.
struct ValueAxis {
  double distance = 1;
  int ticks = 1;

  explicit ValueAxis(const Curve& curve) {
    const double highest = curve.values.empty() ? 0 : std::ranges::max(curve.values);
    if (!(highest > 0) || !std::isfinite(highest)) return;
    distance = tick_distance(highest);
    ticks = std::max(1, static_cast<int>(std::ceil(highest / distance - 1e-9)));
  }
  double y(double value) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * value / (distance * ticks); }
};

class Drawing {
 public:
  explicit Drawing(const std::vector<double>& x) : x_(x) {}

  double place(double x) const {
    const double first = std::log2(x_.front()), last = std::log2(x_.back());
    const double share = last > first ? (std::log2(x) - first) / (last - first) : 0.5;
    return kLeft + share * (kWidth - kLeft - kRight);
  }

  void text(double x, double y, const char* anchor, const std::string& what, const std::string& more = {}) {
    out_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more, xml(what));
  }
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
                        y2, colour);
  }

  void x_axis(const std::string& name) {
    line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "#444");
    double labelled = -kMarkDistance;
    for (const double x : x_) {
      const double at = place(x);
      line(at, kHeight - kBottom, at, kHeight - kBottom + 5, "#444");
      if (at - labelled < kMarkDistance) continue;
      text(at, kHeight - kBottom + 20, "middle", fmt::format("{}", x));
      labelled = at;
    }
    text(kWidth / 2, kHeight - 16, "middle", name);
  }

  void curve(const Curve& curve, bool on_left) {
    const ValueAxis axis(curve);
    const char* const colour = on_left ? kLeftColour : kRightColour;
    const double edge = on_left ? kLeft : kWidth - kRight;
    const double outwards = on_left ? -1 : 1;
    line(edge, kTop, edge, kHeight - kBottom, colour);
    for (int tick = 0; tick <= axis.ticks; ++tick) {
      const double y = axis.y(tick * axis.distance);
      if (on_left) line(kLeft, y, kWidth - kRight, y, "#e4e4e4");
      line(edge, y, edge + 5 * outwards, y, colour);
      text(edge + 9 * outwards, y + 4, on_left ? "end" : "start", fmt::format("{:g}", tick * axis.distance),
           fmt::format(" fill=\"{}\"", colour));
    }
    const double label = on_left ? 22 : kWidth - 18, middle = (kTop + kHeight - kBottom) / 2;
    text(label, middle, "middle", curve.name,
         fmt::format(" fill=\"{}\" transform=\"rotate(-90 {:.1f} {:.1f})\"", colour, label, middle));
    std::string points;
    for (size_t i = 0; i < x_.size(); ++i) {
      const double y = axis.y(curve.values[i]);
      points += fmt::format("{}{:.1f},{:.1f}", i == 0 ? "" : " ", place(x_[i]), y);
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", place(x_[i]), y, colour);
    }
    out_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points, colour);
  }

  std::string finish(const std::string& title) {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>{2}</title>\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
        "<text x=\"{3}\" y=\"28\" text-anchor=\"middle\" font-size=\"15\">{2}</text>\n{4}</svg>\n",
        kWidth, kHeight, xml(title), kWidth / 2, out_);
  }

 private:
  const std::vector<double>& x_;
  std::string out_;
};

}  // namespace

std::string chart_svg(const std::string& title, const std::string& x_name, const std::vector<double>& x,
                      const Curve& left, const Curve& right) {
  Drawing drawing(x);
  drawing.curve(left, true);
  drawing.curve(right, false);
  drawing.x_axis(x_name);
  return drawing.finish(title);
}

}  // namespace cairn::bench
