#include "cache/prefix_cache.h"

#include <gtest/gtest.h>

#include "cache/testing/prefix_cache_fixture.h"

namespace cairn::cache {
namespace {

TEST(PrefixCache, TheNextTurnFindsAllTokensOfTheLastOne) {
  PrefixCacheFixture lab({full_group(), latent_group()}, {20, 20});
  const auto turn = counting(0, 70);
  EXPECT_EQ(lab.run_and_leave(turn).tokens, 0);
  EXPECT_EQ(lab.cache().nodes(), 3);
  EXPECT_EQ(lab.pool().pages_free(0), 17);
  EXPECT_EQ(lab.cache().pages_evictable(1), 3);
  const PrefixHit hit = lab.run_and_leave(turn + counting(500, 50));
  EXPECT_EQ(hit.tokens, 70);
  EXPECT_EQ(hit.mismatch_position, -1);
  // With 120 tokens, the whole third page has replaced the leaf with its beginning.
  EXPECT_EQ(lab.cache().nodes(), 4);
  EXPECT_EQ(lab.pool().pages_free(0), 16);
  EXPECT_EQ(lab.peek(turn).tokens, 70);
}

TEST(PrefixCache, APageThatDivergesInItsMiddleIsCopiedAndTheMismatchReported) {
  PrefixCacheFixture lab({full_group()}, {20});
  lab.run_and_leave(counting(0, 96));
  LabSequence other = lab.sequence(counting(0, 50) + counting(900, 60));
  const PrefixHit hit = lab.run(other);
  EXPECT_EQ(hit.tokens, 50);
  EXPECT_EQ(hit.mismatch_position, 50);
  EXPECT_EQ(hit.mismatch_token, TokenId{50});
  EXPECT_EQ(lab.peek(counting(0, 96)).tokens, 96) << "the copy was written to, not the page";
  lab.leave(other);
  EXPECT_EQ(lab.peek(counting(0, 50) + counting(900, 60)).tokens, 110);
  // Nothing matches, as the first token differs.
  const PrefixHit miss = lab.peek(counting(7, 40));
  EXPECT_EQ(miss.tokens, 0);
  EXPECT_EQ(miss.mismatch_position, 0);
  EXPECT_EQ(miss.mismatch_token, TokenId{0});
  EXPECT_EQ(lab.peek(counting(7, 40), 1).mismatch_position, -1) << "of another salt nothing is told";
}

TEST(PrefixCache, AHitMayEndAtATokensMaxWithinAPage) {
  PrefixCacheFixture lab({full_group()}, {20});
  lab.run_and_leave(counting(0, 96));
  for (const int32_t most : {0, 1, 31, 32, 33, 63, 64, 95, 96, 1000}) {
    const PrefixHit hit = lab.peek(counting(0, 96), 0, most);
    EXPECT_EQ(hit.tokens, std::min(most, 96));
    EXPECT_EQ(hit.mismatch_position, -1);
  }
  EXPECT_EQ(lab.cache().nodes(), 3) << "beginnings of a cached page are not kept beside it";
  EXPECT_EQ(lab.pool().pages_free(0), 17);
}

TEST(PrefixCache, ASaltDoesNotFindThePagesOfAnother) {
  PrefixCacheFixture lab({full_group()}, {20});
  lab.run_and_leave(counting(0, 64), 1);
  EXPECT_EQ(lab.peek(counting(0, 64), 2).tokens, 0);
  EXPECT_EQ(lab.peek(counting(0, 64), 1).tokens, 64);
  const auto tokens = counting(0, 64);
  EXPECT_NE(lab.cache().next_key(PrefixCache::root(1), tokens), lab.cache().next_key(PrefixCache::root(2), tokens));
}

TEST(PrefixCache, NextKeysAreEqualForTheSamePageAfterTheSameTokens) {
  PrefixCacheFixture lab({full_group()}, {20});
  LabSequence a = lab.sequence(counting(0, 80)), b = lab.sequence(counting(0, 64) + counting(300, 10));
  PrefixCache& cache = lab.cache();
  EXPECT_EQ(cache.next_key(a.cursor, a.tokens), cache.next_key(b.cursor, b.tokens));
  const uint64_t first = cache.next_key(a.cursor, a.tokens);
  lab.run(a);
  EXPECT_EQ(cache.next_key(a.cursor, a.tokens), 0u) << "16 tokens are no page";
  EXPECT_EQ(lab.resume(b, 40).tokens, 40);
  EXPECT_NE(cache.next_key(b.cursor, b.tokens), first);
  EXPECT_EQ(cache.next_key(PrefixCache::root(0), counting(0, 31)), 0u);
  lab.leave(a);
  lab.leave(b);
}

TEST(PrefixCache, SequencesThatComputeTheSamePageShareItOnceItIsWhole) {
  PrefixCacheFixture lab({full_group(), window_group(40)}, {20, 20});
  LabSequence a = lab.sequence(counting(0, 70)), b = lab.sequence(counting(0, 70));
  EXPECT_EQ(lab.resume(a).tokens, 0);
  EXPECT_EQ(lab.resume(b).tokens, 0);
  for (LabSequence* sequence : {&a, &b}) {
    ASSERT_TRUE(lab.reserve(*sequence, 70));
    lab.compute(*sequence, 70);
  }
  EXPECT_EQ(lab.pool().pages_free(0), 14);
  lab.advance(a);
  lab.advance(b);
  EXPECT_EQ(a.table.groups[0][1], b.table.groups[0][1]);
  EXPECT_NE(a.table.groups[0][2], b.table.groups[0][2]) << "both go on writing to their last page";
  EXPECT_EQ(lab.pool().pages_free(0), 16);
  EXPECT_EQ(lab.cache().pages_evictable(0), 0);
  lab.verify_references({&a, &b});
  lab.leave(a);
  lab.leave(b);
  EXPECT_EQ(lab.pool().pages_free(0), 17);
}

TEST(PrefixCache, ASequenceThatWaitedTakesThePagesThatAnotherHasComputed) {
  PrefixCacheFixture lab({full_group(), window_group(40), state_group()}, {30, 30, 4});
  const auto prompt = counting(0, 600);
  LabSequence a = lab.sequence(prompt), b = lab.sequence(prompt);
  EXPECT_EQ(lab.resume(a).tokens, 0);
  EXPECT_EQ(lab.resume(b).tokens, 0);
  for (const int32_t rows : {256, 256, 64}) {
    ASSERT_TRUE(lab.reserve(a, rows));
    lab.compute(a, rows);
    lab.advance(a, rows == 256);
    // Pages reserved before are freed in exchange for the shared ones.
    ASSERT_TRUE(lab.reserve(b, 32));
    EXPECT_EQ(lab.resume(b).tokens, a.computed / 256 * 256) << "where there is a checkpoint";
  }
  lab.verify_references({&a, &b});
  lab.leave(a);
  EXPECT_EQ(lab.resume(b).tokens, 576) << "the end of a conversation is always kept";
  lab.leave(b);
}

TEST(PrefixCache, WindowPagesLeftBehindServeEarlierBoundariesUntilEvicted) {
  PrefixCacheFixture lab({full_group(), window_group(40)}, {40, 12});
  lab.run_and_leave(counting(0, 320));  // ten pages
  EXPECT_EQ(lab.pool().pages_free(1), 2);
  EXPECT_EQ(lab.cache().pages_evictable(1), 10);
  EXPECT_EQ(lab.peek(counting(0, 100) + counting(800, 10)).tokens, 100);
  // Position 320 was used when the conversation ended, 100 just now; pages before and between are evicted first.
  ASSERT_TRUE(lab.cache().make_room(1, 12 - 5));
  EXPECT_EQ(lab.peek(counting(0, 320)).tokens, 320);
  EXPECT_EQ(lab.peek(counting(0, 100) + counting(800, 10)).tokens, 100);
  const PrefixHit hit = lab.peek(counting(0, 200) + counting(800, 10));
  EXPECT_EQ(hit.tokens, 128) << "pages of 161..199 have gone; whole pages up to 128 have theirs";
  EXPECT_EQ(hit.mismatch_position, 200);
  EXPECT_EQ(lab.cache().nodes(), 10) << "nodes stay without them";
  ASSERT_TRUE(lab.cache().make_room(1, 12));
  EXPECT_EQ(lab.peek(counting(0, 320)).tokens, 0);
}

TEST(PrefixCache, WithoutThePagesOfAnOptionalWindowSequencesResumeAllTheSame) {
  PrefixCacheFixture lab({full_group(), optional_window_group(40)}, {40, 12});
  lab.run_and_leave(counting(0, 310));
  ASSERT_TRUE(lab.cache().make_room(1, 12));
  LabSequence whole = lab.sequence(counting(0, 288)), partial = lab.sequence(counting(0, 310) + counting(800, 80));
  EXPECT_EQ(lab.resume(whole).tokens, 288);
  for (const PageId page : whole.table.groups[1]) EXPECT_EQ(page, kNoPage);
  EXPECT_EQ(lab.run(partial, 25).tokens, 310) << "in the middle of a page";
  lab.leave(whole);
  lab.leave(partial);
  EXPECT_EQ(lab.peek(counting(0, 310) + counting(800, 80)).tokens, 390);
}

TEST(PrefixCache, EvictedWindowPagesAreCachedAgainWhenTheyAreComputedAgain) {
  PrefixCacheFixture lab({full_group(), window_group(64)}, {40, 12});
  lab.run_and_leave(counting(0, 320));
  ASSERT_TRUE(lab.cache().make_room(1, 12));
  EXPECT_EQ(lab.run_and_leave(counting(0, 320)).tokens, 0);
  EXPECT_EQ(lab.cache().nodes(), 10);
  EXPECT_EQ(lab.pool().pages_free(0), 30) << "the second computation took the place of nothing";
  EXPECT_EQ(lab.peek(counting(0, 320)).tokens, 320);
}

TEST(PrefixCache, AStateIsFoundOnlyAtPositionsWhereItWasCopied) {
  PrefixCacheFixture lab({full_group(), state_group()}, {60, 8});
  LabSequence a = lab.sequence(counting(0, 700));
  lab.resume(a);
  for (const int32_t rows : {96, 160, 32, 200, 56}) {  // up to 96, 256, 288, 488, 544
    ASSERT_TRUE(lab.reserve(a, rows));
    lab.compute(a, rows);
    lab.advance(a, a.computed == 256 || a.computed == 488 || a.computed == 544);
  }
  // The state is copied at 256 and at 544, but not at 488, which is in the middle of a page.
  EXPECT_EQ(lab.pool().pages_free(1), 8 - 1 - 2);
  ASSERT_TRUE(lab.reserve(a, 50));
  lab.compute(a, 50);
  lab.leave(a);  // the end, at 594
  EXPECT_EQ(lab.pool().pages_free(1), 8 - 3) << "the slot of the sequence is the checkpoint of its end";
  EXPECT_EQ(lab.peek(counting(0, 700)).tokens, 594);
  EXPECT_EQ(lab.peek(counting(0, 700), 0, 593).tokens, 544);
  EXPECT_EQ(lab.peek(counting(0, 543) + counting(0, 100)).tokens, 256);
  EXPECT_EQ(lab.peek(counting(0, 255) + counting(0, 100)).tokens, 0);
}

TEST(PrefixCache, TheEndOfATurnKeepsItsStateBesideALongerPath) {
  PrefixCacheFixture lab({full_group(), state_group()}, {60, 8});
  lab.run_and_leave(counting(0, 70));
  lab.run_and_leave(counting(0, 70) + counting(500, 130));
  const PrefixHit hit = lab.peek(counting(0, 70) + counting(500, 100) + counting(900, 9));
  EXPECT_EQ(hit.tokens, 70) << "the edited second turn goes on from the end of the first";
  EXPECT_EQ(hit.mismatch_position, 170);
}

TEST(PrefixCache, TheOnlyStateSlotIsHandedOverToTheNextSequence) {
  PrefixCacheFixture lab({full_group(), state_group()}, {60, 1});
  lab.run_and_leave(counting(0, 70));
  LabSequence next = lab.sequence(counting(0, 70) + counting(500, 30));
  EXPECT_EQ(lab.run(next).tokens, 70);
  EXPECT_EQ(lab.cache().pages_evictable(1), 0);
  EXPECT_EQ(lab.peek(counting(0, 70)).tokens, 0) << "its state has moved on";
  lab.verify_references({&next});
  lab.leave(next);
  EXPECT_EQ(lab.peek(counting(0, 70) + counting(500, 40)).tokens, 100);
}

TEST(PrefixCache, WithoutAFreePageForACopyTheHitEndsAtTheWholePage) {
  PrefixCacheFixture lab({full_group()}, {6});
  lab.run_and_leave(counting(0, 64));
  LabSequence other = lab.sequence(counting(900, 128));
  EXPECT_EQ(lab.run(other).tokens, 0);  // holds the other four pages
  LabSequence next = lab.sequence(counting(0, 50));
  EXPECT_EQ(lab.resume(next).tokens, 32);
  lab.verify_references({&other, &next});
  EXPECT_EQ(lab.cache().pages_evictable(0), 1);
  EXPECT_FALSE(lab.cache().make_room(0, 2));
  EXPECT_EQ(lab.cache().pages_evictable(0), 1) << "what would not do is not evicted";
  EXPECT_TRUE(lab.cache().make_room(0, 1));
  lab.leave(next);
  lab.leave(other);
}

TEST(PrefixCache, WithoutAFreePageForACopyTheWindowIsThatOfTheWholePage) {
  PrefixCacheFixture lab({full_group(), window_group(20)}, {7, 10});
  lab.run_and_leave(counting(0, 96));
  LabSequence other = lab.sequence(counting(900, 128));
  EXPECT_EQ(lab.run(other).tokens, 0);
  LabSequence next = lab.sequence(counting(0, 90));
  EXPECT_EQ(lab.resume(next).tokens, 64) << "which reads 45.., where 90 would have read 71.. only";
  lab.verify_references({&other, &next});
  lab.leave(next);
  lab.leave(other);
}

TEST(PrefixCache, APageIsNotEvictedToMakeRoomForItsOwnCopy) {
  PrefixCacheFixture lab({full_group()}, {5});
  lab.cache().set_cost({.token_ns = 1, .position_ns = 1});
  lab.run_and_leave(counting(1000, 96));  // expensive to compute again
  lab.run_and_leave(counting(0, 40));     // cheap, most of all its last page
  LabSequence next = lab.sequence(counting(0, 36) + counting(500, 3));
  EXPECT_EQ(lab.run(next).tokens, 36);
  lab.verify_references({&next});
  lab.leave(next);
}

TEST(PrefixCache, NodesAtWhichNoSequenceCanResumeAreEvictedFirst) {
  PrefixCacheFixture lab({full_group(), window_group(40)}, {10, 10});
  lab.cache().set_cost({.token_ns = 1, .position_ns = 1});
  lab.run_and_leave(counting(1000, 96));
  ASSERT_TRUE(lab.cache().make_room(1, 10));
  lab.run_and_leave(counting(0, 64));
  ASSERT_TRUE(lab.cache().make_room(0, 10 - 2));
  EXPECT_EQ(lab.peek(counting(0, 64)).tokens, 64);
  EXPECT_EQ(lab.cache().nodes(), 2);
}

TEST(PrefixCache, APartialPageIsKeptOnlyIfNoOtherNodeCoversIt) {
  PrefixCacheFixture lab({full_group(), window_group(40)}, {10, 10});
  lab.run_and_leave(counting(0, 10));
  lab.run_and_leave(counting(0, 20));
  EXPECT_EQ(lab.cache().nodes(), 1);
  lab.run_and_leave(counting(0, 64));
  EXPECT_EQ(lab.cache().nodes(), 2);
  ASSERT_TRUE(lab.cache().make_room(1, 10));
  lab.run_and_leave(counting(0, 20));
  EXPECT_EQ(lab.cache().nodes(), 3) << "the whole page lacks its window, so its beginning is of use";
  EXPECT_EQ(lab.peek(counting(0, 64)).tokens, 20);
}

TEST(PrefixCache, EvictsNodesThatAreCheapToComputeAgainAndWereUsedLongAgo) {
  PrefixCacheFixture lab({full_group()}, {12});
  lab.cache().set_cost({.token_ns = 100, .position_ns = 10});
  lab.run_and_leave(counting(0, 160));    // five pages, of which the last ones are expensive
  lab.run_and_leave(counting(1000, 96));  // three pages
  lab.run_and_leave(counting(2000, 32));  // one page
  EXPECT_EQ(lab.pool().pages_free(0), 3);
  ASSERT_TRUE(lab.cache().make_room(0, 4));
  EXPECT_EQ(lab.peek(counting(2000, 32)).tokens, 0);
  ASSERT_TRUE(lab.cache().make_room(0, 5));
  EXPECT_EQ(lab.peek(counting(1000, 96)).tokens, 64);
  EXPECT_EQ(lab.peek(counting(0, 160)).tokens, 160);
  EXPECT_EQ(lab.cache().evicted(), 2);
  // In the end, pages that are used again and again outlive more expensive ones.
  for (int32_t round = 0; round < 40; ++round) {
    lab.run_and_leave(counting(1000, 64));
    lab.run_and_leave(counting(3000 + round * 100, 64));
  }
  EXPECT_EQ(lab.peek(counting(1000, 64)).tokens, 64);
  EXPECT_LT(lab.peek(counting(0, 160)).tokens, 160);
}

TEST(PrefixCache, ClearEvictsAllThatNoSequenceUses) {
  PrefixCacheFixture lab({full_group(), window_group(33), state_group()}, {30, 30, 6});
  lab.run_and_leave(counting(0, 100));
  LabSequence running = lab.sequence(counting(500, 300));
  lab.run(running, 32);
  lab.cache().clear();
  EXPECT_EQ(lab.cache().nodes(), 9);
  for (int32_t g = 0; g < 3; ++g) EXPECT_EQ(lab.cache().pages_evictable(g), 0);
  EXPECT_EQ(lab.pool().pages_free(0), 20);
  EXPECT_EQ(lab.pool().pages_free(2), 5);
  lab.verify(running);
  lab.leave(running);
  EXPECT_EQ(lab.peek(counting(500, 300)).tokens, 300);
  lab.cache().clear();
  EXPECT_EQ(lab.cache().nodes(), 0);
  for (int32_t g = 0; g < 3; ++g) EXPECT_EQ(lab.pool().pages_free(g), lab.pool().pages_total(g));
}

TEST(PrefixCache, SaltsBeyondTheLimitEvictEachOther) {
  constexpr int32_t kPages = 1500;
  PrefixCacheFixture lab({full_group()}, {kPages});
  for (uint64_t salt = 0; salt < kPages; ++salt) lab.run_and_leave(counting(0, 3), salt);
  EXPECT_LT(lab.cache().nodes(), kPages);
  EXPECT_GT(lab.cache().nodes(), 1000);
  EXPECT_EQ(lab.peek(counting(0, 3), kPages - 1).tokens, 3);
  EXPECT_EQ(lab.peek(counting(0, 3), 0).tokens, 0);
}

TEST(PrefixCache, SiblingsAreSearchedUpToALimitTheLastUsedFirst) {
  PrefixCacheFixture lab({full_group()}, {2 * kSiblingsScannedMax});
  for (int32_t i = 0; i < kSiblingsScannedMax + 10; ++i) lab.run_and_leave(counting(1'000 * i, 20));
  EXPECT_EQ(lab.peek(counting(1'000 * 9, 20)).tokens, 0);
  EXPECT_EQ(lab.peek(counting(1'000 * 10, 20)).tokens, 20);
  EXPECT_EQ(lab.peek(counting(1'000 * (kSiblingsScannedMax + 9), 20)).tokens, 20);
  for (int32_t i = 0; i < 40; ++i) lab.run_and_leave(counting(1'000'000 + 1'000 * i, 20));
  EXPECT_EQ(lab.peek(counting(1'000 * 10, 20)).tokens, 20) << "found above, it is among the last used";
  EXPECT_EQ(lab.peek(counting(1'000 * 11, 20)).tokens, 0);
}

}  // namespace
}  // namespace cairn::cache
