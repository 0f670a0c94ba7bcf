#include "base/text/bytes_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace cairn {
namespace {

TEST(BytesText, UsesTheLargestUnitThatTheNumberFills) {
  constexpr int64_t kKib = 1024, kMib = kKib * 1024, kGib = kMib * 1024, kTib = kGib * 1024;
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1), "1 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(kKib), "1.0 KiB");
  EXPECT_EQ(bytes_text(kKib + kKib / 2), "1.5 KiB");
  EXPECT_EQ(bytes_text(kMib), "1.0 MiB");
  EXPECT_EQ(bytes_text(200 * kMib + kMib / 4), "200.2 MiB");
  EXPECT_EQ(bytes_text(kGib), "1.0 GiB");
  EXPECT_EQ(bytes_text(20 * kGib + kGib / 10), "20.1 GiB");
  EXPECT_EQ(bytes_text(kTib), "1.0 TiB");
  EXPECT_EQ(bytes_text(3 * kTib), "3.0 TiB");
  EXPECT_EQ(bytes_text(2000 * kTib), "2000.0 TiB");
  EXPECT_EQ(bytes_text(std::numeric_limits<int64_t>::max()), "8388608.0 TiB");
}

TEST(BytesText, NeverPrints1024OfAUnit) {
  EXPECT_EQ(bytes_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text((1 << 20) - 51), "1.0 MiB");
  EXPECT_EQ(bytes_text((1 << 20) - 52), "1023.9 KiB");
  EXPECT_EQ(bytes_text((int64_t{1} << 40) - 1), "1.0 TiB");
}

}  // namespace
}  // namespace cairn
