#include "engine/engine_core.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/failures.h"

namespace cairn::engine {
namespace {

StepLimits limits_of(const model::Runner& runner, const EngineOptions& options) {
  const auto ns_of = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()); };
  return {.batch_tokens_max = runner.batch_tokens_max(),
          .logits_max = runner.logits_max(),
          .prefill_chunk_max = options.prefill_chunk_max,
          .step_ns = ns_of(options.step.value_or(kStepDefault)),
          .gap_ns = options.step ? 0 : ns_of(kGapDefault)};
}

bool is_loading(const Sequences& running) {
  return std::ranges::any_of(running, [](const auto& sequence) {
    return sequence != nullptr &&
           (sequence->memory().disk.load != nullptr || sequence->caching().slot_action() != SlotAction::kNone ||
            sequence->sampling().awaits_rule());
  });
}

}  // namespace

EngineCore::EngineCore(model::Runner& runner, const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
                       cache::PagePool&& pool, std::unique_ptr<Drafter> drafter, const Clock& clock)
    : runner_(runner),
      clock_(clock),
      check_weights_(options.check_weights),
      model_(std::make_shared<const std::string>(options.model)),
      step_trace_(options.step_trace),
      runner_samples_(runner.samples_on_device()),
      // Every running sequence must get a row, with logits, in each step.
      sequences_max_(std::min({options.sequences_max, runner.batch_tokens_max(), runner.logits_max()})),
      limits_(limits_of(runner, options)),
      kv_(std::move(pool), options, sequences_max_, counters_),
      drafting_(std::move(drafter), options, runner, sequences_max_, kv_, clock),
      emitter_(runner, kv_, drafting_, counters_),
      admission_(runner, tokenizer, options, sequences_max_, drafting_.drafts_max(), kv_, emitter_, counters_, clock),
      scheduler_(limits_),
      cost_(options.first_rows) {
  const auto sequences = static_cast<size_t>(sequences_max_);
  running_.reserve(sequences);
  batch_.reserve(sequences, static_cast<size_t>(limits_.batch_tokens_max));
  if (runner_samples_) batch_.samples.reserve(limits_.logits_max);
}

EngineStats EngineCore::stats() const {
  const RequestQueue& queue = admission_.queue();
  EngineStats stats = counters_.stats(queue.size());
  stats.waiting_batch_requests = queue.size(Priority::kBatch);
  if (kv_.disk() != nullptr) {
    stats.has_disk = true;
    stats.disk = kv_.disk()->worker().store().counts();
    stats.disk_pages_dropped = kv_.disk()->worker().pages_dropped();
  }
  return stats;
}

EngineCore::Iteration EngineCore::iterate() {
  // Unless something was done; when stalled for memory the caller waits instead of spinning.
  Iteration result = Iteration::kStalled;
  const bool all_told = emitter_.notify_again();
  bool batch_fails = false;  // whether a failure now fails the whole batch
  const Result<void> done = guarded([&]() -> Result<void> {
    const int64_t begin_ns = clock_.now().count();
    admission_.rules().begin_step();
    emitter_.settle(running_);
    kv_.take_loaded(running_, begin_ns);
    admission_.admit(begin_ns, running_);
    const int64_t drafting_ns = drafting_.propose(running_, cost_);
    schedule(begin_ns);
    if (batch_.tokens.empty()) {
      if (running_.empty() && pending().empty() && all_told) result = Iteration::kIdle;
      if (is_loading(running_)) result = Iteration::kLoading;
      return {};
    }
    result = Iteration::kWorked;
    batch_fails = true;
    CAIRN_TRY(const model::LogitsView logits, run());
    CAIRN_TRY_VOID(emitter_.sample(running_, batch_));
    const int64_t now_ns = clock_.now().count();
    batch_fails = false;
    CAIRN_TRY_VOID(emitter_.emit(batch_, logits, now_ns, running_));
    kv_.keep(batch_.scheduled, running_);
    learn_cost({.begin_ns = begin_ns, .all_ns = clock_.now().count() - begin_ns, .drafting_ns = drafting_ns});
    return {};
  });
  if (!done.has_value() && batch_fails) emitter_.fail(batch_, done.error(), running_);
  std::erase(running_, nullptr);
  kv_.count_pages();
  return result;
}

