#include "base/recent_log.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

TEST(RecentLog, KeepsTheLastLinesInTheirOrderAndCutsLongOnes) {
  log_info("{}", std::string(2 * kRecentLogTextBytesMax, 'x'));
  const auto cut = recent_log_lines();
  ASSERT_FALSE(cut.empty());
  EXPECT_LE(cut.back().text.size(), kRecentLogTextBytesMax);
  for (size_t i = 0; i < kRecentLogLinesMax + 5; ++i) log_info("line {}", i);
  const auto lines = recent_log_lines();
  ASSERT_EQ(lines.size(), kRecentLogLinesMax);
  EXPECT_EQ(lines.front().text, "line 5");
  EXPECT_EQ(lines.back().number, cut.back().number + static_cast<int64_t>(kRecentLogLinesMax) + 5);
  EXPECT_EQ(recent_log_lines(lines.back().number - 1).size(), 1);
}

std::string heard_lines;

TEST(RecentLog, ASinkGetsLinesInPlaceOfStandardError) {
  testing::internal::CaptureStderr();
  set_log_sink([](LogLevel level, std::string_view text) {
    heard_lines += level == LogLevel::kWarning ? "warning " : "other ";
    heard_lines += text;
    heard_lines += '|';
  });
  log_warning("two\nlines");
  log_info("one");
  set_log_sink(nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(heard_lines, "warning two\\nlines|other one|");
  testing::internal::CaptureStderr();
  log_info("back");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("back"), std::string::npos);
}

}  // namespace
}  // namespace cairn
