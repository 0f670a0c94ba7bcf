#include "cache/host_tier.h"

#include <gtest/gtest.h>

#include <limits>

#include "cache/testing/prefix_cache_fixture.h"

namespace cairn::cache {
namespace {

class HostTierTest : public testing::Test {
 protected:
  PagePool pool_for(std::vector<KvGroup> groups, std::vector<int32_t> pages) {
    return PagePool::create(memory_, {kernels::KvType::kF32, std::move(groups)}, pages).value();
  }
  LimitedMemory memory_;
};

TEST_F(HostTierTest, KeepsPagesOfEveryGroupApart) {
  PagePool pool = pool_for({full_group(), state_group()}, {4, 4});  // pages of 512 and 64 bytes
  auto tier = HostTier::create(pool, 3 * (512 + 64) + 100).value();
  EXPECT_EQ(tier.slots_total(), 3);
  const int32_t slots[] = {tier.take(), tier.take(), tier.take()};
  EXPECT_EQ(tier.take(), kNoSlot);
  std::vector<std::byte> bytes(512);
  for (int32_t i = 0; i < 3; ++i) {
    for (int32_t g = 0; g < 2; ++g) {
      std::ranges::fill(bytes, static_cast<std::byte>(10 * i + g));
      pool.write(g, bytes.data(), PageId{0});
      tier.put(slots[i], pool, g, PageId{0});
    }
  }
  for (int32_t i = 0; i < 3; ++i) {
    for (int32_t g = 0; g < 2; ++g) {
      tier.get(slots[i], pool, g, PageId{1});
      std::vector<std::byte> seen(g == 0 ? 512 : 64);
      pool.read(g, PageId{1}, seen.data());
      EXPECT_EQ(seen, std::vector(seen.size(), static_cast<std::byte>(10 * i + g)));
    }
  }
  tier.give_back(slots[1]);
  EXPECT_EQ(tier.slots_free(), 1);
  EXPECT_EQ(tier.take(), slots[1]);
}

TEST_F(HostTierTest, TooFewOrTooManyBytesAreErrorsThatNameTheFlag) {
  PagePool pool = pool_for({full_group(), state_group()}, {4, 4});
  EXPECT_EQ(HostTier::create(pool, 0)->slots_total(), 0);
  for (const int64_t bytes : {int64_t{-1}, int64_t{575}}) {
    const auto little = HostTier::create(pool, bytes);
    ASSERT_FALSE(little.has_value());
    EXPECT_EQ(little.error().code, Code::kInvalidArgument);
    EXPECT_NE(little.error().message.find("--kv-host-bytes"), std::string::npos);
    EXPECT_NE(little.error().message.find("576 bytes"), std::string::npos);
  }
  EXPECT_EQ(PrefixCache::create(pool, 3).error().code, Code::kInvalidArgument);
}

TEST(PrefixCacheHostTier, EvictedPagesAreRestoredWhenTheirPrefixIsFound) {
  PrefixCacheFixture lab({full_group(), window_group(64), state_group()}, {10, 10, 4}, 20);
  lab.run_and_leave(counting(0, 150));
  lab.run_and_leave(counting(1000, 150));
  lab.run_and_leave(counting(2000, 150));
  EXPECT_LT(lab.cache().host_slots_free(), 20);
  EXPECT_GT(lab.cache().evicted(), 0);
  EXPECT_EQ(lab.cache().nodes(), 15) << "nothing is forgotten";
  int32_t tail = 5000;
  for (const int32_t first : {0, 1000, 2000, 0}) {
    LabSequence next = lab.sequence(counting(first, 150) + counting(tail += 100, 5));
    EXPECT_EQ(lab.run(next).tokens, 150);
    lab.verify_references({&next});
    lab.leave(next);
  }
  EXPECT_GT(lab.cache().pages_restored(), 0);
  lab.cache().clear();
  EXPECT_EQ(lab.cache().nodes(), 0);
  EXPECT_EQ(lab.cache().host_slots_free(), 20);
}

TEST(PrefixCacheHostTier, AFullTierDropsTheCheapestNodesFirst) {
  PrefixCacheFixture lab({full_group()}, {6}, 3);
  lab.cache().set_cost({.token_ns = 100, .position_ns = 10});
  lab.run_and_leave(counting(0, 96));
  lab.run_and_leave(counting(1000, 96));
  lab.run_and_leave(counting(2000, 96));
  EXPECT_EQ(lab.cache().nodes(), 9);
  EXPECT_EQ(lab.cache().host_slots_free(), 0);
  lab.run_and_leave(counting(3000, 32));
  EXPECT_EQ(lab.cache().nodes(), 9) << "one node has gone for good";
  int32_t found = 0;
  for (const int32_t first : {0, 1000, 2000}) found += lab.peek(counting(first, 96)).tokens;
  EXPECT_GE(found, 96 + 96) << "and it was no conversation's beginning";
}

TEST(PrefixCacheHostTier, AParentIsKeptRatherThanAChildThatNeedsIt) {
  PrefixCacheFixture lab({full_group()}, {2}, 1);
  lab.cache().set_cost({.token_ns = 1, .position_ns = 1});
  lab.run_and_leave(counting(0, 64));
  ASSERT_TRUE(lab.cache().make_room(0, 2));
  EXPECT_EQ(lab.cache().nodes(), 1);
  EXPECT_EQ(lab.cache().host_slots_free(), 0);
  EXPECT_EQ(lab.peek(counting(0, 64)).tokens, 32);
  EXPECT_EQ(lab.cache().host_slots_free(), 1) << "what has come back has no place there";
}

TEST(PrefixCacheHostTier, WindowPagesAndStatesThatWereUsedAreOffloadedWithoutTheirNodes) {
  PrefixCacheFixture lab({full_group(), window_group(40), state_group()}, {12, 12, 4}, 12);
  lab.run_and_leave(counting(0, 300));
  ASSERT_TRUE(lab.cache().make_room(1, 12));
  ASSERT_TRUE(lab.cache().make_room(2, 4));
  EXPECT_EQ(lab.cache().nodes(), 10);
  EXPECT_EQ(lab.cache().host_slots_free(), 12 - 3) << "of the pages of 249..299 and the state at 300";
  EXPECT_EQ(lab.peek(counting(0, 310)).tokens, 300);
}

TEST(PrefixCacheHostTier, OnlyThePagesThatFitIntoThePoolAreRestored) {
  PrefixCacheFixture lab({full_group()}, {6}, 10);
  lab.run_and_leave(counting(0, 128));
  LabSequence other = lab.sequence(counting(1000, 160));
  EXPECT_EQ(lab.run(other).tokens, 0);  // holds five of six pages
  EXPECT_EQ(lab.peek(counting(0, 128)).tokens, 32) << "a page for one of four";
  EXPECT_EQ(lab.cache().nodes(), 9);
  lab.leave(other);
  EXPECT_EQ(lab.peek(counting(0, 128)).tokens, 128);
}

}  // namespace
}  // namespace cairn::cache
