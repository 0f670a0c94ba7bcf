#include "engine/engine_core.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"

namespace cairn {
namespace {

// Weight of a step's measurement in what a proposed token is thought to cost.
constexpr double kDraftCostGain = 0.2;
// Part of that cost that is forgotten in a step without proposals: what was slow once, because it read prompts or
// somebody else needed the machine, is measured again some time.
constexpr double kDraftCostForgotten = 1.0 / 256;

bool holds_state(const KvLayout& layout) {
  return std::ranges::any_of(layout.groups, [](const KvGroup& group) { return group.kind == KvKind::kState; });
}

StepLimits limits_of(const Runner& runner, const EngineOptions& options) {
  return {runner.batch_tokens_max(), runner.logits_max(), options.prefill_chunk_max,
          static_cast<double>(std::chrono::nanoseconds(options.step).count())};
}

}  // namespace

EngineCore::EngineCore(Runner& runner, const Tokenizer& tokenizer, const EngineOptions& options, PagePool&& pool,
                       std::unique_ptr<Drafter> drafter, const Clock& clock)
    : runner_(runner),
      tokenizer_(tokenizer),
      clock_(clock),
      pool_(std::move(pool)),
      prefix_cache_(pool_),
      check_weights_(options.check_weights),
      prefix_cache_enabled_(options.prefix_cache),
      has_state_(holds_state(pool_.layout())),
      // So every sequence can have a row of each step, and its logits.
      sequences_max_(std::min({options.sequences_max, runner.batch_tokens_max(), runner.logits_max()})),
      vocabulary_(static_cast<int32_t>(runner.vocabulary())),
      // Rejected rows cannot be taken back out of a recurrent state.
      drafts_max_(drafter == nullptr || has_state_ ? 0 : options.speculation.tokens_max),
      limits_(limits_of(runner, options)),
      request_limits_{vocabulary_, runner.context_tokens(), runner.embedding(), pool_tokens_of(pool_)},
      unread_max_(static_cast<size_t>(options.queue_max)),
      tenants_(options.tenant_requests_max),
      queue_(options.queue_max),
      scheduler_(limits_),
      drafter_(std::move(drafter)),
      runner_samples_(runner.samples_on_device()) {
  const auto sequences = static_cast<size_t>(sequences_max_);
  running_.reserve(sequences);
  scratch_.reserve(vocabulary_);
  inputs_.reserve(sequences);
  scheduled_.reserve(sequences);
  page_keys_.reserve(sequences);
  tenant_ranks_.reserve(sequences);
  for (Holdings& places : slots_) places.reserve(sequences);
  draft_requests_.reserve(sequences);
  batch_tokens_.reserve(static_cast<size_t>(limits_.batch_tokens_max));
  batch_slices_.reserve(sequences);
  if (runner_samples_) samples_.reserve(limits_.logits_max);
  reports_.reserve(kPrefixReportsMax);
  count_pages();
}

Result<void> EngineCore::use_host_tier(int64_t bytes) {
  CAIRN_TRY(prefix_cache_, PrefixCache::create(pool_, bytes));
  return {};
}

EngineStats EngineCore::stats() const {
  EngineStats stats;
  // Waiting first: a request that is admitted in between is seen twice rather than not at all.
  stats.waiting_requests = queue_.size();
  stats.waiting_requests += counters_.pending;
  stats.active_requests = counters_.active;
  stats.total_requests = counters_.total_requests;
  stats.cancelled_requests = counters_.cancelled_requests;
  stats.preemptions = counters_.preemptions;
  stats.tokens_generated = counters_.tokens_generated;
  stats.prompt_tokens = counters_.prompt_tokens;
  stats.cached_tokens = counters_.cached_tokens;
  stats.drafted_tokens = counters_.drafted_tokens;
  stats.accepted_tokens = counters_.accepted_tokens;
  stats.steps = counters_.steps;
  stats.step_time = std::chrono::nanoseconds(counters_.step_ns);
  stats.pages_restored = counters_.pages_restored;
  stats.pages_total = counters_.pages_total;
  stats.pages_cached = counters_.pages_cached;
  stats.pages_free = counters_.pages_free;
  return stats;
}

EngineCore::Iteration EngineCore::iterate() {
  failure_scope_ = FailureScope::kNothing;
  Iteration result = Iteration::kStalled;  // unless something was done: without memory nobody spins
  const bool all_told = unnotified_.notify_again();
  try {
    pending_.reserve(pending_.size() + running_.size() + 1);  // so that putting back cannot fail
    const int64_t begin_ns = clock_.now().count();
    drop_cancelled();
    preempt_stalled(begin_ns);
    admit();
    admit_unread();
    pending_.reserve(pending_.size() + running_.size() + 1);
    propose();
    plan(begin_ns);
    if (batch_tokens_.empty()) {
      result = running_.empty() && pending_.empty() && all_told ? Iteration::kIdle : Iteration::kStalled;
    } else {
      failure_scope_ = FailureScope::kBatch;
      result = Iteration::kWorked;
      const Result<LogitsView> logits = step();
      ++counters_.steps;
      const Result<void> emitted =
          logits.has_value() ? emit(*logits, clock_.now().count()) : std::unexpected(logits.error());
      if (emitted.has_value()) {
        keep_pages();
        learn_cost(clock_.now().count() - begin_ns);
      } else {
        fail_scope(emitted.error());
      }
    }
  } catch (const std::bad_alloc&) {
    fail_scope(out_of_memory());
  } catch (const std::exception& exception) {
    fail_scope(thrown(exception));
  }
  std::erase(running_, nullptr);
  count_pages();
  return result;
}

Result<LogitsView> EngineCore::step() {
  Result<LogitsView> logits = runner_.step({batch_tokens_, batch_slices_, &pool_, runner_samples_});
  if (logits.has_value() && check_weights_) CAIRN_TRY_VOID(check_weights_());
  return logits;
}

void EngineCore::learn_cost(int64_t step_ns) {
  counters_.step_ns += step_ns;
  // Drafts have a cost of their own: with it, rows would seem to be as dear as the drafts in them.
  cost_.observe(static_cast<int32_t>(batch_tokens_.size()), batch_attended_,
                static_cast<double>(step_ns - drafting_ns_));
  prompt_row_ns_ = cost_.row_ns();
  if (counters_.steps % kCostUpdateSteps == 0) prefix_cache_.set_cost({cost_.row_ns(), cost_.attended_ns()});
}

// Asks for drafts where they are likely to pay: see DraftLengthController.
void EngineCore::propose() try {
  for (const auto& sequence : running_) sequence->drafts().clear();
  drafting_ns_ = 0;
  if (drafts_max_ == 0) return;
  int32_t decoding = 0;
  int64_t attended = 0;
  for (const auto& sequence : running_) {
    if (!sequence->decoding()) continue;
    ++decoding;
    attended += sequence->memory().computed;
  }
  const double without = cost_.step_ns(decoding, attended);
  if (decoding == 0 || without <= 0) return;
  draft_requests_.clear();
  for (const auto& sequence : running_) {
    if (!sequence->decoding() || !sequence->speculates() || sequence->channel().unread()) continue;
    const double with = cost_.step_ns(decoding + 1, attended + sequence->memory().computed);
    const double row_cost = (with - without + draft_token_ns_) / without;
    int32_t wanted =
        std::min(sequence->draft_length_controller().tokens_wanted(row_cost, drafts_max_), sequence->drafts_room());
    // Pages of the step that checks the drafts, taken a little earlier.
    if (wanted > 0 && drafter_->writes_pages()) wanted = reserve_drafts(*sequence, wanted);
    if (wanted <= 0) continue;
    const SequenceMemory& memory = sequence->memory();
    draft_requests_.push_back({sequence->id(), sequence->tokens(), wanted, &sequence->drafts(), &memory.table, &pool_});
  }
  if (draft_requests_.empty()) {
    draft_token_ns_ *= 1 - kDraftCostForgotten;
    return;
  }
  const int64_t begin_ns = clock_.now().count();
  drafter_->propose(draft_requests_);
  drafting_ns_ = clock_.now().count() - begin_ns;
  size_t proposed = 0;
  for (const DraftRequest& request : draft_requests_) proposed += request.proposed->size();
  if (proposed > 0) {
    draft_token_ns_ +=
        kDraftCostGain * (static_cast<double>(drafting_ns_) / static_cast<double>(proposed) - draft_token_ns_);
  }
  for (const DraftRequest& request : draft_requests_) {
    // A draft model may know more tokens.
    const auto unknown = std::ranges::find_if(*request.proposed, [&](TokenId id) { return index(id) >= vocabulary_; });
    request.proposed->erase(unknown, request.proposed->end());
  }
} catch (const std::exception&) {
  for (const auto& sequence : running_) sequence->drafts().clear();  // nobody needs them
}

// How long the short prompts here take if they get no more than the ordinary share of every step.
int64_t EngineCore::predicted_short_prefill_ns() const {
  int64_t rows = 0, attended = 0;
  int32_t decoding = 0;
  for (const auto& sequence : running_) {
    if (sequence->is_short_prefill()) rows += sequence->rows_left();
    if (!sequence->decoding()) continue;
    ++decoding;
    attended += sequence->memory().computed;
  }
  if (decoding == 0) return 0;
  const double share = limits_.step_ns / (limits_.step_ns + cost_.step_ns(decoding, attended));
  return static_cast<int64_t>(static_cast<double>(rows) * cost_.row_ns() / share);
}

// Shares out the step and lays the batch out, with pages for every row.
void EngineCore::plan(int64_t now_ns) {
  extend_prefix_hits();
  rank_running();
  const int64_t short_prompts_ns = predicted_short_prefill_ns();
  inputs_.clear();
  for (const auto& sequence : running_) {
    inputs_.push_back(sequence->demand());
    inputs_.back().at_risk = sequence->is_short_prefill() && sequence->deadline_ns() < now_ns + short_prompts_ns;
  }
  defer_duplicate_prefills();
  scheduler_.plan(inputs_, cost_, scheduled_);
  reserve_pages();
  std::erase_if(scheduled_, [this](const ScheduledTokens& share) {
    return running_[static_cast<size_t>(share.demand)] == nullptr;
  });
  lay_out();
}

void EngineCore::lay_out() {
  batch_tokens_.clear();
  batch_slices_.clear();
  batch_attended_ = 0;
  for (const ScheduledTokens& share : scheduled_) {
    Sequence& sequence = *running_[static_cast<size_t>(share.demand)];
    const SequenceMemory& memory = sequence.memory();
    const bool decode = inputs_[static_cast<size_t>(share.demand)].decode;
    BatchSlice& slice = batch_slices_.emplace_back();
    slice.sequence = sequence.id();
    slice.row_begin = static_cast<int32_t>(batch_tokens_.size());
    slice.rows = share.rows;
    slice.position_begin = memory.computed;
    slice.pages = &memory.table;
    slice.logits = sequence.embeds() ? sequence.wants_hidden(share.logits)
                   : decode          ? LogitsWanted::kAll
                   : share.logits    ? LogitsWanted::kLast
                                     : LogitsWanted::kNone;
    const int32_t known = decode ? 1 : share.rows;
    const auto tokens = sequence.tokens().subspan(static_cast<size_t>(memory.computed), static_cast<size_t>(known));
    batch_tokens_.insert(batch_tokens_.end(), tokens.begin(), tokens.end());
    const auto drafts = std::span(sequence.drafts()).first(static_cast<size_t>(share.rows - known));
    batch_tokens_.insert(batch_tokens_.end(), drafts.begin(), drafts.end());
    batch_attended_ += int64_t{share.rows} * memory.computed + int64_t{share.rows} * (share.rows - 1) / 2;
  }
}

// A sequence moves on only here and only once its events are whole. If memory runs out at one sequence, those after it
// are where they were, and the next step computes their rows again, to the same values.
Result<void> EngineCore::emit(const LogitsView& logits, int64_t now_ns) {
  if (runner_samples_) CAIRN_TRY_VOID(sample_rows());
  failure_scope_ = FailureScope::kSequence;
  int64_t row = 0;
  std::span<const float> hidden = logits.hidden;
  for (const ScheduledTokens& share : scheduled_) {
    failing_sequence_ = static_cast<size_t>(share.demand);
    std::unique_ptr<Sequence>& sequence = running_[failing_sequence_];
    if (sequence->embeds()) {
      emit_hidden(sequence, share, hidden, now_ns);
      continue;
    }
    if (!inputs_[failing_sequence_].decode) {
      counters_.prompt_tokens += share.rows;
      sequence->memory().computed += share.rows;
      if (!share.logits) continue;
    }
    sequence->token_at(now_ns);
    Events events;
    CAIRN_TRY_VOID(emit_one(*sequence, share, logits, row, events));
    row += inputs_[failing_sequence_].decode ? share.rows : 1;
    if (events.finished) {
      finish(sequence, std::move(events));
    } else {
      sequence->publish(std::move(events), unnotified_);
    }
  }
  failure_scope_ = FailureScope::kNothing;
  return {};
}

// All samples of the step that do not depend on each other.
Result<void> EngineCore::sample_rows() {
  samples_.begin();
  int32_t row = 0;
  for (const ScheduledTokens& share : scheduled_) {
    Sequence& sequence = *running_[static_cast<size_t>(share.demand)];
    if (sequence.embeds() || !share.logits) continue;
    const int32_t rows = inputs_[static_cast<size_t>(share.demand)].decode ? share.rows : 1;
    for (int32_t ahead = 0; ahead < rows && sequence.add_request(row + ahead, ahead, samples_); ++ahead) continue;
    row += rows;
  }
  return samples_.run(runner_);
}

// The token after a row. Who samples it follows from the request and the row alone, never from proposals.
Result<Sampled> EngineCore::choose(Sequence& sequence, const LogitsView& logits, int64_t row) {
  if (!runner_samples_) return sequence.choose(logits.row(row));
  if (sequence.is_given()) return sequence.choose({});
  const SampleResult* sampled = samples_.of(row);
  if (sampled == nullptr) {
    late_samples_.begin();
    if (sequence.add_request(static_cast<int32_t>(row), 0, late_samples_)) {
      CAIRN_TRY_VOID(late_samples_.run(runner_));
      sampled = late_samples_.of(row);
    }
  }
  if (sampled != nullptr && sampled->token != SampleResult::kNeedsHost) return sequence.take(*sampled);
  CAIRN_TRY(const std::span<const float> values, runner_.logits_row(row));
  return sequence.choose(values);
}

// Takes from the front of `hidden` what the sequence wanted.
void EngineCore::emit_hidden(std::unique_ptr<Sequence>& sequence, const ScheduledTokens& share,
                             std::span<const float>& hidden, int64_t now_ns) {
  counters_.prompt_tokens += share.rows;
  const LogitsWanted wanted = sequence->wants_hidden(share.logits);
  const size_t rows = wanted == LogitsWanted::kHiddenAll    ? static_cast<size_t>(share.rows)
                      : wanted == LogitsWanted::kHiddenLast ? 1
                                                            : 0;
  const size_t values = rows * static_cast<size_t>(request_limits_.embedding.dimensions);
  if (share.logits) sequence->token_at(now_ns);
  Events events;
  const bool whole = sequence->take_hidden(hidden.first(values), share.logits, runner_, events);
  hidden = hidden.subspan(values);
  sequence->memory().computed += share.rows;
  if (whole) finish(sequence, std::move(events));
}

// Samples after the last row that is known to be right; a proposal that is sampled makes the next row right as well.
Result<void> EngineCore::emit_one(Sequence& sequence, const ScheduledTokens& share, const LogitsView& logits,
                                  int64_t row, Events& events) {
  SequenceMemory& memory = sequence.memory();
  const bool decode = inputs_[static_cast<size_t>(share.demand)].decode;
  const int32_t proposed = decode ? share.rows - 1 : 0;
  if (decode) ++memory.computed;
  ++counters_.tokens_generated;
  CAIRN_TRY(Sampled sampled, choose(sequence, logits, row));
  bool finished = sequence.add_token(std::move(sampled), events);
  int32_t accepted = 0;
  while (!finished && accepted < proposed &&
         sequence.tokens().back() == sequence.drafts()[static_cast<size_t>(accepted)]) {
    ++accepted;
    ++memory.computed;
    ++counters_.tokens_generated;
    CAIRN_TRY(sampled, choose(sequence, logits, row + accepted));
    finished = sequence.add_token(std::move(sampled), events);
  }
  if (proposed == 0) return {};
  sequence.drafted(proposed, accepted);
  if (finished) {  // the finish was written before this step's proposals were counted
    events.finish.timings.drafted += proposed;
    events.finish.timings.accepted += accepted;
  }
  counters_.drafted_tokens += proposed;
  counters_.accepted_tokens += accepted;
  return {};
}

void EngineCore::finish(std::unique_ptr<Sequence>& sequence, Events&& events) {
  release_kv(*sequence);
  if (drafter_ != nullptr) drafter_->forget(sequence->id());
  count_pages();
  --counters_.active;
  const std::unique_ptr<Sequence> gone = std::move(sequence);
  gone->publish(std::move(events), unnotified_);
}

void EngineCore::fail_scope(const Error& error) noexcept {
  switch (failure_scope_) {
    case FailureScope::kNothing:
      break;
    case FailureScope::kAdmission: {
      --counters_.pending;
      Events events;
      events.finished = true;
      events.finish.reason = FinishReason::kError;
      events.finish.error = copy_of(error);
      unnotified_.publish(admitting_, std::move(events));
      admitting_.reset();
      break;
    }
    case FailureScope::kBatch:
      for (const ScheduledTokens& share : scheduled_) {
        std::unique_ptr<Sequence>& sequence = running_[static_cast<size_t>(share.demand)];
        if (sequence == nullptr) continue;
        drop_states(sequence->memory());  // the step may have moved them on
        finish(sequence, sequence->end(FinishReason::kError, copy_of(error)));
      }
      break;
    case FailureScope::kSequence: {
      std::unique_ptr<Sequence>& sequence = running_[failing_sequence_];
      if (sequence != nullptr) finish(sequence, sequence->end(FinishReason::kError, copy_of(error)));
      break;
    }
  }
}

}  // namespace cairn
