#include "engine/slots.h"

#include <gtest/gtest.h>

namespace cairn::engine {
namespace {

std::vector<TokenId> tokens_from(int32_t first, int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(TokenId{first + i});
  return tokens;
}

TEST(Slots, AConversationThatGoesOnStaysInItsSlot) {
  Slots slots(nullptr, 4);
  EXPECT_EQ(slots.put(1, -1, tokens_from(0, 100), 0), 0);
  EXPECT_EQ(slots.put(1, -1, tokens_from(500, 100), 0), 1);
  EXPECT_EQ(slots.put(1, -1, tokens_from(0, 150), 0), 0);
  EXPECT_EQ(slots.put(1, 3, tokens_from(0, 160), 0), 3) << "where it was told to";
  EXPECT_EQ(slots.put(1, -1, tokens_from(0, 170), 7), 2) << "another salt is another conversation";
  EXPECT_EQ(slots.tokens(1), (std::vector<int32_t>{150, 100, 170, 160}));
  EXPECT_EQ(slots.find(1, 0)->tokens, tokens_from(0, 150));
  EXPECT_EQ(slots.put(1, -1, tokens_from(900, 20), 0), 1) << "the one that was used longest ago";
  slots.clear(1, 1);
  EXPECT_FALSE(slots.find(1, 1).has_value());
}

TEST(Slots, TenantsSeeNothingOfEachOther) {
  Slots slots(nullptr, 3);
  EXPECT_EQ(slots.put(1, -1, tokens_from(0, 100), 0), 0);
  EXPECT_EQ(slots.put(2, -1, tokens_from(0, 100), 0), 0);
  EXPECT_EQ(slots.put(2, 2, tokens_from(300, 10), 0), 2);
  EXPECT_EQ(slots.tokens(1), (std::vector<int32_t>{100, 0, 0}));
  EXPECT_FALSE(slots.find(1, 2).has_value());
  // All together have three: the oldest goes.
  EXPECT_EQ(slots.put(2, 1, tokens_from(600, 10), 0), 1);
  EXPECT_EQ(slots.tokens(2), (std::vector<int32_t>{100, 10, 10}));
  EXPECT_FALSE(slots.find(1, 0).has_value());
}

}  // namespace
}  // namespace cairn::engine
