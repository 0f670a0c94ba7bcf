#include "engine/stages/step_batch.h"

#include <memory>

namespace cairn {
namespace {

// How long the short prompts here take if they get no more than the ordinary share of every step.
int64_t predicted_short_prefill_ns(const Sequences& running, const CostModel& cost, const StepLimits& limits) {
  int64_t rows = 0, attended = 0;
  int32_t decoding = 0;
  for (const std::unique_ptr<Sequence>& sequence : running) {
    if (sequence->is_short_prefill()) rows += sequence->rows_left();
    if (!sequence->decoding()) continue;
    ++decoding;
    attended += sequence->memory().computed;
  }
  if (decoding == 0) return 0;
  const double share = limits.step_ns / (limits.step_ns + cost.step_ns(decoding, attended));
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
    batch.inputs.push_back(sequence->demand());
    batch.inputs.back().at_risk = sequence->is_short_prefill() && sequence->deadline_ns() < now_ns + short_prompts_ns;
  }
}

void defer_duplicate_prefills(const Sequences& running, std::span<const uint64_t> page_keys, StepBatch& batch) {
  for (size_t i = 0; i < page_keys.size(); ++i) {
    if (page_keys[i] == 0) continue;
    bool& deferred = batch.inputs[i].deferred;
    for (size_t j = 0; j < page_keys.size() && !deferred; ++j) {
      deferred = j != i && page_keys[j] == page_keys[i] && running[j]->precedes(*running[i]);
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
    BatchSlice& slice = batch.slices.emplace_back();
    slice.sequence = sequence.id();
    slice.row_begin = static_cast<int32_t>(batch.tokens.size());
    slice.rows = share.rows;
    slice.position_begin = memory.computed;
    slice.pages = &memory.table;
    slice.adapter_scales = sequence.adapter_scales();
    slice.logits = sequence.embeds() ? sequence.wants_hidden(share.logits)
                   : decode          ? LogitsWanted::kAll
                   : share.logits    ? LogitsWanted::kLast
                                     : LogitsWanted::kNone;
    const int32_t known = decode ? 1 : share.rows;
    const auto tokens = sequence.tokens().subspan(static_cast<size_t>(memory.computed), static_cast<size_t>(known));
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
    slice.drafts = share.rows - known;
    const auto drafts = std::span(sequence.drafts()).first(static_cast<size_t>(slice.drafts));
    batch.tokens.insert(batch.tokens.end(), drafts.begin(), drafts.end());
    batch.attended += attended_by(memory.computed, share.rows);
  }
}

}  // namespace cairn
