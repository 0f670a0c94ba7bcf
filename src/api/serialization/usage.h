/// Token counts and times of a response, as JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "engine/engine.h"

namespace cairn::api {

/// Adds one choice's; choices of one prompt share it, so that `counts_prompt` is true for one of them.
void add_usage(engine::Usage& sum, const engine::Usage& usage, bool counts_prompt);
nlohmann::ordered_json usage_json(const engine::Usage& usage);
/// The counts alone, of an answer that goes on: vLLM's continuous_usage_stats.
nlohmann::ordered_json usage_so_far_json(int32_t prompt_tokens, int32_t completion_tokens);
/// {"cached_tokens"}, and where they are not 0 {"disk_tokens", "cache_write_tokens"}.
nlohmann::ordered_json cache_json(const engine::Usage& usage);

/// llama.cpp's prompt_progress: {"total", "cache", "processed", "time_ms"}.
nlohmann::ordered_json prefill_json(const engine::PrefillProgress& progress);

/// Which progress of a prompt a client is told: from what was cached to the whole of it, and each step forward once.
class PrefillTold {
 public:
  /// What is told now, in order.
  std::vector<engine::PrefillProgress> next(const engine::PrefillProgress& progress);

 private:
  int32_t told_ = -1;
};

/// The timings of an answer that goes on, for llama.cpp's timings_per_token.
class TimingsSoFar {
 public:
  /// How far the prompt is, of a request with timings_per_token.
  void prompt(const engine::PrefillProgress& progress) { prompt_ = progress; }
  /// A token has come.
  void token();
  int32_t predicted() const { return predicted_; }
  /// {"cache_n", "prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms", "predicted_per_token_ms",
  /// "predicted_per_second"}. Before the first token the prompt's are those of what is computed so far.
  nlohmann::ordered_json json() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point first_{};  // token
  engine::PrefillProgress prompt_;
  int32_t predicted_ = 0;
};

/// llama.cpp's names where it has one. The first token belongs to the prompt's time, so that one fewer is counted.
nlohmann::ordered_json timings_json(const engine::Usage& usage, const engine::Timings& timings);

}  // namespace cairn::api
