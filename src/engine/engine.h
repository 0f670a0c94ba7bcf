/// One loaded model at work: many requests, one batch, one thread: admit, draft, schedule, run, sample, emit.
///
/// Decode rows go first in every step; prompts fill what is left of the step's time (scheduler.h). What was computed is
/// kept and found again (cache/prefix_cache.h). When pages run out the cheapest sequence is put back and goes on later.
/// A request's tokens depend on nothing but itself: logits do not depend on the batch (see Runner), and the i-th sample
/// only on the seed and i.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/engine_stats.h"  // IWYU pragma: export
#include "engine/event.h"         // IWYU pragma: export
#include "engine/request.h"       // IWYU pragma: export
#include "engine/speculation/drafter.h"
#include "kernels/device_memory.h"
#include "model/runner.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

struct SpeculationOptions {
  int32_t tokens_max = 0;  ///< proposed per sequence and step; 0: no speculation
  int32_t ngram_max = 4;   ///< longest run of tokens that prompt lookup searches for
};

struct EngineOptions {
  std::vector<int32_t> kv_pages;  ///< of every KV group
  int32_t queue_max = 256;        ///< requests waiting; more are refused with kQueueFull
  int32_t sequences_max =
      64;  ///< sequences in the batch; at most the runner's batch_tokens_max and logits_max are used
  int32_t tenant_requests_max = 0;     ///< waiting and running, of one tenant (see Tenants); 0: no limit
  std::chrono::milliseconds step{30};  ///< what prompts may add to a step while streams decode
  int32_t prefill_chunk_max = 264;     ///< prompt rows of one step, however fast they are
  bool prefix_cache = true;
  int64_t kv_host_bytes = 0;  ///< host memory for pages that the pool gives up; 0: none
  SpeculationOptions speculation{};
  /// Asked on the engine's thread when a step has been computed: an error (weights that are no longer what they were)
  /// fails the requests of the step. Empty: there is nothing to ask.
  std::function<Result<void>()> check_weights{};
};

/// The client's end of a request. Destroying it cancels. May outlive the engine. Thread-safe.
class GenerateStream {
 public:
  virtual ~GenerateStream() = default;
  /// Takes all events so far; never blocks.
  virtual Events drain() = 0;
  /// As drain, but waits up to `timeout` for the first event. After the finish was taken it does not wait.
  virtual Events wait(std::chrono::milliseconds timeout) = 0;
  /// Called on the engine's thread, at most once a step, after events were added, or on another's when its request
  /// makes room for itself in the queue; must only wake somebody (it may drain, but not destroy the stream; if it
  /// throws for want of memory it is called again). Set it once, before the first drain; called at once, on this
  /// thread, if events are there already. Never called after the stream is destroyed.
  virtual void on_events(std::function<void()> notify) = 0;
  /// The request's memory is free within one step. Finish follows with kCancelled, unless it came to its end before.
  virtual void cancel() = 0;
};

/// Owns its thread. Destroying it stops it.
class Engine {
 public:
  /// `runner`, the memory of its `devices` by KvGroup::device, and `tokenizer` outlive the engine. `drafter` null: the
  /// model's own MTP module, or else prompt lookup, if options ask for speculation. Errors: kInvalidArgument (an option
  /// out of its range), kOutOfMemory (KV pages).
  static Result<std::unique_ptr<Engine>> create(Runner& runner, std::span<DeviceMemory* const> devices,
                                                const Tokenizer& tokenizer, const EngineOptions& options,
                                                std::unique_ptr<Drafter> drafter = nullptr);
  /// Overload for a single device.
  static Result<std::unique_ptr<Engine>> create(Runner& runner, DeviceMemory& device, const Tokenizer& tokenizer,
                                                const EngineOptions& options,
                                                std::unique_ptr<Drafter> drafter = nullptr) {
    DeviceMemory* const devices[] = {&device};
    return create(runner, devices, tokenizer, options, std::move(drafter));
  }
  virtual ~Engine() = default;

  /// Thread-safe; does not wait. Errors: kInvalidArgument (empty prompt, token out of range, sampling, max_tokens,
  /// stop, targets; `at` names the field), kContextLengthExceeded (prompt tokens and context tokens in the message; one
  /// token of the answer must fit), kTooLarge (needs more KV pages than there are), kQueueFull (also a tenant's limit),
  /// kUnavailable (stopping). kQueueFull may come as a finish, too: see RequestQueue::push and
  /// Admission::admit.
  virtual Result<std::unique_ptr<GenerateStream>> submit(GenerateRequest request) = 0;
  /// Refuses new requests, finishes all with kCancelled and joins the thread. Thread-safe, may be called again.
  virtual void stop() = 0;
  /// Thread-safe, does not wait for the engine's thread.
  virtual EngineStats stats() const = 0;
  /// Thread-safe. kNotFound: no such request of the same tenant, or without one of the same client, among the last
  /// ones.
  virtual Result<PrefixReport> prefix_report(std::string_view id, const Party& asker) const = 0;
  virtual int32_t context_tokens() const = 0;
};

}  // namespace cairn
