/// Writes metrics in Prometheus' text format, version 0.0.4.
///
/// prometheus-cpp is not used for it: the engine's counts are kept without its types, and what is left of the library
/// here would be its writer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/histogram.h"

namespace cairn::api {

inline constexpr std::string_view kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

class PrometheusText {
 public:
  /// Names and values; names are literals.
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  /// Begins a metric; its samples follow at once. `type`: "counter", "gauge" or "histogram".
  void metric(std::string_view name, std::string_view type, std::string_view help);
  /// Adds a sample of the metric that has begun.
  void sample(Labels labels, double value);
  void sample(Labels labels, int64_t value);
  void sample(Labels labels, const HistogramCounts& counts);

  /// A metric with one sample, without labels.
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    metric(name, "gauge", help);
    sample({}, value);
  }
  template <class Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    metric(name, "counter", help);
    sample({}, value);
  }

  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view suffix, Labels labels, std::string_view bound, std::string_view value);

  std::string text_;
  std::string name_;
};

}  // namespace cairn::api
