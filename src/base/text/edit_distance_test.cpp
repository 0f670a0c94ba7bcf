#include "base/text/edit_distance.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(EditDistance, CountsWhatHasToChange) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("queue-mx", "queue-max"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("/v1/chat/completion", "/v1/chat/completions"), 1u);
  EXPECT_EQ(edit_distance("prot", "port"), 1u);
  EXPECT_EQ(edit_distance("abcd", "badc"), 2u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u) << "no part is edited twice";
}

}  // namespace
}  // namespace cairn
