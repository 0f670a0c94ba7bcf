/// The engine without its thread: an iteration is a list of stages, each with an owner, that hand a batch on.
///
/// | stage    | owner                       | what it does                                                            |
/// |----------|-----------------------------|-------------------------------------------------------------------------|
/// | settle   | Emitter                     | takes rules of next tokens that were found out beside the steps         |
/// | admit    | Admission                   | ends what is cancelled; admits waiting requests while memory lasts      |
/// | draft    | Drafting                    | proposes tokens where that is likely to pay                             |
/// | schedule | Scheduler, lay_out          | divides the step's rows; pages for each, by preemption if needed        |
/// | run      | Runner                      | computes the step                                                       |
/// | sample   | Emitter                     | tokens from logits, where the runner samples                            |
/// | emit     | Emitter                     | events to clients; finished sequences go                                |
///
/// Then KvManager adds the new pages to the prefix cache, and the cost model observes the step's time.
///
/// A failure ends only what its stage works on: in `run` and `sample` all sequences of the batch, in `emit` the current
/// sequence, in `admit` the request that becomes a sequence, and otherwise nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/system/clock.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/engine_stats.h"
#include "engine/kv/kv_manager.h"
#include "engine/output/event_channel.h"
#include "engine/request.h"
#include "engine/scheduling/cost_model.h"
#include "engine/scheduling/request_queue.h"
#include "engine/scheduling/scheduler.h"
#include "engine/sequence/sequence.h"
#include "engine/speculation/drafter.h"
#include "engine/stages/admission.h"
#include "engine/stages/drafting.h"
#include "engine/stages/emitter.h"
#include "engine/stages/step_batch.h"
#include "engine/step_trace.h"
#include "model/runner.h"
#include "tokenizer/tokenizer.h"

namespace cairn::engine {

/// Steps between two updates of the prefix cache's cost per token.
inline constexpr int64_t kCostUpdateSteps = 64;

class EngineCore {
 public:
  enum class Iteration {
    kIdle,     ///< no request is there
    kStalled,  ///< nothing can go on until a client takes its events
    kLoading,  ///< nothing can go on until pages come from the disk, or rules from constraints
    kWorked,
  };

  /// All arguments passed by reference outlive the core. `drafter` null: no speculation.
  EngineCore(model::Runner& runner, const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
             cache::PagePool&& pool, std::unique_ptr<Drafter> drafter, const Clock& clock);

  /// Evicted pages are kept in `bytes` of host memory. Call before the first iteration. Error: kOutOfMemory.
  Result<void> use_host_tier(int64_t bytes) { return kv_.use_host_tier(bytes); }
  /// Pages outlive the process in `tier`. Call after use_host_tier. Error: kOutOfMemory.
  Result<void> use_disk(std::shared_ptr<cache::disk::DiskTier> tier) { return kv_.use_disk(std::move(tier)); }

  // -- From any thread.
  /// Events go to `channel`. Errors: see Engine::submit.
  Result<void> submit(GenerateRequest&& request, std::shared_ptr<EventChannel> channel) {
    return admission_.submit(std::move(request), std::move(channel));
  }
  RequestQueue& queue() { return admission_.queue(); }
  const cache::PagePool& pool() const { return kv_.pool(); }
  int32_t context_tokens() const { return admission_.limits().context_tokens; }
  Slots* slots() { return kv_.slots(); }
  AdapterScales& adapters() { return admission_.adapters(); }
  const AdapterScales& adapters() const { return admission_.adapters(); }
  EngineStats stats() const;
  EngineHistograms histograms() const { return counters_.histograms(); }
  Result<PrefixReport> prefix_report(std::string_view id, const Party& asker) const {
    return kv_.reports().find(id, asker);
  }

  // -- From the engine's thread.
  Iteration iterate();
  /// Finishes all requests with kCancelled.
  void end_all() noexcept;
  /// After end_all: writes what is cached to the disk tier, if there is one, within kFlushMax.
  void flush() { kv_.flush(); }
  // For audits between iterations: every page in use is in the table of a running sequence or in the cache.
  std::span<const std::unique_ptr<Sequence>> running() const { return running_; }
  std::span<const std::unique_ptr<Sequence>> pending() const { return admission_.pending(); }
  /// Time of rests between iterations, for whoever takes them.
  std::atomic<int64_t>& rested_ns() { return counters_.rested_ns; }
  cache::PrefixCache& prefix_cache() { return kv_.prefix_cache(); }

 private:
  void schedule(int64_t now_ns);
  void reserve_pages();
  Result<model::LogitsView> run();
  /// What the iteration has taken.
  struct IterationTimes {
    int64_t begin_ns = 0;
    int64_t all_ns = 0;
    int64_t drafting_ns = 0;
  };
  void learn_cost(const IterationTimes& times);
  void trace_step(const IterationTimes& times, int32_t prompt_rows, int32_t decode_rows);

  model::Runner& runner_;
  const Clock& clock_;
  const std::function<Result<void>()> check_weights_;
  const std::shared_ptr<const std::string> model_;
  const std::shared_ptr<StepTrace> step_trace_;  // null: none
  const bool runner_samples_;
  const int32_t sequences_max_;
  const StepLimits limits_;
  EngineCounters counters_;
  KvManager kv_;
  Drafting drafting_;
  Emitter emitter_;
  Admission admission_;
  Scheduler scheduler_;
  CostModel cost_;
  Sequences running_;
  StepBatch batch_;  // of the current iteration; keeps its memory
};

}  // namespace cairn::engine
