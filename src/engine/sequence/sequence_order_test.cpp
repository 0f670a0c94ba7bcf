#include "engine/sequence/sequence_order.h"

#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <utility>

namespace cairn::engine {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class SequenceOrderTest : public testing::Test {
 protected:
  SequenceOrderTest() { submission_.channel = std::make_shared<EventChannel>(); }
  /// The order of a sequence that came at 0.
  SequenceOrder make(int64_t id, int64_t deadline_ns, Priority priority = Priority::kInteractive) {
    submission_.deadline_ns = deadline_ns;
    submission_.request.priority = priority;
    return {SequenceId{id}, submission_};
  }
  /// Leaves so much unread that the client counts as not reading.
  void leave_unread() {
    Events events;
    events.tokens.resize(kUnreadTokens);
    submission_.channel->publish(std::move(events));
  }

  Submission submission_;
};

TEST_F(SequenceOrderTest, ReadersThenClassesThenRanksThenDeadlinesThenAgeDecide) {
  SequenceOrder unread = make(1, 0);
  unread.set_rank(kUnreadRank);
  SequenceOrder batch = make(2, 0, Priority::kBatch), second = make(3, 0);
  second.set_rank(1);
  const SequenceOrder late = make(4, 2), younger = make(6, 1), older = make(5, 1);
  const SequenceOrder* const in_order[] = {&older, &younger, &late, &second, &batch, &unread};
  for (size_t i = 0; i < std::size(in_order); ++i) {
    for (size_t j = 0; j < std::size(in_order); ++j)
      EXPECT_EQ(in_order[i]->precedes(*in_order[j]), i < j) << i << " and " << j;
  }
}

TEST_F(SequenceOrderTest, AClientThatStallsAgainComesBackLaterEachTime) {
  SequenceOrder order = make(1, kSecond);
  leave_unread();
  order.preempted(PreemptReason::kUnread);
  order.rejoin(10 * kSecond);
  EXPECT_TRUE(order.waits_for_client());
  EXPECT_EQ(order.deadline_ns(), kSecond);
  submission_.channel->drain();
  order.rejoin(20 * kSecond);
  EXPECT_FALSE(order.waits_for_client());
  EXPECT_EQ(order.deadline_ns(), 20 * kSecond + kRejoinDelay.count());
  leave_unread();
  order.preempted(PreemptReason::kUnread);
  submission_.channel->drain();
  order.rejoin(30 * kSecond);
  EXPECT_EQ(order.deadline_ns(), 30 * kSecond + 2 * kRejoinDelay.count());
}

TEST_F(SequenceOrderTest, AStallLastsUntilTheClientReads) {
  SequenceOrder order = make(1, 0);
  EXPECT_EQ(order.stalled_for(kSecond).count(), 0);
  Events events;
  events.tokens.resize(kPendingTokensMax);
  submission_.channel->publish(std::move(events));
  EXPECT_EQ(order.stalled_for(2 * kSecond).count(), 0);
  EXPECT_EQ(order.stalled_for(5 * kSecond).count(), 3 * kSecond);
  submission_.channel->drain();
  EXPECT_EQ(order.stalled_for(6 * kSecond).count(), 0);
}

}  // namespace
}  // namespace cairn::engine
