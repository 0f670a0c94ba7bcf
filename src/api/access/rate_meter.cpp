#include "api/access/rate_meter.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text/printable.h"

namespace cairn::api {
namespace {

constexpr double kMillisecondsPerMinute = 60'000;
/// What a bucket may lack because its level is rounded.
constexpr double kRoundingMax = 1e-6;
/// What a client waits that has too many requests running: nobody knows when one ends.
constexpr std::chrono::milliseconds kConcurrentRetry{1'000};

double minutes_between(TokenBucket::Clock::time_point begin, TokenBucket::Clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double, std::milli>(end - begin).count() / kMillisecondsPerMinute);
}

}  // namespace

Result<bool> read_limit(std::string_view word, RateLimits& limits) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = word.substr(0, equals), number = word.substr(equals + 1);
  int64_t* limit = name == "rpm"          ? &limits.requests_per_minute
                   : name == "tpm"        ? &limits.tokens_per_minute
                   : name == "concurrent" ? &limits.concurrent
                                          : nullptr;
  if (limit == nullptr) return false;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), *limit);
  if (error != std::errc() || end != number.data() + number.size() || *limit < 1 || *limit > kRateLimitMax) {
    return fail(Code::kInvalidArgument, "{} must be a number from 1 to {}, not \"{}\"", name, kRateLimitMax,
                printable(number));
  }
  return true;
}

Result<RateLimits> parse_rate_limits(std::string_view text) {
  constexpr std::string_view kBetween = " ,\t";
  RateLimits limits;
  bool after_comma = true;
  for (const char c : text) {
    if (c == ',' && after_comma) return fail(Code::kInvalidArgument, "it has an empty part between its commas");
    if (c == ',' || kBetween.find(c) == std::string_view::npos) after_comma = c == ',';
  }
  if (after_comma && !text.empty()) return fail(Code::kInvalidArgument, "it has an empty part between its commas");
  for (size_t begin = text.find_first_not_of(kBetween); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    CAIRN_TRY(const bool known, read_limit(word, limits));
    if (!known) {
      return fail(Code::kInvalidArgument,
                  "\"{}\" is no limit; limits are rpm=N (requests per minute), tpm=N (tokens per minute) and "
                  "concurrent=N (requests at once)",
                  printable(word));
    }
    begin = text.find_first_not_of(kBetween, end);
  }
  if (!limits.any()) return fail(Code::kInvalidArgument, "there is no limit in it; write for example rpm=60");
  return limits;
}

void TokenBucket::set_capacity(int64_t capacity, Clock::time_point now) {
  const double taken = capacity_ == 0 ? 0 : static_cast<double>(capacity_) - level(now);
  capacity_ = capacity;
  level_ = static_cast<double>(capacity) - taken;
  at_ = now;
}

double TokenBucket::level(Clock::time_point now) const {
  const auto full = static_cast<double>(capacity_);
  return std::min(full, level_ + full * minutes_between(at_, now));
}

void TokenBucket::take(double amount, Clock::time_point now) {
  if (capacity_ == 0) return;
  level_ = level(now) - amount;
  at_ = std::max(at_, now);
}

std::chrono::milliseconds TokenBucket::until(double amount, Clock::time_point now) const {
  if (capacity_ == 0) return {};
  const double missing = amount - level(now);
  if (missing <= kRoundingMax) return {};
  return std::chrono::milliseconds(
      static_cast<int64_t>(std::ceil(missing * kMillisecondsPerMinute / static_cast<double>(capacity_))));
}

RateMeter::RateMeter(const RateLimits& limits, Clock::time_point now)
    : limits_(limits), requests_(limits.requests_per_minute, now), tokens_(limits.tokens_per_minute, now) {}

std::optional<RateRefusal> RateMeter::enter(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (limits_.concurrent > 0 && running_ >= limits_.concurrent)
    return RateRefusal{fmt::format("{} requests at once", limits_.concurrent), kConcurrentRetry};
  if (const auto wait = requests_.until(1, now); wait.count() > 0)
    return RateRefusal{fmt::format("{} requests per minute", limits_.requests_per_minute), wait};
  if (const auto wait = tokens_.until(1, now); wait.count() > 0)
    return RateRefusal{fmt::format("{} tokens per minute", limits_.tokens_per_minute), wait};
  requests_.take(1, now);
  ++running_;
  return std::nullopt;
}

void RateMeter::leave() {
  const std::lock_guard lock(mutex_);
  --running_;
}

void RateMeter::request_ended(const engine::Usage& usage) noexcept {
  const int64_t computed = std::max(0, usage.prompt_tokens - usage.cached_tokens);
  take_tokens(computed + usage.completion_tokens, Clock::now());
}

void RateMeter::take_tokens(int64_t tokens, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  tokens_.take(static_cast<double>(tokens), now);
}

void RateMeter::set_limits(const RateLimits& limits, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  requests_.set_capacity(limits.requests_per_minute, now);
  tokens_.set_capacity(limits.tokens_per_minute, now);
}

RateState RateMeter::state(Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  const auto left = [&](const TokenBucket& bucket) {
    return std::max<int64_t>(0, static_cast<int64_t>(std::floor(bucket.level(now))));
  };
  const auto full = [&](const TokenBucket& bucket) {
    return bucket.until(static_cast<double>(bucket.capacity()), now);
  };
  return {limits_, left(requests_), left(tokens_), full(requests_), full(tokens_)};
}

}  // namespace cairn::api
