#include "api/access/rate_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using namespace std::chrono_literals;
using Clock = RateMeter::Clock;

const Clock::time_point kMeterStart = Clock::time_point() + 1h;

TEST(RateLimits, AreWordsWithBlanksOrCommasBetween) {
  EXPECT_EQ(*parse_rate_limits("rpm=60, tpm=2000 concurrent=4"), (RateLimits{60, 2'000, 4}));
  EXPECT_EQ(*parse_rate_limits("concurrent=1"), (RateLimits{0, 0, 1}));
  for (const auto* bad : {"", " , ", "rpm", "rpm=", "rpm=0", "rpm=-1", "rpm=1x", "rpm=1.5", "60", "RPM=1", "rps=1",
                          "rpm=99999999999999999999", "rpm=1,,tpm=2", "rpm=1,"})
    EXPECT_FALSE(parse_rate_limits(bad).has_value()) << bad;
}

TEST(TokenBucket, FillsEvenlyUpToAMinutesWorth) {
  TokenBucket bucket(60, kMeterStart);
  bucket.take(60, kMeterStart);
  EXPECT_EQ(bucket.level(kMeterStart), 0);
  EXPECT_EQ(bucket.until(1, kMeterStart), 1'000ms);
  EXPECT_DOUBLE_EQ(bucket.level(kMeterStart + 30s), 30);
  EXPECT_DOUBLE_EQ(bucket.level(kMeterStart + 1h), 60);
  EXPECT_EQ(bucket.until(60, kMeterStart + 30s), 30'000ms);
  bucket.take(100, kMeterStart + 1h);
  EXPECT_DOUBLE_EQ(bucket.level(kMeterStart + 1h), -40) << "what is answered may cost more than is left";
  EXPECT_EQ(bucket.until(1, kMeterStart + 1h), 41'000ms);
}

TEST(TokenBucket, WithoutACapacityIsNeverEmpty) {
  TokenBucket bucket(0, kMeterStart);
  bucket.take(1e12, kMeterStart);
  EXPECT_EQ(bucket.until(1, kMeterStart), 0ms);
}

TEST(TokenBucket, KeepsWhatWasTakenWhenItsCapacityChanges) {
  TokenBucket bucket(10, kMeterStart);
  bucket.take(8, kMeterStart);
  bucket.set_capacity(20, kMeterStart);
  EXPECT_DOUBLE_EQ(bucket.level(kMeterStart), 12);
  bucket.set_capacity(5, kMeterStart);
  EXPECT_DOUBLE_EQ(bucket.level(kMeterStart), -3);
}

TEST(RateMeter, RefusesWhatIsOverAnyLimitAndSaysWhichAndWhen) {
  RateMeter requests({.requests_per_minute = 2}, kMeterStart);
  EXPECT_FALSE(requests.enter(kMeterStart));
  EXPECT_FALSE(requests.enter(kMeterStart));
  const auto refused = requests.enter(kMeterStart);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->what, "2 requests per minute");
  EXPECT_EQ(refused->retry_after, 30s);
  EXPECT_FALSE(requests.enter(kMeterStart + 30s)) << "refused requests do not count";

  RateMeter tokens({.tokens_per_minute = 60}, kMeterStart);
  EXPECT_FALSE(tokens.enter(kMeterStart));
  tokens.take_tokens(90, kMeterStart);
  EXPECT_EQ(tokens.enter(kMeterStart)->what, "60 tokens per minute");
  EXPECT_EQ(tokens.enter(kMeterStart)->retry_after, 31s);
  EXPECT_FALSE(tokens.enter(kMeterStart + 31s));

  RateMeter running({.concurrent = 1}, kMeterStart);
  EXPECT_FALSE(running.enter(kMeterStart));
  EXPECT_EQ(running.enter(kMeterStart)->what, "1 requests at once");
  running.leave();
  EXPECT_FALSE(running.enter(kMeterStart));
}

TEST(RateMeter, ChargesPromptsAsFarAsTheyWereNotCachedAndAnswers) {
  RateMeter meter({.tokens_per_minute = 1'000});
  meter.request_ended({.prompt_tokens = 100, .completion_tokens = 20, .cached_tokens = 90});
  EXPECT_EQ(meter.state(Clock::now()).tokens_left / 10, 97);
}

TEST(RateMeter, TellsWhatIsLeftAndWhenAllIsLeftAgain) {
  RateMeter meter({.requests_per_minute = 60, .tokens_per_minute = 600}, kMeterStart);
  EXPECT_FALSE(meter.enter(kMeterStart));
  meter.take_tokens(900, kMeterStart);
  const RateState state = meter.state(kMeterStart);
  EXPECT_EQ(state.requests_left, 59);
  EXPECT_EQ(state.requests_full, 1s);
  EXPECT_EQ(state.tokens_left, 0);
  EXPECT_EQ(state.tokens_full, 90s);
}

}  // namespace
}  // namespace cairn::api
