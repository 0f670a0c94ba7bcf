#include "engine/stages/emitter.h"

#include <utility>

#include "engine/failures.h"

namespace cairn::engine {

Emitter::Emitter(model::Runner& runner, KvManager& kv, Drafting& drafting, EngineCounters& counters)
    : runner_(runner), kv_(kv), drafting_(drafting), counters_(counters), runner_samples_(runner.samples_on_device()) {}

Result<void> Emitter::sample(const Sequences& running, StepBatch& batch) {
  if (!runner_samples_) return {};
  batch.samples.begin();
  int32_t row = 0;
  for (const ScheduledTokens& share : batch.scheduled) {
    Sequence& sequence = *running[static_cast<size_t>(share.demand)];
    if (sequence.embeds()) continue;
    // Only the last row of a prompt is sampled from.
    if (sequence.scores().wanted()) row += share.logits ? share.rows - 1 : share.rows;
    if (!share.logits) continue;
    SequenceSampling& sampling = sequence.sampling();
    const int32_t rows = batch.decodes(share) ? share.rows : 1;
    if (sequence.ends_with_prompt()) {
      row += rows;
      continue;
    }
    for (int32_t ahead = 0; ahead < rows && sampling.add_request(row + ahead, ahead, batch.samples); ++ahead) continue;
    row += rows;
  }
  return batch.samples.run(runner_);
}

Result<void> Emitter::emit(const StepBatch& batch, const model::LogitsView& logits, int64_t now_ns,
                           Sequences& running) {
  Outputs outputs{logits, logits.hidden};
  for (const ScheduledTokens& share : batch.scheduled) {
    std::unique_ptr<Sequence>& sequence = running[static_cast<size_t>(share.demand)];
    Result<void> emitted = guarded([&] {
      return sequence->embeds() ? emit_hidden(sequence, share, now_ns, outputs)
                                : emit_tokens(sequence, share, batch, now_ns, outputs);
    });
    if (emitted.has_value()) continue;
    if (sequence == nullptr) return emitted;
    kv_.drop_states(sequence->memory());  // they may lack drafts that are counted as computed
    finish(sequence, sequence->end(FinishReason::kError, copy_of(emitted.error())));
    return emitted;
  }
  return {};
}

void Emitter::settle(Sequences& running) {
  for (std::unique_ptr<Sequence>& sequence : running) {
    Events events;
    if (sequence->settle(events)) finish(sequence, std::move(events));
  }
  std::erase(running, nullptr);
}

// Takes the sequence's rows from the front of the hidden rows.
Result<void> Emitter::emit_hidden(std::unique_ptr<Sequence>& sequence, const ScheduledTokens& share, int64_t now_ns,
                                  Outputs& outputs) {
  counters_.prompt_tokens += share.rows;
  SequenceEmbedding& embedding = *sequence->embedding();
  const model::LogitsWanted wanted = embedding.wanted(share.logits);
  const size_t rows = wanted == model::LogitsWanted::kHiddenAll    ? static_cast<size_t>(share.rows)
                      : wanted == model::LogitsWanted::kHiddenLast ? 1
                                                                   : 0;
  const size_t values = rows * static_cast<size_t>(runner_.embedding().dimensions);
  if (share.logits) sequence->statistics().token_at(now_ns);
  int32_t& computed = sequence->memory().computed;
  embedding.add(outputs.hidden.first(values), computed == 0, runner_);
  outputs.hidden = outputs.hidden.subspan(values);
  if (!share.logits) {
    computed += share.rows;
    return {};
  }
  Events events = sequence->end(FinishReason::kStop, {});
  events.finish.embedding = embedding.vector(runner_);
  computed += share.rows;
  finish(sequence, std::move(events));
  return {};
}

Result<void> Emitter::emit_tokens(std::unique_ptr<Sequence>& sequence, const ScheduledTokens& share,
                                  const StepBatch& batch, int64_t now_ns, Outputs& outputs) {
  const bool decode = batch.decodes(share);
  Events events;
  if (!decode) {
    counters_.prompt_tokens += share.rows;
    if (sequence->scores().wanted()) CAIRN_TRY_VOID(add_scores(*sequence, share, outputs));
    sequence->memory().computed += share.rows;
    if (share.logits) events.prompt = sequence->scores().take();
    events.prefill = sequence->prefill(now_ns);
    if (!share.logits) {
      if (events.prefill) sequence->publish(std::move(events), unnotified_);
      return {};
    }
  }
  if (const int64_t gap_ns = sequence->statistics().token_at(now_ns); gap_ns > 0)
    counters_.inter_token_seconds.add(static_cast<double>(gap_ns) * 1e-9);
  if (sequence->ends_with_prompt()) {
    if (SequenceScores& scores = sequence->scores(); scores.keeps_last()) {
      CAIRN_TRY(const std::span<const float> last, logits_row(outputs, outputs.row));
      scores.add_last(last);
    }
    sequence->end_with_prompt(events);
  } else {
    CAIRN_TRY_VOID(add_tokens(*sequence, share, batch, outputs, events));
  }
  outputs.row += decode ? share.rows : 1;
  if (events.finished) {
    finish(sequence, std::move(events));
  } else {
    sequence->publish(std::move(events), unnotified_);
  }
  return {};
}

Result<std::span<const float>> Emitter::logits_row(const Outputs& outputs, int64_t row) {
  if (runner_samples_) return runner_.logits_row(row);
  return outputs.logits.row(row);
}

// Scores the tokens behind a prompt's rows, of which all have logits, and leaves the row behind which the answer
// begins.
Result<void> Emitter::add_scores(Sequence& sequence, const ScheduledTokens& share, Outputs& outputs) {
  SequenceScores& scores = sequence.scores();
  for (int32_t i = 0; i < share.rows && scores.wanted(); ++i) {
    const int32_t next = sequence.memory().computed + i + 1;
    if (next != scores.next()) continue;  // scored before a preemption
    CAIRN_TRY(const std::span<const float> logits, logits_row(outputs, outputs.row + i));
    const TokenId token = sequence.tokens()[static_cast<size_t>(next)];
    CAIRN_TRY(PromptScore score, sequence.sampling().score(token, scores.top(), logits, next));
    scores.add(std::move(score), logits);
  }
  outputs.row += share.logits ? share.rows - 1 : share.rows;
  return {};
}

// Samples after each row whose token is known to be right: if the sample is the next draft, the next row is right as
// well.
Result<void> Emitter::add_tokens(Sequence& sequence, const ScheduledTokens& share, const StepBatch& batch,
                                 const Outputs& outputs, Events& events) {
  SequenceMemory& memory = sequence.memory();
  const bool decode = batch.decodes(share);
  const int32_t proposed = decode ? share.rows - 1 : 0;
  if (decode) ++memory.computed;
  ++counters_.tokens_generated;
  CAIRN_TRY(sampling::Sampled sampled, choose(sequence.sampling(), batch.samples, outputs.logits, outputs.row));
  bool finished = sequence.add_token(std::move(sampled), events);
  int32_t accepted = 0;
  while (!finished && !sequence.sampling().awaits_rule() && accepted < proposed &&
         sequence.tokens().back() == sequence.drafts().tokens()[static_cast<size_t>(accepted)]) {
    ++accepted;
    ++memory.computed;
    ++counters_.tokens_generated;
    CAIRN_TRY(sampled, choose(sequence.sampling(), batch.samples, outputs.logits, outputs.row + accepted));
    finished = sequence.add_token(std::move(sampled), events);
  }
  if (proposed == 0) return {};
  if (accepted > 0 && kv_.has_state()) {
    const model::BatchSlice& slice = batch.slices[static_cast<size_t>(&share - batch.scheduled.data())];
    CAIRN_TRY_VOID(runner_.keep_drafts(kv_.pool(), slice, accepted));
  }
  sequence.statistics().drafted(proposed, accepted);
  sequence.drafts().observe(proposed, accepted);
  if (finished) {  // the finish was written before this step's drafts were counted
    events.finish.timings.drafted += proposed;
    events.finish.timings.accepted += accepted;
  }
  ++counters_.drafts;
  counters_.drafted_tokens += proposed;
  counters_.accepted_tokens += accepted;
  return {};
}

// Returns the token after a row. Whether the host or the runner samples it follows from the request and the row alone,
// never from drafts.
Result<sampling::Sampled> Emitter::choose(SequenceSampling& sampling, const SampleBatch& samples,
                                          const model::LogitsView& logits, int64_t row) {
  if (!runner_samples_) return sampling.choose(logits.row(row));
  if (sampling.is_given()) return sampling.choose({});
  const kernels::SampleResult* sampled = samples.of(row);
  if (sampled == nullptr) {
    late_samples_.begin();
    if (sampling.add_request(static_cast<int32_t>(row), 0, late_samples_)) {
      CAIRN_TRY_VOID(late_samples_.run(runner_));
      sampled = late_samples_.of(row);
    }
  }
  if (sampled != nullptr && sampled->token != kernels::SampleResult::kNeedsHost) return sampling.take(*sampled);
  CAIRN_TRY(const std::span<const float> values, runner_.logits_row(row));
  return sampling.choose(values);
}

void Emitter::finish(std::unique_ptr<Sequence>& sequence, Events&& events) {
  kv_.end(*sequence, events.finish);
  drafting_.forget(sequence->id());
  kv_.count_pages();
  --counters_.active;
  const std::unique_ptr<Sequence> gone = std::move(sequence);
  gone->publish(std::move(events), unnotified_);
}

void Emitter::finish_pending(std::unique_ptr<Sequence> sequence, FinishReason reason, Error error) {
  drafting_.forget(sequence->id());
  --counters_.pending;
  sequence->publish(sequence->end(reason, std::move(error)), unnotified_);
}

void Emitter::finish_queued(Submission& submission, FinishReason reason, Error error) {
  submission.ticket = TenantTicket();
  unnotified_.publish(submission.channel, end_in_queue(submission, reason, std::move(error)));
}

void Emitter::fail(const std::shared_ptr<EventChannel>& channel, const Error& error) noexcept {
  Events events;
  events.finished = true;
  events.finish.reason = FinishReason::kError;
  events.finish.error = copy_of(error);
  unnotified_.publish(channel, std::move(events));
}

void Emitter::fail(const StepBatch& batch, const Error& error, Sequences& running) noexcept {
  for (const ScheduledTokens& share : batch.scheduled) {
    std::unique_ptr<Sequence>& sequence = running[static_cast<size_t>(share.demand)];
    if (sequence == nullptr) continue;
    kv_.drop_states(sequence->memory());  // the failed step may have advanced them
    finish(sequence, sequence->end(FinishReason::kError, copy_of(error)));
  }
}

}  // namespace cairn::engine
