#include "chat/tool_calls/marker_matcher.h"

#include <gtest/gtest.h>

#include <array>

namespace cairn::chat {
namespace {

TEST(MarkerMatcher, HoldsBackOnlyWhatMayBecomeAMarker) {
  const std::array<std::string_view, 3> markers = {"<ab>", "<<c", "]<ab>"};
  MarkerMatcher matcher(markers);
  std::string text;
  const auto push = [&](std::string_view bytes) {
    int found = -1;
    for (const char byte : bytes) {
      EXPECT_EQ(found, -1);
      found = matcher.push(byte, text);
    }
    return found;
  };
  EXPECT_EQ(push("x<"), -1);
  EXPECT_EQ(text, "x");
  EXPECT_EQ(push("<"), -1);
  EXPECT_EQ(matcher.held(), "<<");
  EXPECT_EQ(push("a"), -1);
  EXPECT_EQ(text, "x<");
  EXPECT_EQ(matcher.held(), "<a");
  EXPECT_EQ(push("b>"), 0);
  EXPECT_EQ(text, "x<");
  EXPECT_EQ(matcher.held(), "");
  // If two markers end together, the longer one is found.
  EXPECT_EQ(push("]<ab>"), 2);
  EXPECT_EQ(push("]]<a"), -1);
  EXPECT_EQ(text, "x<]");
  EXPECT_EQ(push("y"), -1);
  EXPECT_EQ(text, "x<]]<ay");
  EXPECT_EQ(push("<<<<c"), 1);
  EXPECT_EQ(text, "x<]]<ay<<");
}

}  // namespace
}  // namespace cairn::chat
