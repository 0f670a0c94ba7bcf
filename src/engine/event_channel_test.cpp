#include "engine/event_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace cairn {
namespace {

Events token(int32_t id) {
  Events events;
  events.tokens.push_back({TokenId{id}, "t" + std::to_string(id), 0, {}});
  return events;
}

Events finish(FinishReason reason) {
  Events events;
  events.finished = true;
  events.finish.reason = reason;
  return events;
}

TEST(EventChannel, EventsGatherUntilTheyAreTaken) {
  EventChannel channel;
  channel.publish(token(1));
  channel.publish(token(2));
  Events events = channel.drain();
  ASSERT_EQ(events.tokens.size(), 2u);
  EXPECT_EQ(events.tokens[1].text, "t2");
  EXPECT_FALSE(events.finished);
  EXPECT_TRUE(channel.drain().tokens.empty());
}

TEST(EventChannel, NothingFollowsAFinish) {
  EventChannel channel;
  channel.publish(finish(FinishReason::kLength));
  channel.publish(finish(FinishReason::kError));
  EXPECT_EQ(channel.drain().finish.reason, FinishReason::kLength);
  channel.publish(token(1));
  channel.publish(finish(FinishReason::kError));
  const Events after = channel.wait(std::chrono::hours(1));
  EXPECT_FALSE(after.finished);
  EXPECT_TRUE(after.tokens.empty());
}

TEST(EventChannel, AnAbandonedOneKeepsNothingAndTellsNobody) {
  EventChannel channel;
  int calls = 0;
  channel.on_events([&] { ++calls; });
  channel.publish(token(1));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(channel.cancelled());
  channel.abandon();
  EXPECT_TRUE(channel.cancelled());
  channel.publish(token(2));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(channel.drain().tokens.empty());
}

TEST(EventChannel, NotifyMayDrain) {
  EventChannel channel;
  size_t drained = 0;
  channel.on_events([&] { drained += channel.drain().tokens.size(); });
  for (int32_t i = 0; i < 3; ++i) channel.publish(token(i));
  EXPECT_EQ(drained, 3u);
}

TEST(EventChannel, WaitingWakesAndLosesNothing) {
  EventChannel channel;
  std::thread engine([&] {
    for (int32_t i = 0; i < 2'000; ++i) channel.publish(token(i));
    channel.publish(finish(FinishReason::kStop));
  });
  int32_t next = 0;
  for (bool finished = false; !finished;) {
    Events events = channel.wait(std::chrono::hours(1));
    for (const TokenEvent& event : events.tokens) ASSERT_EQ(index(event.token), next++);
    finished = events.finished;
  }
  engine.join();
  EXPECT_EQ(next, 2'000);
}

}  // namespace
}  // namespace cairn
