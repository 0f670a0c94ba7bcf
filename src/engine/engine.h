/// One loaded model at work: many requests, one batch, one thread: admit, draft, schedule, run, sample, emit.
///
/// Decode rows go first in every step; prompts fill what is left of the step's time (scheduler.h). Computed prefixes
/// are kept for later prompts (cache/prefix_cache.h). When pages run out, the cheapest sequence is preempted and goes
/// on later. A request's tokens depend on nothing but itself: logits do not depend on the batch (see Runner), and the
/// i-th sample only on the seed and i.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/engine_options.h"  // IWYU pragma: export
#include "engine/engine_stats.h"    // IWYU pragma: export
#include "engine/event.h"           // IWYU pragma: export
#include "engine/request.h"         // IWYU pragma: export
#include "engine/speculation/drafter.h"
#include "kernels/device_memory.h"
#include "model/runner.h"
#include "tokenizer/tokenizer.h"

namespace cairn::engine {

/// The client's side of a request. Destroying it cancels. May outlive the engine. Thread-safe.
class GenerateStream {
 public:
  virtual ~GenerateStream() = default;
  /// Takes all events so far; never blocks.
  virtual Events drain() = 0;
  /// Takes all events so far like drain, but waits up to `timeout` for the first event. After the finish was taken it
  /// does not wait.
  virtual Events wait(std::chrono::milliseconds timeout) = 0;
  /// `notify` is called on the engine's thread, at most once per step, after events were added, or on another thread
  /// when its request displaces this one in the queue. It must only wake a thread: it may drain, but must not destroy
  /// the stream; if it throws for lack of memory it is called again. Set it once, before the first drain; it is called
  /// at once, on this thread, if events are there already. It is never called after the stream is destroyed.
  virtual void on_events(std::function<void()> notify) = 0;
  /// Frees the request's memory within one step. The finish is kCancelled, unless the request has ended before.
  virtual void cancel() = 0;
};

/// Owns its thread. Destroying it stops it.
class Engine {
 public:
  /// `runner`, the memory of its `devices` by KvGroup::device, and `tokenizer` outlive the engine. `drafter` null: the
  /// model's own MTP module, or else prompt lookup, if options ask for speculation. Errors: kInvalidArgument (an option
  /// out of its range), kOutOfMemory (KV pages).
  static Result<std::unique_ptr<Engine>> create(model::Runner& runner, std::span<kernels::DeviceMemory* const> devices,
                                                const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
                                                std::unique_ptr<Drafter> drafter = nullptr);
  /// Overload for a single device.
  static Result<std::unique_ptr<Engine>> create(model::Runner& runner, kernels::DeviceMemory& device,
                                                const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
                                                std::unique_ptr<Drafter> drafter = nullptr) {
    kernels::DeviceMemory* const devices[] = {&device};
    return create(runner, devices, tokenizer, options, std::move(drafter));
  }
  virtual ~Engine() = default;

  /// Thread-safe; does not wait. Errors: kInvalidArgument (empty prompt, token out of range, sampling, max_tokens,
  /// stop, targets; `at` names the field), kContextLengthExceeded (prompt tokens and context tokens in the message; one
  /// token of the answer must fit), kTooLarge (needs more KV pages than there are), kQueueFull (also a tenant's limit),
  /// kUnavailable (stopping). kQueueFull may also come as a finish: see RequestQueue::push and Admission::admit.
  virtual Result<std::unique_ptr<GenerateStream>> submit(GenerateRequest request) = 0;
  /// Refuses new requests, finishes all others with kCancelled and joins the thread. Thread-safe; may be called more
  /// than once.
  virtual void stop() = 0;
  /// Thread-safe, does not wait for the engine's thread.
  virtual EngineStats stats() const = 0;
  /// Histograms of steps and of the time between tokens; thread-safe and without waiting, as stats().
  virtual EngineHistograms histograms() const { return {}; }
  /// EngineOptions::model.
  virtual std::string_view model() const { return {}; }
  /// Thread-safe. Error: kNotFound (none of the last kPrefixReportsMax requests has this id and the asker's tenant, or,
  /// without a tenant, its client).
  virtual Result<PrefixReport> prefix_report(std::string_view id, const Party& asker) const = 0;
  virtual int32_t context_tokens() const = 0;
  /// The slots, which live as long as the engine; null without a disk tier.
  virtual Slots* slots() { return nullptr; }
  /// Scale of each LoRA adapter, for requests that name none; empty: there are no adapters. Thread-safe, as
  /// set_adapter_scales().
  virtual std::vector<float> adapter_scales() const { return {}; }
  /// Sets these scales, for requests that are submitted from now on; see AdapterScales::set.
  virtual Result<void> set_adapter_scales(std::span<const AdapterScale> scales) {
    return AdapterScales({}).set(scales);
  }
};

}  // namespace cairn::engine
