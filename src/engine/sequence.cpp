#include "engine/sequence.h"

#include <utility>

#include "base/check.h"

namespace cairn {

Sequence::Sequence(SequenceId id, Submission&& submission, const Tokenizer& tokenizer, int32_t vocabulary,
                   size_t kv_groups, SamplerScratch& scratch)
    : id_(id),
      channel_(submission.channel),
      tokenizer_(tokenizer),
      tokens_(std::move(submission.request.prompt)),
      prompt_tokens_(static_cast<int32_t>(tokens_.size())),
      tokens_max_(submission.tokens_max),
      pages_max_(submission.pages_max),
      ignore_eos_(submission.request.ignore_eos),
      stops_(std::move(submission.request.stop)),
      sampler_(submission.request.sampling, vocabulary, tokens_, &scratch),
      detokenizer_(tokenizer, submission.request.text_at_start, submission.request.render_special),
      stop_matcher_(stops_) {
  tokens_.reserve(static_cast<size_t>(tokens_max_));
  pages_.groups.resize(kv_groups);
  for (std::vector<PageId>& group : pages_.groups) group.reserve(static_cast<size_t>(pages_max_));
}

std::span<const TokenId> Sequence::next_tokens(int32_t rows) const {
  return std::span(tokens_).subspan(static_cast<size_t>(computed_), static_cast<size_t>(rows));
}

Events Sequence::end(FinishReason reason, Error error) const {
  Events events;
  events.finished = true;
  events.finish.reason = reason;
  events.finish.usage = {prompt_tokens_, sampled_, 0};
  events.finish.error = std::move(error);
  return events;
}

// The end of the text: what detokenizer and stop matcher hold back comes out, unless it completes a stop string.
Finish Sequence::finish(FinishReason reason) {
  Finish result;
  result.reason = reason;
  result.usage = {prompt_tokens_, sampled_, 0};
  const int32_t stop = stop_matcher_.push(detokenizer_.flush(), result.text);
  if (stop >= 0) {
    result.reason = FinishReason::kStop;
    result.stop = stops_[static_cast<size_t>(stop)];
  } else {
    result.text += stop_matcher_.take_held();
  }
  return result;
}

Events Sequence::sample(std::span<const float> logits) {
  CAIRN_DCHECK(computed_ == static_cast<int32_t>(tokens_.size()));
  Sampled sampled = sampler_.sample(logits);
  if (sampled.token == kNoToken) {
    return end(
        FinishReason::kError,
        Error{Code::kInternal,
              fmt::format("the model gave no usable logits (all are NaN or -infinity) after token {}", computed_),
              {}});
  }
  ++sampled_;
  Events events;
  const bool known = index(sampled.token) < tokenizer_.size();  // models may pad their vocabulary
  if (!ignore_eos_ && known && tokenizer_.ends_generation(sampled.token)) {
    events.finished = true;
    events.finish = finish(FinishReason::kStop);
    return events;
  }
  tokens_.push_back(sampled.token);
  TokenEvent& event = events.tokens.emplace_back();
  event.token = sampled.token;
  event.logprob = sampled.logprob;
  event.top = std::move(sampled.top);
  const int32_t stop = stop_matcher_.push(detokenizer_.push(sampled.token), event.text);
  if (stop >= 0) {
    events.finished = true;
    events.finish.reason = FinishReason::kStop;
    events.finish.stop = stops_[static_cast<size_t>(stop)];
    events.finish.usage = {prompt_tokens_, sampled_, 0};
  } else if (static_cast<int32_t>(tokens_.size()) >= tokens_max_) {
    events.finished = true;
    events.finish = finish(FinishReason::kLength);
  }
  return events;
}

}  // namespace cairn