// Divides the step's rows among the sequences and lays the batch out, with a page for every row.
void EngineCore::schedule(int64_t now_ns) {
  kv_.extend_prefix_hits(running_);
  admission_.rank(running_);
  collect_inputs(running_, cost_, limits_, now_ns, batch_);
  defer_duplicate_prefills(running_, kv_.page_keys(running_, batch_.inputs), batch_);
  scheduler_.plan(batch_.inputs, cost_, batch_.scheduled);
  if (scheduler_.time_was_up()) ++counters_.limited_steps;
  reserve_pages();
  std::erase_if(batch_.scheduled, [this](const ScheduledTokens& share) {
    return running_[static_cast<size_t>(share.demand)] == nullptr;
  });
  lay_out(running_, batch_);
}

// Required pages come first, for all sequences: no sequence is preempted for a draft.
void EngineCore::reserve_pages() {
  for (const ScheduledTokens& share : batch_.scheduled) {
    const std::unique_ptr<Sequence>& sequence = running_[static_cast<size_t>(share.demand)];
    if (sequence == nullptr) continue;
    const int32_t tokens = sequence->memory().computed + (batch_.decodes(share) ? 1 : share.rows);
    if (kv_.extend(*sequence, tokens)) continue;
    kv_.release_drafts(running_);
    while (sequence != nullptr && !kv_.reserve(*sequence, tokens)) admission_.preempt_for(*sequence, running_);
  }
  for (ScheduledTokens& share : batch_.scheduled) {
    const std::unique_ptr<Sequence>& sequence = running_[static_cast<size_t>(share.demand)];
    if (sequence == nullptr || !batch_.decodes(share)) continue;
    if (share.rows > 1) share.rows = 1 + kv_.reserve_drafts(*sequence, share.rows - 1);
  }
}

Result<model::LogitsView> EngineCore::run() {
  Result<model::LogitsView> logits = runner_.step({batch_.tokens, batch_.slices, &kv_.pool(), runner_samples_});
  Result<void> checked;
  if (logits.has_value() && check_weights_) checked = check_weights_();
  ++counters_.steps;
  if (!logits.has_value() || !checked.has_value()) ++counters_.failed_steps;
  CAIRN_TRY_VOID(std::move(checked));
  return logits;
}

void EngineCore::learn_cost(const IterationTimes& times) {
  int32_t decode_rows = 0;
  for (const ScheduledTokens& share : batch_.scheduled)
    if (batch_.decodes(share)) decode_rows += share.rows;
  const auto rows = static_cast<int32_t>(batch_.tokens.size());
  counters_.count_step(times.all_ns, rows - decode_rows, decode_rows, static_cast<int32_t>(batch_.scheduled.size()));
  if (step_trace_ != nullptr) trace_step(times, rows - decode_rows, decode_rows);
  // The time of drafting is left out: with it, rows would seem as expensive as the drafts in them.
  cost_.observe(rows, batch_.attended, static_cast<double>(times.all_ns - times.drafting_ns));
  admission_.set_prompt_token_ns(cost_.row_ns());
  if (counters_.steps % kCostUpdateSteps == 0) kv_.set_cost({cost_.row_ns(), cost_.attended_ns()});
}

// It is called before the cost model learns from the step, so that the prediction is the one that it was planned by.
void EngineCore::trace_step(const IterationTimes& times, int32_t prompt_rows, int32_t decode_rows) {
  StepRecord record{.model = model_,
                    .step = counters_.steps,
                    .begin_ns = times.begin_ns,
                    .duration_ns = times.all_ns,
                    .drafting_ns = times.drafting_ns,
                    .predicted_ns = static_cast<int64_t>(cost_.step_ns(prompt_rows + decode_rows, batch_.attended)),
                    .budget_ns = static_cast<int64_t>(limits_.step_ns),
                    .prompt_rows = prompt_rows,
                    .decode_rows = decode_rows,
                    .sequences = static_cast<int32_t>(batch_.scheduled.size()),
                    .waiting = admission_.queue().size(),
                    .attended = batch_.attended};
  for (size_t i = 0; i < std::min(batch_.slices.size(), kTracedSharesMax); ++i) {
    const ScheduledTokens& share = batch_.scheduled[i];
    record.shares[i] = {static_cast<int64_t>(index(batch_.slices[i].sequence)), share.rows, batch_.decodes(share)};
  }
  step_trace_->add(record);
}

void EngineCore::end_all() noexcept {
  for (std::unique_ptr<Sequence>& sequence : running_)
    emitter_.finish(sequence, sequence->end(FinishReason::kCancelled, {}));
  running_.clear();
  admission_.end_all();
}

}  // namespace cairn::engine
