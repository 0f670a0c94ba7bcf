/// The engine of a model that writes text: EngineCore on a thread of its own.
#include "engine/engine.h"

#include <chrono>
#include <memory>
#include <utility>

#include "engine/channel_stream.h"
#include "engine/engine_core.h"
#include "engine/output/event_channel.h"
#include "engine/power_limit.h"
#include "engine/request_validation.h"
#include "engine/scheduling/request_queue.h"
#include "engine/worker_thread.h"

namespace cairn::engine {
namespace {

/// How often to check clients that do not read their events while nothing else can go on.
constexpr std::chrono::milliseconds kStallPoll{10};
/// How often to look for pages from the disk, and for rules of constraints, while nothing else can go on.
constexpr std::chrono::milliseconds kLoadPoll{1};

class ThreadedEngine final : public Engine {
 public:
  ThreadedEngine(model::Runner& runner, const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
                 cache::PagePool&& pool, std::unique_ptr<Drafter> drafter)
      : model_(options.model),
        power_(options.power),
        core_(runner, tokenizer, options, std::move(pool), std::move(drafter), clock_) {}
  ~ThreadedEngine() override { stop(); }

  /// Called once, before anything else. Errors: kOutOfMemory, kUnavailable (no thread could be started).
  Result<void> start(const EngineOptions& options);
  Result<std::unique_ptr<GenerateStream>> submit(GenerateRequest request) override;
  void stop() override;
  EngineStats stats() const override { return core_.stats(); }
  EngineHistograms histograms() const override { return core_.histograms(); }
  std::string_view model() const override { return model_; }
  Result<PrefixReport> prefix_report(std::string_view id, const Party& asker) const override {
    return core_.prefix_report(id, asker);
  }
  int32_t context_tokens() const override { return core_.context_tokens(); }
  Slots* slots() override { return core_.slots(); }
  std::vector<float> adapter_scales() const override { return core_.adapters().current(); }
  Result<void> set_adapter_scales(std::span<const AdapterScale> scales) override {
    return core_.adapters().set(scales);
  }

 private:
  void run();

  const std::string model_;
  const std::shared_ptr<const PowerLimit> power_;  // null: none
  SteadyClock clock_;
  EngineCore core_;
  WorkerThread thread_;
};

Result<void> ThreadedEngine::start(const EngineOptions& options) {
  if (options.kv_host_bytes > 0) CAIRN_TRY_VOID(core_.use_host_tier(options.kv_host_bytes));
  if (options.kv_disk != nullptr) CAIRN_TRY_VOID(core_.use_disk(options.kv_disk));
  return thread_.start([this] { run(); });
}

void ThreadedEngine::stop() {
  core_.queue().stop();
  thread_.join();
}

Result<std::unique_ptr<GenerateStream>> ThreadedEngine::submit(GenerateRequest request) {
  auto channel = std::make_shared<EventChannel>(request.usage_listener);
  auto stream = std::make_unique<ChannelStream>(channel);
  CAIRN_TRY_VOID(core_.submit(std::move(request), std::move(channel)));
  return stream;
}

void ThreadedEngine::run() {
  RequestQueue& queue = core_.queue();
  while (!queue.stopped()) {
    const auto begin = clock_.now();
    switch (core_.iterate()) {
      case EngineCore::Iteration::kIdle:
        queue.wait();
        break;
      case EngineCore::Iteration::kStalled:
        queue.wait_for(kStallPoll);
        break;
      case EngineCore::Iteration::kLoading:
        queue.wait_for(kLoadPoll);
        break;
      case EngineCore::Iteration::kWorked:
        rest_after_step(power_.get(), clock_.now() - begin, queue, core_.rested_ns());
        break;
    }
  }
  core_.end_all();
  core_.flush();
}

Result<void> check_options(const EngineOptions& options, const model::Runner& runner) {
  const std::pair<const char*, int64_t> values[] = {{"queue_max", options.queue_max},
                                                    {"sequences_max", options.sequences_max},
                                                    {"prefill_chunk_max", options.prefill_chunk_max},
                                                    {"step_ms", options.step.value_or(kStepDefault).count()}};
  for (const auto& [name, value] : values) {
    if (value < 1) return fail_at(name, Code::kInvalidArgument, "{} is {}; it must be at least 1", name, value);
  }
  const cache::KvLayout& layout = runner.kv_layout();
  if (options.kv_pages.size() != layout.groups.size()) {
    return fail_at("kv_pages", Code::kInvalidArgument, "kv_pages has {} counts, but the model has {} KV groups",
                   options.kv_pages.size(), layout.groups.size());
  }
  for (size_t group = 0; group < layout.groups.size(); ++group) {
    // Groups that limit a sequence are checked at submit; a window or a state slot must fit in any case.
    const cache::KvKind kind = layout.groups[group].kind;
    const bool paged = kind == cache::KvKind::kFull || kind == cache::KvKind::kLatent;
    const int64_t tokens = paged ? 1 : runner.context_tokens();
    const int32_t needed = pages_needed(layout.groups[group], tokens, options.prefill_chunk_max);
    if (options.kv_pages[group] >= needed) continue;
    return fail_at("kv_pages", Code::kInvalidArgument, "KV group {} has {} pages; it needs at least {}", group,
                   options.kv_pages[group], needed);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(model::Runner& runner, std::span<kernels::DeviceMemory* const> devices,
                                               const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
                                               std::unique_ptr<Drafter> drafter) {
  CAIRN_TRY_VOID(check_options(options, runner));
  CAIRN_TRY(cache::PagePool pool, cache::PagePool::create(devices, runner.kv_layout(), options.kv_pages));
  if (drafter == nullptr && options.speculation.tokens_max > 0) {
    drafter = runner.has_mtp() ? make_mtp_drafter(runner) : make_prompt_lookup(options.speculation.ngram_max);
  }
  auto engine = std::make_unique<ThreadedEngine>(runner, tokenizer, options, std::move(pool), std::move(drafter));
  CAIRN_TRY_VOID(engine->start(options));
  return engine;
}

}  // namespace cairn::engine
