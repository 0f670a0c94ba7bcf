#include "engine/failure_log.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(FailureLog, WritesALineAnIntervalAndCountsTheOthers) {
  const int64_t interval = std::chrono::nanoseconds(kFailureLogInterval).count();
  const Error error{Code::kInternal, "the model gave no usable logits", {}};
  FailureLog log;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(log.log(interval, "cmpl-1", error));
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(log.log(2 * interval - 1, "cmpl-2", error));
  EXPECT_TRUE(log.log(2 * interval, "cmpl-3", error));
  EXPECT_TRUE(log.log(3 * interval, "", error));
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("request cmpl-1 failed: the model gave no usable logits\n"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("cmpl-2"), std::string::npos) << lines;
  EXPECT_NE(lines.find("request cmpl-3 failed: the model gave no usable logits (9 more have failed"), std::string::npos)
      << lines;
  EXPECT_NE(lines.find("request without an id failed"), std::string::npos) << lines;
}

}  // namespace
}  // namespace cairn
