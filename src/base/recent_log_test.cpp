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

}  // namespace
}  // namespace cairn
