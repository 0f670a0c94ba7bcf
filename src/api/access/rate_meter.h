/// Counts what one party (an API key, an address) asks for, and says when that is too much: token buckets, which fill
/// evenly and hold a minute's worth.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/event.h"

namespace cairn::api {

/// Limits of one party; 0: none.
struct RateLimits {
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;  ///< of prompts as far as they are not cached, and of answers
  int64_t concurrent = 0;         ///< requests that are being answered

  bool any() const { return requests_per_minute > 0 || tokens_per_minute > 0 || concurrent > 0; }
  bool operator==(const RateLimits&) const = default;
};
/// The largest number that a limit may be.
inline constexpr int64_t kRateLimitMax = 1'000'000'000'000;

/// Takes one word of a limit: "rpm=60" (requests per minute), "tpm=20000" (tokens per minute), "concurrent=4". False:
/// the word is no limit. Error: kInvalidArgument (its number is none from 1 to kRateLimitMax).
Result<bool> read_limit(std::string_view word, RateLimits& limits);
/// Words with blanks or commas between. Error: kInvalidArgument (also for no word).
Result<RateLimits> parse_rate_limits(std::string_view text);

/// A bucket: so much may be taken at once, and it is full again after a minute.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;
  /// Full. `capacity` 0: unlimited.
  TokenBucket(int64_t capacity, Clock::time_point now)
      : capacity_(capacity), level_(static_cast<double>(capacity)), at_(now) {}

  int64_t capacity() const { return capacity_; }
  /// Keeps what has been taken.
  void set_capacity(int64_t capacity, Clock::time_point now);
  /// What is left; below 0 where more was taken than there was.
  double level(Clock::time_point now) const;
  void take(double amount, Clock::time_point now);
  /// Until `amount` is left; 0: it is.
  std::chrono::milliseconds until(double amount, Clock::time_point now) const;

 private:
  int64_t capacity_;
  double level_;  // at at_
  Clock::time_point at_;
};

/// How much of its limits a party has left.
struct RateState {
  RateLimits limits;
  int64_t requests_left = 0;
  int64_t tokens_left = 0;
  std::chrono::milliseconds requests_full{};  ///< until all requests are left again
  std::chrono::milliseconds tokens_full{};
};

/// Why a request is refused, and when another may pass.
struct RateRefusal {
  std::string what;  ///< "60 requests per minute"
  std::chrono::milliseconds retry_after{};
};

/// Thread-safe.
class RateMeter final : public engine::UsageListener {
 public:
  using Clock = TokenBucket::Clock;
  explicit RateMeter(const RateLimits& limits, Clock::time_point now = Clock::now());

  /// Counts a request, which runs until `leave`; a refused one does not count.
  std::optional<RateRefusal> enter(Clock::time_point now);
  void leave();
  /// Takes the tokens of the prompt that were not cached, and those of the answer. A request that was let in may take
  /// more than are left: then the next one waits.
  void request_ended(const engine::Usage& usage) noexcept override;
  void take_tokens(int64_t tokens, Clock::time_point now);
  void set_limits(const RateLimits& limits, Clock::time_point now);
  RateState state(Clock::time_point now) const;

 private:
  mutable std::mutex mutex_;
  RateLimits limits_;
  TokenBucket requests_;
  TokenBucket tokens_;
  int64_t running_ = 0;
};

}  // namespace cairn::api
