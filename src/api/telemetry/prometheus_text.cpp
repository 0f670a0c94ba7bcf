#include "api/telemetry/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text/utf8.h"

namespace cairn::api {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// A label's value with what would end it escaped.
void append_escaped(std::string& text, std::string_view value) {
  for (const char c : utf8_replace_invalid(value)) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
}

}  // namespace

void PrometheusText::metric(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

void PrometheusText::line(std::string_view suffix, Labels labels, std::string_view bound, std::string_view value) {
  text_ += name_;
  text_ += suffix;
  bool first = true;
  const auto add = [&](std::string_view name, std::string_view label) {
    text_ += first ? "{" : ",";
    first = false;
    text_ += name;
    text_ += "=\"";
    append_escaped(text_, label);
    text_ += '"';
  };
  for (const auto& [name, label] : labels) add(name, label);
  if (!bound.empty()) add("le", bound);
  text_ += first ? " " : "} ";
  text_ += value;
  text_ += '\n';
}

void PrometheusText::sample(Labels labels, double value) { line({}, labels, {}, number_text(value)); }

void PrometheusText::sample(Labels labels, int64_t value) { line({}, labels, {}, fmt::format("{}", value)); }

void PrometheusText::sample(Labels labels, const HistogramCounts& counts) {
  int64_t total = 0;
  for (size_t range = 0; range < counts.bounds.size(); ++range) {
    total += counts.counts[range];
    line("_bucket", labels, number_text(counts.bounds[range]), fmt::format("{}", total));
  }
  total += counts.counts[counts.bounds.size()];
  line("_bucket", labels, "+Inf", fmt::format("{}", total));
  line("_sum", labels, {}, number_text(counts.sum));
  line("_count", labels, {}, fmt::format("{}", total));
}

}  // namespace cairn::api
