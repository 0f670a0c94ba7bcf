#include "engine/output/event_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace cairn::engine {
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

TEST(EventChannel, AnAbandonedChannelKeepsNoEventsAndDoesNotNotify) {
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

TEST(EventChannel, TheNotifyFunctionMayDrain) {
  EventChannel channel;
  size_t drained = 0;
  channel.on_events([&] { drained += channel.drain().tokens.size(); });
  for (int32_t i = 0; i < 3; ++i) channel.publish(token(i));
  EXPECT_EQ(drained, 3u);
}

class Listener final : public UsageListener {
 public:
  void request_ended(const Usage& usage) noexcept override { told.push_back(usage.completion_tokens); }
  std::vector<int32_t> told;
};

TEST(EventChannel, TheUsageOfAnAdmittedRequestIsToldOnceEvenIfItsClientHasGone) {
  for (const bool gone : {false, true}) {
    const auto listener = std::make_shared<Listener>();
    EventChannel channel(listener);
    if (gone) channel.abandon();
    Events end = finish(gone ? FinishReason::kCancelled : FinishReason::kStop);
    end.finish.timings.queue = std::chrono::nanoseconds(1);
    end.finish.usage.completion_tokens = 7;
    Events again = end;
    channel.publish(std::move(end));
    channel.publish(std::move(again));
    EXPECT_EQ(listener->told, std::vector<int32_t>{7});
  }
  const auto listener = std::make_shared<Listener>();
  EventChannel channel(listener);
  channel.publish(finish(FinishReason::kCancelled));
  EXPECT_TRUE(listener->told.empty()) << "it ended in the queue";
}

// A client that cannot be woken for lack of memory is woken later.
TEST(EventChannel, AFailedWakeUpIsRepeatedLater) {
  UnnotifiedChannels untold;
  std::vector<std::shared_ptr<EventChannel>> channels;
  std::vector<int> told(3);
  int failures = 4;
  for (int& count : told) {
    channels.push_back(std::make_shared<EventChannel>());
    channels.back()->on_events([&] {
      if (failures-- > 0) throw std::bad_alloc();
      ++count;
    });
  }
  for (const auto& channel : channels) untold.publish(channel, finish(FinishReason::kStop));
  EXPECT_EQ(told, (std::vector<int>{0, 0, 0}));
  EXPECT_FALSE(untold.notify_again());
  EXPECT_TRUE(untold.notify_again());
  EXPECT_EQ(told, (std::vector<int>{1, 1, 1}));
  EXPECT_TRUE(untold.notify_again());
  EXPECT_EQ(told, (std::vector<int>{1, 1, 1}));
  failures = 1;
  channels.push_back(std::make_shared<EventChannel>());
  channels.back()->on_events([&] { throw std::bad_alloc(); });
  untold.publish(channels.back(), token(1));
  untold.publish(channels.back(), token(2));
  EXPECT_EQ(channels.back()->drain().tokens.size(), 2u);
  channels.back()->abandon();
  EXPECT_TRUE(untold.notify_again()) << "who has gone need not be told";
}

TEST(EventChannel, WaitWakesForEveryEventAndLosesNone) {
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
}  // namespace cairn::engine
