#include "engine/sequence/sequence_scores.h"

#include <utility>

namespace cairn::engine {

SequenceScores::SequenceScores(std::optional<int32_t> top, std::span<const TokenId> prompt) {
  if (!top) return;
  tokens_ = static_cast<int32_t>(prompt.size());
  top_ = *top;
  scores_.reserve(prompt.size());
  add({.token = prompt.front()});
}

void SequenceScores::add(PromptScore&& score) {
  scores_.push_back(std::move(score));
  ++scored_;
}

}  // namespace cairn::engine
