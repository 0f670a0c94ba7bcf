#include "engine/sequence/sequence_sampling.h"

#include <algorithm>
#include <utility>

namespace cairn::engine {
namespace {

Error no_usable_logits(int32_t tokens, std::string_view besides) {
  return {Code::kInternal,
          fmt::format("the model gave no usable logits (all are NaN or -infinity{}) after token {}", besides, tokens),
          {}};
}

}  // namespace

SequenceSampling::SequenceSampling(GenerateRequest& request, std::span<const TokenId> prompt,
                                   const tokenizer::Tokenizer& tokenizer, int32_t vocabulary,
                                   sampling::SamplerScratch& scratch, RuleWorkers& rules)
    : tokenizer_(tokenizer),
      sampler_(request.sampling, vocabulary, prompt, &scratch, &tokenizer),
      constraint_(std::move(request.constraint)),
      rules_(rules),
      min_tokens_(request.min_tokens),
      ignore_eos_(request.ignore_eos),
      stop_tokens_(std::move(request.stop_tokens)),
      request_allowed_(request_mask(request, vocabulary)),
      text_ban_(std::move(request.text_ban)),
      renders_special_(request.render_special) {
  if (constraint_ != nullptr) {
    constraint_->begin(rule_);
    finish_rule();
  }
  if (min_tokens_ == 0 && !ignore_eos_) return;
  for (int32_t token = 0; token < vocabulary; ++token) {
    if (min_tokens_ > 0 && ends_answer(TokenId{token})) ends_.push_back(TokenId{token});
    if (ignore_eos_ && ends_text(TokenId{token})) ignored_.push_back(TokenId{token});
  }
  banned_.reserve(2 * (ends_.size() + ignored_.size()));
}

std::vector<uint64_t> SequenceSampling::request_mask(const GenerateRequest& request, int32_t vocabulary) {
  std::vector<uint64_t> words;
  const auto word = [&](TokenId token) -> uint64_t& { return words[static_cast<size_t>(index(token)) / 64]; };
  const auto bit = [](TokenId token) { return uint64_t{1} << (static_cast<uint32_t>(index(token)) % 64); };
  if (request.allowed_tokens.empty() && request.text_ban == nullptr) return words;
  words.resize((static_cast<size_t>(vocabulary) + 63) / 64, request.allowed_tokens.empty() ? ~uint64_t{0} : 0);
  for (const TokenId token : request.allowed_tokens) word(token) |= bit(token);
  if (request.text_ban == nullptr) return words;
  request.text_ban->each_containing([&](TokenId token) {
    if (index(token) < vocabulary) word(token) &= ~bit(token);
  });
  return words;
}

bool SequenceSampling::is_stop_token(TokenId token) const {
  return std::ranges::find(stop_tokens_, token) != stop_tokens_.end();
}

bool SequenceSampling::ends_answer(TokenId token) const {
  return (!ignore_eos_ && ends_text(token)) || is_stop_token(token);
}

bool SequenceSampling::ends_text(TokenId token) const {
  return index(token) < tokenizer_.size() && tokenizer_.ends_generation(token);  // models may pad their vocabulary
}

std::span<const TokenId> SequenceSampling::banned() {
  // A form's text goes on while it may.
  const bool ignores = ignore_eos_ && !rule_.allowed.empty();
  if (sampled_ >= min_tokens_ && !ignores && text_ban_ == nullptr) return rule_.banned;
  banned_.assign(rule_.banned.begin(), rule_.banned.end());
  if (sampled_ < min_tokens_) banned_.insert(banned_.end(), ends_.begin(), ends_.end());
  if (ignores) banned_.insert(banned_.end(), ignored_.begin(), ignored_.end());
  if (text_ban_ != nullptr) text_ban_->next_completing(tail_, banned_);
  return banned_;
}

std::span<const uint64_t> SequenceSampling::allowed() {
  if (request_allowed_.empty()) return rule_.allowed;
  if (rule_.allowed.empty()) return request_allowed_;
  // What is behind a mask's last word is not allowed.
  allowed_.resize(std::min(rule_.allowed.size(), request_allowed_.size()));
  for (size_t i = 0; i < allowed_.size(); ++i) allowed_[i] = rule_.allowed[i] & request_allowed_[i];
  return allowed_;
}

bool SequenceSampling::leaves_any() {
  const std::span<const uint64_t> mask = allowed();
  std::vector<uint64_t> left(mask.begin(), mask.end());
  for (const TokenId token : banned()) {
    const auto at = static_cast<size_t>(index(token));
    if (at / 64 < left.size()) left[at / 64] &= ~(uint64_t{1} << (at % 64));
  }
  return std::ranges::any_of(left, [](uint64_t word) { return word != 0; });
}

bool SequenceSampling::must_end() {
  if (rule_.error || rule_.allowed.empty() || leaves_any()) return false;
  for (size_t at = 0; at < rule_.allowed.size() * 64; ++at) {
    const TokenId token{static_cast<int32_t>(at)};
    if ((rule_.allowed[at / 64] >> (at % 64) & 1) != 0 && (ends_text(token) || is_stop_token(token))) return true;
  }
  return false;
}

TokenId SequenceSampling::take_forced() {
  const TokenId token = rule_.forced[forced_next_++];
  if (!is_forced()) {
    rule_.forced.clear();
    forced_next_ = 0;
  }
  return token;
}

sampling::Sampled SequenceSampling::choose(std::span<const float> logits) {
  return is_forced() ? sampler_.force(take_forced(), logits)
                     : sampler_.sample(logits, banned(), rule_.greedy, allowed());
}

bool SequenceSampling::add_request(int32_t row, int32_t ahead, SampleBatch& samples) {
  const bool depends = constraint_ != nullptr || text_ban_ != nullptr || sampled_ < min_tokens_;
  if (ahead > 0 && (depends || !sampler_.knows_later_requests())) return false;
  if (is_forced()) {
    const bool told = sampler_.reports() && sampler_.reports_on_device();
    if (told) samples.add(sampler_.request_for_forced(row, rule_.forced[forced_next_], samples.changes()));
    return told;
  }
  const std::span<const TokenId> banned = this->banned();
  const std::span<const uint64_t> allowed = this->allowed();
  const bool masked = !allowed.empty();
  // Log-probabilities are those of the row as it was.
  if ((masked && sampler_.reports()) || !sampler_.can_sample_on_device(banned)) return false;
  if (masked) samples.allow(row, allowed);
  samples.add(sampler_.request_for(row, ahead, banned, rule_.greedy, samples.changes()));
  return true;
}

sampling::Sampled SequenceSampling::take(const kernels::SampleResult& sampled) {
  if (is_forced()) take_forced();
  return sampler_.take(sampled);
}

Result<PromptScore> SequenceSampling::score(TokenId token, int32_t top, std::span<const float> logits, int32_t tokens) {
  sampling::Sampled scored = sampler_.rate(token, top, logits);
  if (scored.token == kNoToken) return std::unexpected(no_usable_logits(tokens, ""));
  const float own = logits[static_cast<size_t>(index(token))];
  const auto more_likely = std::ranges::count_if(logits, [own](float logit) { return logit > own; });
  return PromptScore{token, scored.logprob, static_cast<int32_t>(1 + more_likely), std::move(scored.top)};
}

bool SequenceSampling::count(TokenId token) {
  ++sampled_;
  return ends_answer(token);
}

SequenceSampling::~SequenceSampling() {
  if (work_ != nullptr) work_->dropped = true;
  work_.reset();
  if (constraint_ != nullptr) rules_.release(std::move(constraint_));
}

void SequenceSampling::finish_rule() {
  if (!rule_.unfinished) return;
  work_ = std::make_shared<RuleWork>();
  work_->constraint = constraint_;
  work_->rule = std::exchange(rule_, {});
  work_->was_slow = was_slow_;
  rules_.submit(work_);
  was_slow_ = !take_rule() || was_slow_;
}

bool SequenceSampling::take_rule() {
  if (work_ == nullptr) return true;
  if (!work_->done) return false;
  rule_ = std::move(work_->rule);
  work_.reset();
  return true;
}

void SequenceSampling::proceed(TokenId token, std::string_view text) {
  if (text_ban_ != nullptr && index(token) < tokenizer_.size()) {
    tail_ += tokenizer_.piece(token, renders_special_);
    tail_.erase(0, tail_.size() - std::min(tail_.size(), text_ban_->tail_bytes()));
  }
  if (constraint_ == nullptr) return;
  constraint_->token(token, text, rule_);
  finish_rule();
}

Error SequenceSampling::failure(int32_t tokens) {
  if (rule_.error) return *rule_.error;
  if (!allowed().empty() && !leaves_any()) {
    std::string_view why = "all that the answer's form leaves is banned; allow some of it, or ask for another form";
    if (!request_allowed_.empty())
      why = rule_.allowed.empty()
                ? "allowed_token_ids, bad_words and min_tokens leave nothing; allow more"
                : "the answer's form leaves nothing that allowed_token_ids and bad_words allow; allow "
                  "more, or ask for another form";
    return {Code::kInvalidArgument, fmt::format("nothing may come behind token {}: {}", tokens, why), {}};
  }
  return no_usable_logits(tokens, allowed().empty() ? "" : ", or of tokens that may not come next");
}

}  // namespace cairn::engine
