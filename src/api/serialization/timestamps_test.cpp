#include "api/serialization/timestamps.h"

#include <gtest/gtest.h>

namespace cairn::api {
namespace {

TEST(Timestamps, Rfc3339HasMicrosecondsAndIsInUtc) {
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(rfc3339(1'700'000'000'000'042), "2023-11-14T22:13:20.000042Z");
}

}  // namespace
}  // namespace cairn::api
