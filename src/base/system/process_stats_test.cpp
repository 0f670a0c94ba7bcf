#include "base/system/process_stats.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace cairn {
namespace {

TEST(ProcessStats, AreThoseOfThisProcess) {
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const ProcessStats before = process_stats();
  EXPECT_GT(before.resident_bytes, 1 << 20);
  EXPECT_GE(before.virtual_bytes, before.resident_bytes);
  EXPECT_GE(before.open_files, 3);
  EXPECT_GE(before.files_max, before.open_files);
  EXPECT_LE(before.start_unix_seconds, now + 2);
  EXPECT_GT(before.start_unix_seconds, now - 3'600);
  std::thread other([&] { EXPECT_EQ(process_stats().threads, before.threads + 1); });
  other.join();
}

}  // namespace
}  // namespace cairn
