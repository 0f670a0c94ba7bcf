#include "engine/stages/step_batch.h"

#include <algorithm>
#include <memory>

namespace cairn::engine {
namespace {

ScheduleInput input_of(const Sequence& sequence) {
  const SequenceMemory& memory = sequence.memory();
  const SequenceOrder& order = sequence.order();
  ScheduleInput input;
  input.rows = sequence.rows_left();
  input.decode = sequence.decoding();
  const Checkpoint* const checkpoint = memory.next_checkpoint();
  if (checkpoint != nullptr) input.step_rows_max = checkpoint->tokens - memory.computed;
  const bool waits = sequence.sampling().awaits_rule();  // nothing can be chosen behind the last row
  if (waits) input.step_rows_max = std::min(input.step_rows_max, std::max(input.rows - 1, 1));
  input.drafts = static_cast<int32_t>(sequence.drafts().tokens().size());
  input.position = memory.computed;
  input.scores = sequence.scores().wanted();
  input.priority = order.priority();
  input.party = sequence.party();
  input.deferred = order.rank() == kUnreadRank || memory.disk.load != nullptr || (waits && input.rows == 1) ||
                   sequence.caching().slot_action() != SlotAction::kNone;
  input.deadline_ns = order.deadline_ns();
  input.tbt_ns = order.tbt_ns();
  return input;
}

// Whether it waits for its first token with a prompt of at most kLateRowsMax uncached tokens.
bool is_short_prefill(const Sequence& sequence) {
  return !sequence.has_answer() && sequence.prompt_tokens() - sequence.statistics().cached_tokens() <= kLateRowsMax;
}

// How long the short prompts here take if they get no more than the ordinary share of every step.
int64_t predicted_short_prefill_ns(const Sequences& running, const CostModel& cost, const StepLimits& limits) {
  int64_t rows = 0, attended = 0;
  int32_t decoding = 0;
  for (const std::unique_ptr<Sequence>& sequence : running) {
    if (is_short_prefill(*sequence)) rows += sequence->rows_left();
    if (!sequence->decoding()) continue;
    ++decoding;
    attended += sequence->memory().computed;
  }
  if (decoding == 0) return 0;
  const double step_ns = step_beside_prompts_ns(limits, cost, decoding, attended);
  const double share = 1 - cost.step_ns(decoding, attended) / step_ns;
  return static_cast<int64_t>(static_cast<double>(rows) * cost.row_ns() / share);
}

}  // namespace

void StepBatch::reserve(size_t sequences, size_t batch_tokens_max) {
  inputs.reserve(sequences);
  scheduled.reserve(sequences);
  tokens.reserve(batch_tokens_max);
  slices.reserve(sequences);
}

void collect_inputs(const Sequences& running, const CostModel& cost, const StepLimits& limits, int64_t now_ns,
                    StepBatch& batch) {
  const int64_t short_prompts_ns = predicted_short_prefill_ns(running, cost, limits);
  batch.inputs.clear();
  for (const std::unique_ptr<Sequence>& sequence : running) {
    ScheduleInput& input = batch.inputs.emplace_back(input_of(*sequence));
    input.at_risk = is_short_prefill(*sequence) && input.deadline_ns < now_ns + short_prompts_ns;
  }
}

void defer_duplicate_prefills(const Sequences& running, std::span<const uint64_t> page_keys, StepBatch& batch) {
  for (size_t i = 0; i < page_keys.size(); ++i) {
    if (page_keys[i] == 0) continue;
    bool& deferred = batch.inputs[i].deferred;
    for (size_t j = 0; j < page_keys.size() && !deferred; ++j) {
      deferred = j != i && page_keys[j] == page_keys[i] && running[j]->order().precedes(running[i]->order());
    }
  }
}

void lay_out(const Sequences& running, StepBatch& batch) {
  batch.tokens.clear();
  batch.slices.clear();
  batch.attended = 0;
  for (const ScheduledTokens& share : batch.scheduled) {
    Sequence& sequence = *running[static_cast<size_t>(share.demand)];
    const SequenceMemory& memory = sequence.memory();
    const bool decode = batch.decodes(share);
    model::BatchSlice& slice = batch.slices.emplace_back();
    slice.sequence = sequence.id();
    slice.row_begin = static_cast<int32_t>(batch.tokens.size());
    slice.rows = share.rows;
    slice.position_begin = memory.computed;
    slice.pages = &memory.table;
    slice.adapter_scales = sequence.adapter_scales();
    slice.logits = sequence.embeds()                      ? sequence.embedding()->wanted(share.logits)
                   : decode || sequence.scores().wanted() ? model::LogitsWanted::kAll
                   : share.logits                         ? model::LogitsWanted::kLast
                                                          : model::LogitsWanted::kNone;
    const int32_t known = decode ? 1 : share.rows;
    const auto tokens = sequence.tokens().subspan(static_cast<size_t>(memory.computed), static_cast<size_t>(known));
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
    slice.drafts = share.rows - known;
    const auto drafts = sequence.drafts().tokens().first(static_cast<size_t>(slice.drafts));
    batch.tokens.insert(batch.tokens.end(), drafts.begin(), drafts.end());
    batch.attended += attended_by(memory.computed, share.rows);
  }
}

}  // namespace cairn::engine
