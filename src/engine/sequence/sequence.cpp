#include "engine/sequence/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/failures.h"

namespace cairn::engine {

Sequence::Sequence(SequenceId id, Submission&& submission, const tokenizer::Tokenizer& tokenizer, int32_t vocabulary,
                   size_t kv_groups, int32_t drafts_max, sampling::SamplerScratch& scratch, RuleWorkers& rules)
    : id_(id),
      request_id_(std::move(submission.request.id)),
      party_(submission.party),
      channel_(submission.channel),
      ticket_(std::move(submission.ticket)),
      adapter_scales_(std::move(submission.adapter_scales)),
      tokens_(std::move(submission.request.prompt)),
      prompt_tokens_(static_cast<int32_t>(tokens_.size())),
      tokens_max_(submission.tokens_max),
      fills_context_(submission.request.max_tokens < 0 ||
                     int64_t{prompt_tokens_} + submission.request.max_tokens > tokens_max_),
      reports_prefill_(submission.request.reports_prefill),
      line_time_max_(submission.request.line_time_max),
      caching_(submission.request),
      order_(id, submission),
      statistics_(submission.arrival_ns),
      drafts_(submission.request.speculate, drafts_max, submission.request.constraint != nullptr),
      scores_(submission.request.prompt_logprobs, submission.request.logits, tokens_),
      sampling_(submission.request, tokens_, tokenizer, vocabulary, scratch, rules),
      text_(submission.request, tokenizer) {
  if (submission.request.embed) embedding_.emplace(*submission.request.embed);
  tokens_.reserve(static_cast<size_t>(tokens_max_));
  memory_.table.groups.resize(kv_groups);
  for (std::vector<PageId>& group : memory_.table.groups)
    group.reserve(static_cast<size_t>(cache::pages_for(tokens_max_)));
  memory_.cursor = caching_.root();
}

std::optional<PrefillProgress> Sequence::prefill(int64_t now_ns) const {
  if (!reports_prefill_ || has_answer()) return std::nullopt;
  return PrefillProgress{prompt_tokens_, statistics_.cached_tokens(), std::min(memory_.computed, prompt_tokens_),
                         statistics_.since_admission(now_ns)};
}

Finish Sequence::finish(FinishReason reason) const {
  Finish result;
  result.reason = reason;
  result.usage = statistics_.usage();
  result.usage.prompt_tokens = prompt_tokens_;
  result.usage.completion_tokens = sampling_.sampled();
  result.timings = statistics_.timings();
  return result;
}

// Ends the text: what it holds back is emitted, unless it completes a stop string.
Finish Sequence::finish_with_rest(FinishReason reason) {
  Finish result = finish(reason);
  text_.flush(result);
  return result;
}

Events Sequence::end(FinishReason reason, Error error) const {
  Events events;
  events.finished = true;
  events.finish = finish(reason);
  events.finish.error = std::move(error);
  return events;
}

void Sequence::publish(Events&& events, UnnotifiedChannels& unnotified) {
  // Released before the client can see the finish and send another request.
  if (events.finished) ticket_ = TenantTicket();
  unnotified.publish(channel_, std::move(events));
}

bool Sequence::add_token(sampling::Sampled&& sampled, Events& events) {
  CAIRN_DCHECK(memory_.computed == static_cast<int32_t>(tokens_.size()));
  if (sampled.token == kNoToken) {
    if (sampling_.must_end()) {
      events.finished = true;
      events.finish = finish_with_rest(FinishReason::kStop);
      return true;
    }
    fail(sampling_.failure(memory_.computed), events);
    return true;
  }
  if (sampling_.count(sampled.token)) {
    events.finished = true;
    events.finish = finish_with_rest(FinishReason::kStop);
    const bool told = events.finish.reason == FinishReason::kError || !events.finish.stop.empty();
    if (!told && sampling_.is_stop_token(sampled.token)) text_.add_stop_token(sampled.token, events.finish.text);
    return true;
  }
  add_event(std::move(sampled), events);
  return events.finished;
}

void Sequence::end_with_prompt(Events& events) {
  events.finished = true;
  events.finish = finish(FinishReason::kLength);
  events.finish.logits = scores_.take_logits();
}

void Sequence::fail(Error error, Events& events) const {
  events.finished = true;
  events.finish = finish(FinishReason::kError);
  events.finish.error = std::move(error);
}

void Sequence::add_event(sampling::Sampled&& sampled, Events& events) {
  tokens_.push_back(sampled.token);
  TokenEvent& event = events.tokens.emplace_back();
  event.token = sampled.token;
  event.logprob = sampled.logprob;
  event.top = std::move(sampled.top);
  std::string stop;
  const auto reason = text_.push(event.token, event.text, stop);
  if (!reason) return fail(copy_of(reason.error()), events);
  if (*reason) {
    events.finished = true;
    events.finish = finish(**reason);
    events.finish.stop = std::move(stop);
    return;
  }
  sampling_.proceed(event.token, event.text);
  if (!sampling_.awaits_rule()) add_end(events);
}

bool Sequence::settle(Events& events) {
  if (!sampling_.awaits_rule() || !sampling_.take_rule()) return false;
  if (has_answer()) add_end(events);
  return events.finished;
}

// Adds the end of the answer, if it is over.
void Sequence::add_end(Events& events) {
  const NextTokenRule& rule = sampling_.rule();
  if (rule.error) return fail(*rule.error, events);
  const bool late = text_.line_ended() && line_time_max_.count() > 0 && statistics_.timings().decode > line_time_max_;
  const bool full = late || static_cast<int32_t>(tokens_.size()) >= tokens_max_;
  if (!rule.end && !full) return;
  events.finished = true;
  events.finish = finish_with_rest(rule.end.value_or(FinishReason::kLength));
  events.finish.context_full = !rule.end && !late && fills_context_ && events.finish.reason == FinishReason::kLength;
}

}  // namespace cairn::engine
