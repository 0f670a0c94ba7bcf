#include "api/openai/wire.h"

#include <algorithm>
#include <chrono>

#include "api/errors.h"
#include "base/text/utf8.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

double milliseconds(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

double per_second(int32_t count, std::chrono::nanoseconds time) {
  return time.count() > 0 ? count / std::chrono::duration<double>(time).count() : 0.0;
}

ordered_json logprob_entry(const Tokenizer& tokenizer, TokenId id, float logprob) {
  ordered_json bytes = ordered_json::array();
  for (const char c : tokenizer.piece(id, true)) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", token_text(tokenizer, id)}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

}  // namespace

std::string event_text(const ordered_json& value) { return "data: " + dump(value) + "\n\n"; }

int64_t unix_seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  return utf8_replace_invalid(tokenizer.piece(id, true));
}

ordered_json logprob_json(const Tokenizer& tokenizer, const TokenEvent& event) {
  ordered_json entry = logprob_entry(tokenizer, event.token, event.logprob);
  entry["top_logprobs"] = ordered_json::array();
  for (const auto& top : event.top) entry["top_logprobs"].push_back(logprob_entry(tokenizer, top.token, top.logprob));
  return entry;
}

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

}  // namespace cairn::api::openai
