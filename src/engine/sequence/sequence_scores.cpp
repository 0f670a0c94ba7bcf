#include "engine/sequence/sequence_scores.h"

#include <utility>

namespace cairn::engine {

SequenceScores::SequenceScores(std::optional<int32_t> top, LogitsKept kept, std::span<const TokenId> prompt)
    : asked_(top.has_value()), kept_(kept) {
  if (!asked_ && kept != LogitsKept::kAll) return;
  tokens_ = static_cast<int32_t>(prompt.size());
  top_ = top.value_or(0);
  if (asked_) scores_.reserve(prompt.size());
  add({.token = prompt.front()}, {});
}

void SequenceScores::add(PromptScore&& score, std::span<const float> logits) {
  if (kept_ == LogitsKept::kAll) logits_.insert(logits_.end(), logits.begin(), logits.end());
  if (asked_) scores_.push_back(std::move(score));
  ++scored_;
}

}  // namespace cairn::engine
