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

void add_usage(Usage& sum, const Usage& usage, bool counts_prompt) {
  if (counts_prompt) {
    sum.prompt_tokens += usage.prompt_tokens;
    sum.cached_tokens += usage.cached_tokens;
  }
  sum.completion_tokens += usage.completion_tokens;
}

ordered_json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

ordered_json timings_json(const Usage& usage, const Timings& timings) {
  const int32_t prompt = usage.prompt_tokens - usage.cached_tokens;
  return {{"queue_ms", milliseconds(timings.queue)},
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
}

}  // namespace cairn::api
