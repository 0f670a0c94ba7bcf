#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/text/utf8.h"

namespace cairn {

using std::chrono::nanoseconds;

Sequence::Sequence(SequenceId id, Submission&& submission, const Tokenizer& tokenizer, int32_t vocabulary,
                   size_t kv_groups, int32_t drafts_max, SamplerScratch& scratch)
    : id_(id),
      request_id_(std::move(submission.request.id)),
      channel_(submission.channel),
      ticket_(std::move(submission.ticket)),
      tokenizer_(tokenizer),
      tokens_(std::move(submission.request.prompt)),
      prompt_tokens_(static_cast<int32_t>(tokens_.size())),
      tokens_max_(submission.tokens_max),
      fills_context_(submission.request.max_tokens < 0 ||
                     int64_t{prompt_tokens_} + submission.request.max_tokens > tokens_max_),
      ignore_eos_(submission.request.ignore_eos),
      shows_stop_tokens_(submission.request.shows_stop_tokens),
      reports_prefill_(submission.request.reports_prefill),
      shown_stops_(submission.request.shown_stops),
      min_tokens_(submission.request.min_tokens),
      line_time_max_(submission.request.line_time_max),
      stop_tokens_(std::move(submission.request.stop_tokens)),
      takes_drafts_(submission.request.speculate),
      speculates_(takes_drafts_ && drafts_max > 0),
      priority_(submission.request.priority),
      party_(submission.party),
      salt_(submission.request.salt),
      adapter_scales_(std::move(submission.adapter_scales)),
      tenant_(hash64(submission.request.tenant)),
      may_be_kept_(submission.request.keep_on_disk),
      keep_on_disk_(may_be_kept_),
      slot_(submission.request.slot),
      slot_action_(submission.request.slot_action),
      arrival_ns_(submission.arrival_ns),
      deadline_ns_(submission.deadline_ns),
      patience_ns_(deadline_ns_ - arrival_ns_),
      tbt_ns_(nanoseconds(submission.request.target_tbt).count()),
      stops_(std::move(submission.request.stop)),
      sampler_(submission.request.sampling, vocabulary, tokens_, &scratch, &tokenizer),
      detokenizer_(tokenizer, submission.request.text_at_start, submission.request.render_special),
      stop_matcher_(stops_),
      indent_matcher_(submission.request.line_indent_min),
      embed_(submission.request.embed),
      constraint_(std::move(submission.request.constraint)) {
  tokens_.reserve(static_cast<size_t>(tokens_max_));
  memory_.table.groups.resize(kv_groups);
  for (std::vector<PageId>& group : memory_.table.groups) group.reserve(static_cast<size_t>(pages_for(tokens_max_)));
  memory_.cursor = root();
  drafts_.reserve(static_cast<size_t>(std::max(drafts_max, constraint_ == nullptr ? 0 : kExpectedDraftsMax)));
  if (constraint_ != nullptr) constraint_->begin(rule_);
  if (min_tokens_ == 0) return;
  for (int32_t token = 0; token < vocabulary; ++token)
    if (ends_answer(TokenId{token})) ends_.push_back(TokenId{token});
  banned_.reserve(2 * ends_.size());
}

bool Sequence::ends_answer(TokenId token) const {
  const bool known = index(token) < tokenizer_.size();  // models may pad their vocabulary
  if (!ignore_eos_ && known && tokenizer_.ends_generation(token)) return true;
  return std::ranges::find(stop_tokens_, token) != stop_tokens_.end();
}

std::span<const TokenId> Sequence::banned() {
  if (sampled_ >= min_tokens_) return rule_.banned;
  banned_.assign(rule_.banned.begin(), rule_.banned.end());
  banned_.insert(banned_.end(), ends_.begin(), ends_.end());
  return banned_;
}

std::optional<PrefillProgress> Sequence::prefill(int64_t now_ns) const {
  if (!reports_prefill_ || sampled_ > 0) return std::nullopt;
  return PrefillProgress{prompt_tokens_, cached_tokens_, std::min(memory_.computed, prompt_tokens_),
                         nanoseconds(now_ns - admitted_ns_)};
}

bool Sequence::precedes(const Sequence& other) const {
  if ((rank_ == kUnreadRank) != (other.rank_ == kUnreadRank)) return other.rank_ == kUnreadRank;
  if (priority_ != other.priority_) return priority_ < other.priority_;
  if (rank_ != other.rank_) return rank_ < other.rank_;
  return is_due_before(other);
}

bool Sequence::is_due_before(const Sequence& other) const {
  if (deadline_ns_ != other.deadline_ns_) return deadline_ns_ < other.deadline_ns_;
  return index(id_) < index(other.id_);
}

ScheduleInput Sequence::demand() const {
  ScheduleInput demand;
  demand.rows = rows_left();
  demand.decode = decoding();
  const Checkpoint* const checkpoint = memory_.next_checkpoint();
  if (checkpoint != nullptr) demand.step_rows_max = checkpoint->tokens - memory_.computed;
  demand.drafts = static_cast<int32_t>(drafts_.size());
  demand.position = memory_.computed;
  demand.priority = priority_;
  demand.party = party_;
  demand.deferred = rank_ == kUnreadRank || memory_.disk.load != nullptr || slot_action_ != SlotAction::kNone;
  demand.deadline_ns = deadline_ns_;
  demand.tbt_ns = tbt_ns_;
  return demand;
}

void Sequence::admitted(int64_t now_ns) {
  if (admitted_ns_ != 0) return;
  admitted_ns_ = now_ns;
  timings_.queue = nanoseconds(now_ns - arrival_ns_);
}

void Sequence::preempted(PreemptReason why) {
  ++timings_.preemptions;
  preempt_reason_ = why;
  waits_for_client_ = channel_->unread();
  if (waits_for_client_) ++times_unread_;
}

void Sequence::rejoin(int64_t now_ns) {
  if (!waits_for_client_ || channel_->unread()) return;
  waits_for_client_ = false;
  deadline_ns_ = now_ns + times_unread_ * std::max(patience_ns_, kRejoinDelay.count());
}

PrefixCursor Sequence::root() const {
  PrefixCursor cursor = PrefixCache::root(salt_);
  cursor.keeps_on_disk = keep_on_disk_;
  cursor.owner = disk_owner_;
  return cursor;
}

void Sequence::found_in_cache(int32_t tokens, bool on_disk) {
  // Tokens that a preempted sequence finds again are not counted as cached: they saved its client nothing.
  if (timings_.preemptions != 0 || sampled_ != 0) return;
  cached_tokens_ += tokens;
  if (on_disk) disk_tokens_ += tokens;
}

int64_t Sequence::token_at(int64_t now_ns) {
  nanoseconds gap(0);
  if (last_token_ns_ == 0) {
    timings_.prefill = nanoseconds(now_ns - admitted_ns_);
  } else {
    gap = nanoseconds(now_ns - last_token_ns_);
    timings_.decode += gap;
    timings_.max_inter_token_latency = std::max(timings_.max_inter_token_latency, gap);
  }
  last_token_ns_ = now_ns;
  return gap.count();
}

nanoseconds Sequence::stalled_for(int64_t now_ns) {
  if (!channel_->stalled()) {
    stalled_since_ns_ = -1;
    return nanoseconds(0);
  }
  if (stalled_since_ns_ < 0) stalled_since_ns_ = now_ns;
  return nanoseconds(now_ns - stalled_since_ns_);
}

void Sequence::drafted(int32_t proposed, int32_t accepted) {
  timings_.drafted += proposed;
  timings_.accepted += accepted;
  (drafts_expected_ ? expected_length_controller_ : draft_length_controller_).observe(proposed, accepted);
}

void Sequence::draft_expected(double row_cost) {
  const int32_t most = std::clamp(drafts_room(), 0, kExpectedDraftsMax);
  const auto wanted = static_cast<size_t>(expected_length_controller_.tokens_wanted(row_cost, most));
  const auto expected = rule_.expected.first(std::min(rule_.expected.size(), wanted));
  drafts_.assign(expected.begin(), expected.end());
  drafts_expected_ = true;
}

LogitsWanted Sequence::wants_hidden(bool to_the_end) const {
  if (embed_->pooling == Pooling::kMean || embed_->pooling == Pooling::kCls) return LogitsWanted::kHiddenAll;
  return to_the_end ? LogitsWanted::kHiddenLast : LogitsWanted::kNone;
}

bool Sequence::take_hidden(std::span<const float> rows, bool to_the_end, const Runner& runner, Events& events) {
  if (memory_.computed == 0) {  // also after a preemption
    const Pooling pooling = embed_->pooling == Pooling::kRank ? Pooling::kLast : embed_->pooling;
    pooled_.emplace(pooling, runner.embedding().dimensions);
  }
  pooled_->add(rows);
  if (!to_the_end) return false;
  events.finished = true;
  events.finish = finish(FinishReason::kStop);
  events.finish.embedding = pooled_->vector();
  if (embed_->pooling == Pooling::kRank) events.finish.embedding = {runner.rank(events.finish.embedding)};
  return true;
}

Finish Sequence::finish(FinishReason reason) const {
  Finish result;
  result.reason = reason;
  result.usage = {.prompt_tokens = prompt_tokens_,
                  .completion_tokens = sampled_,
                  .cached_tokens = cached_tokens_,
                  .disk_tokens = disk_tokens_};
  result.timings = timings_;
  return result;
}

// Ends the text: what detokenizer and stop matcher hold back is emitted, unless it completes a stop string.
Finish Sequence::finish_with_rest(FinishReason reason) {
  Finish result = finish(reason);
  const int32_t stop = stop_matcher_.push(detokenizer_.flush(), result.text);
  if (stop >= 0) {
    result.reason = FinishReason::kStop;
    result.stop = stops_[static_cast<size_t>(stop)];
    if (static_cast<size_t>(stop) < shown_stops_) result.text += result.stop;
  } else {
    result.text += stop_matcher_.take_held();
  }
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

TokenId Sequence::take_forced() {
  const TokenId token = rule_.forced[forced_next_++];
  if (!is_forced()) {
    rule_.forced.clear();
    forced_next_ = 0;
  }
  return token;
}

Sampled Sequence::choose(std::span<const float> logits) {
  return is_forced() ? sampler_.force(take_forced(), logits)
                     : sampler_.sample(logits, banned(), rule_.greedy, rule_.allowed);
}

bool Sequence::is_given() const { return is_forced() && !sampler_.reports(); }

bool Sequence::add_request(int32_t row, int32_t ahead, SampleBatch& samples) {
  if (ahead > 0 && (constraint_ != nullptr || sampled_ < min_tokens_ || !sampler_.knows_later_requests())) return false;
  if (is_forced()) {
    if (sampler_.reports())
      samples.add(sampler_.request_for_forced(row, rule_.forced[forced_next_], samples.changes()));
    return sampler_.reports();
  }
  const std::span<const TokenId> banned = this->banned();
  const bool masked = !rule_.allowed.empty();
  // Log-probabilities are those of the row as it was.
  if ((masked && sampler_.reports()) || !sampler_.can_sample_on_device(banned)) return false;
  if (masked) samples.allow(row, rule_.allowed);
  samples.add(sampler_.request_for(row, ahead, banned, rule_.greedy, samples.changes()));
  return true;
}

Sampled Sequence::take(const SampleResult& sampled) {
  if (is_forced()) take_forced();
  return sampler_.take(sampled);
}

bool Sequence::add_token(Sampled&& sampled, Events& events) {
  CAIRN_DCHECK(memory_.computed == static_cast<int32_t>(tokens_.size()));
  if (sampled.token == kNoToken) {
    fail(rule_.error.value_or(
             Error{Code::kInternal,
                   fmt::format("the model gave no usable logits (all are NaN or -infinity{}) after token {}",
                               rule_.allowed.empty() ? "" : ", or of tokens that may not come next", memory_.computed),
                   {}}),
         events);
    return true;
  }
  ++sampled_;
  if (ends_answer(sampled.token)) {
    events.finished = true;
    events.finish = finish_with_rest(FinishReason::kStop);
    if (shows_stop_tokens_ && std::ranges::find(stop_tokens_, sampled.token) != stop_tokens_.end())
      events.finish.text += utf8_replace_invalid(tokenizer_.piece(sampled.token, true));
    return true;
  }
  add_event(std::move(sampled), events);
  return events.finished;
}

void Sequence::fail(Error error, Events& events) {
  events.finished = true;
  events.finish = finish(FinishReason::kError);
  events.finish.error = std::move(error);
}

void Sequence::add_event(Sampled&& sampled, Events& events) {
  tokens_.push_back(sampled.token);
  TokenEvent& event = events.tokens.emplace_back();
  event.token = sampled.token;
  event.logprob = sampled.logprob;
  event.top = std::move(sampled.top);
  const int32_t stop = stop_matcher_.push(detokenizer_.push(sampled.token), event.text);
  if (stop >= 0) {
    events.finished = true;
    events.finish = finish(FinishReason::kStop);
    events.finish.stop = stops_[static_cast<size_t>(stop)];
    if (static_cast<size_t>(stop) < shown_stops_) event.text += events.finish.stop;
    return;
  }
  if (const size_t indented = indent_matcher_.push(event.text); indented < event.text.size()) {
    event.text.resize(indented);
    events.finished = true;
    events.finish = finish(FinishReason::kLength);
    return;
  }
  if (constraint_ != nullptr) constraint_->token(event.token, event.text, rule_);
  if (rule_.error) return fail(*rule_.error, events);
  const bool late = indent_matcher_.line_ended() && line_time_max_.count() > 0 && timings_.decode > line_time_max_;
  const bool full = late || static_cast<int32_t>(tokens_.size()) >= tokens_max_;
  if (!rule_.end && !full) return;
  events.finished = true;
  events.finish = finish_with_rest(rule_.end.value_or(FinishReason::kLength));
  events.finish.context_full = !rule_.end && !late && fills_context_ && events.finish.reason == FinishReason::kLength;
}

}  // namespace cairn
