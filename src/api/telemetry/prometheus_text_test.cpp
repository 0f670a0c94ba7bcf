#include "api/telemetry/prometheus_text.h"

#include <gtest/gtest.h>

#include <array>

namespace cairn::api {
namespace {

TEST(PrometheusText, HasHelpTypeAndASampleForEachSetOfLabels) {
  PrometheusText text;
  text.metric("cairn_things_total", "counter", "Things.");
  text.sample({{"model", "a"}, {"key", "b"}}, int64_t{3});
  text.sample({{"model", "c"}}, 0.25);
  text.gauge("cairn_now", "Now.", int64_t{-1});
  EXPECT_EQ(text.take(),
            "# HELP cairn_things_total Things.\n# TYPE cairn_things_total counter\n"
            "cairn_things_total{model=\"a\",key=\"b\"} 3\ncairn_things_total{model=\"c\"} 0.25\n"
            "# HELP cairn_now Now.\n# TYPE cairn_now gauge\ncairn_now -1\n");
}

TEST(PrometheusText, EscapesWhatWouldEndALabel) {
  PrometheusText text;
  text.metric("m", "gauge", "M.");
  text.sample({{"model", "a\"b\\c\nd\xff"}}, int64_t{1});
  EXPECT_TRUE(text.take().ends_with("m{model=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"} 1\n"));
}

TEST(PrometheusText, CountsOfAHistogramAddUp) {
  constexpr std::array kBounds{0.5, 1.0};
  Histogram histogram(kBounds);
  for (const double value : {0.25, 0.5, 0.75, 8.0}) histogram.add(value);
  PrometheusText text;
  text.metric("h", "histogram", "H.");
  text.sample({{"model", "a"}}, histogram.counts());
  EXPECT_EQ(text.take(),
            "# HELP h H.\n# TYPE h histogram\nh_bucket{model=\"a\",le=\"0.5\"} 2\nh_bucket{model=\"a\",le=\"1\"} 3\n"
            "h_bucket{model=\"a\",le=\"+Inf\"} 4\nh_sum{model=\"a\"} 9.5\nh_count{model=\"a\"} 4\n");
}

}  // namespace
}  // namespace cairn::api
