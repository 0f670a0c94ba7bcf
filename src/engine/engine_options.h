/// How an engine works.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace cairn::cache::disk {
class DiskTier;
}  // namespace cairn::cache::disk

namespace cairn::engine {

class PowerLimit;
class StepTrace;

struct SpeculationOptions {
  int32_t tokens_max = 0;  ///< maximum draft tokens per sequence and step; 0: no speculation
  int32_t ngram_max = 4;   ///< longest run of tokens that prompt lookup searches for
  /// A draft model or a drafting head stops at a token that it finds less likely than this; 0: it never does.
  float probability_min = 0;
};

/// Maximum rows of the first step after loading, when no cost is known.
inline constexpr int32_t kFirstRows = 16;

inline constexpr std::chrono::milliseconds kStepDefault{30};
inline constexpr std::chrono::milliseconds kGapDefault{200};

struct EngineOptions {
  std::string model{};              ///< name of the model, for whoever is told of the engine
  std::vector<int32_t> kv_pages{};  ///< pages of every KV group
  int32_t queue_max = 256;          ///< maximum waiting requests; more are refused with kQueueFull
  /// Maximum sequences in the batch; never more than the runner's batch_tokens_max and logits_max.
  int32_t sequences_max = 64;
  int32_t tenant_requests_max = 0;  ///< maximum waiting and running requests of one tenant (see Tenants); 0: no limit
  /// Time that prompts may add to a step while streams decode. None: kStepDefault, and more while the time between two
  /// tokens of a stream stays under kGapDefault (see step_beside_prompts_ns).
  std::optional<std::chrono::milliseconds> step{};
  int32_t prefill_chunk_max = 264;  ///< maximum prompt rows of one step, however fast they are
  int32_t first_rows = kFirstRows;  ///< maximum rows of the first step, when no cost is known
  bool prefix_cache = true;
  int64_t kv_host_bytes = 0;  ///< bytes of host memory for pages that are evicted from the pool; 0: none
  std::shared_ptr<cache::disk::DiskTier> kv_disk{};  ///< where pages outlive the process; null: nowhere
  std::vector<float> adapter_scales{};               ///< one of each LoRA adapter of the runner
  SpeculationOptions speculation{};
  std::shared_ptr<const PowerLimit> power{};  ///< null: it computes all the time
  std::shared_ptr<StepTrace> step_trace{};    ///< gets a record of each step; null: none is made
  /// Called on the engine's thread after each step: an error (the weights have changed) fails the requests of the step.
  /// Empty: nothing is checked.
  std::function<Result<void>()> check_weights{};
};

}  // namespace cairn::engine
