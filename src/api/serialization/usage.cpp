#include "api/serialization/usage.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

double milliseconds(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

double per_second(int32_t count, std::chrono::nanoseconds time) {
  return time.count() > 0 ? count / std::chrono::duration<double>(time).count() : 0.0;
}

}  // namespace

void add_usage(engine::Usage& sum, const engine::Usage& usage, bool counts_prompt) {
  if (counts_prompt) {
    sum.prompt_tokens += usage.prompt_tokens;
    sum.cached_tokens += usage.cached_tokens;
    sum.disk_tokens += usage.disk_tokens;
    sum.cache_write_tokens += usage.cache_write_tokens;
  }
  sum.completion_tokens += usage.completion_tokens;
}

ordered_json usage_so_far_json(int32_t prompt_tokens, int32_t completion_tokens) {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"total_tokens", prompt_tokens + completion_tokens}};
}

ordered_json usage_json(const engine::Usage& usage) {
  ordered_json value = usage_so_far_json(usage.prompt_tokens, usage.completion_tokens);
  value["prompt_tokens_details"] = cache_json(usage);
  return value;
}

ordered_json cache_json(const engine::Usage& usage) {
  ordered_json details = {{"cached_tokens", usage.cached_tokens}};
  if (usage.disk_tokens > 0) details["disk_tokens"] = usage.disk_tokens;
  if (usage.cache_write_tokens > 0) details["cache_write_tokens"] = usage.cache_write_tokens;
  return details;
}

ordered_json prefill_json(const engine::PrefillProgress& progress) {
  return {{"total", progress.total},
          {"cache", progress.cached},
          {"processed", progress.computed},
          {"time_ms", static_cast<int64_t>(milliseconds(progress.time))}};
}

std::vector<engine::PrefillProgress> PrefillTold::next(const engine::PrefillProgress& progress) {
  std::vector<engine::PrefillProgress> now;
  if (told_ < 0) {
    now.push_back(progress);
    now.back().computed = progress.cached;
    told_ = progress.cached;
  }
  if (progress.computed > told_) {
    now.push_back(progress);
    told_ = progress.computed;
  }
  return now;
}

void TimingsSoFar::token() {
  if (predicted_++ == 0) first_ = Clock::now();
}

ordered_json TimingsSoFar::json() const {
  const bool begun = predicted_ > 0;
  const std::chrono::nanoseconds decode = begun ? Clock::now() - first_ : std::chrono::nanoseconds(0);
  const int32_t after_first = std::max(0, predicted_ - 1);
  const int32_t computed = (begun ? prompt_.total : prompt_.computed) - prompt_.cached;
  std::chrono::nanoseconds prefill = begun ? first_ - begun_ : prompt_.time;
  if (!begun && computed == 0) prefill = {};
  return {{"cache_n", prompt_.cached},
          {"prompt_n", computed},
          {"prompt_ms", milliseconds(prefill)},
          {"prompt_per_second", per_second(computed, prefill)},
          {"predicted_n", predicted_},
          {"predicted_ms", milliseconds(decode)},
          {"predicted_per_token_ms", after_first > 0 ? milliseconds(decode) / after_first : 0.0},
          {"predicted_per_second", per_second(after_first, decode)}};
}

ordered_json timings_json(const engine::Usage& usage, const engine::Timings& timings) {
  const int32_t prompt = usage.prompt_tokens - usage.cached_tokens;
  ordered_json value = {{"queue_ms", milliseconds(timings.queue)},
                        {"cache_n", usage.cached_tokens},
                        {"prompt_n", prompt},
                        {"prompt_ms", milliseconds(timings.prefill)},
                        {"prompt_per_second", per_second(prompt, timings.prefill)},
                        {"predicted_n", usage.completion_tokens},
                        {"predicted_ms", milliseconds(timings.decode)},
                        {"predicted_per_second", per_second(std::max(0, usage.completion_tokens - 1), timings.decode)},
                        {"gap_ms_max", milliseconds(timings.max_inter_token_latency)},
                        {"preemptions", timings.preemptions},
                        {"draft_n", timings.drafted},
                        {"draft_n_accepted", timings.accepted}};
  if (usage.disk_tokens > 0) value["disk_n"] = usage.disk_tokens;
  return value;
}

}  // namespace cairn::api
