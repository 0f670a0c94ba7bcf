#include "sampling/dry_penalty.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace cairn::sampling {
namespace {

// common[i]: how many tokens the end of `tokens` and the end of what is i shorter have in common; [0] is not set. The Z
// function of the reversed tokens.
void common_suffixes(std::span<const TokenId> tokens, std::vector<int32_t>& common) {
  const auto size = static_cast<int32_t>(tokens.size());
  const auto reversed = [&](int32_t i) { return tokens[static_cast<size_t>(size - 1 - i)]; };
  common.assign(tokens.size(), 0);
  int32_t begin = 0;  // of the match that reaches furthest
  int32_t end = 0;
  for (int32_t i = 1; i < size; ++i) {
    int32_t length = i < end ? std::min(end - i, common[static_cast<size_t>(i - begin)]) : 0;
    while (i + length < size && reversed(length) == reversed(i + length)) ++length;
    common[static_cast<size_t>(i)] = length;
    if (i + length <= end) continue;
    begin = i;
    end = i + length;
  }
}

}  // namespace

DryPenalty::DryPenalty(const DryParams& params, int32_t vocabulary, const tokenizer::Tokenizer* tokenizer,
                       std::span<const TokenId> prompt)
    : params_(params),
      tokenizer_(tokenizer),
      window_(static_cast<size_t>(params.last < 0 ? kPenaltyLastMax : params.last)),
      lengths_(static_cast<size_t>(vocabulary), 0) {
  for (const std::string& breaker : params_.breakers) breaker_bytes_ = std::max(breaker_bytes_, breaker.size());
  constexpr size_t kPieceBytes = 1'024;  // longer tokens make the memory grow
  tail_.reserve(breaker_bytes_ + kPieceBytes);
  tokens_.reserve(2 * window_);
  common_.reserve(window_);
  matches_.reserve(std::min(window_, lengths_.size()));
  const std::span<const TokenId> last = prompt.last(std::min(window_, prompt.size()));
  tokens_.assign(last.begin(), last.end());
  find_last_break(last);
}

// Looks at ever more of the prompt's end until something breaks there.
void DryPenalty::find_last_break(std::span<const TokenId> prompt) {
  since_break_ = static_cast<int32_t>(prompt.size());
  if (tokenizer_ == nullptr || breaker_bytes_ == 0) return;
  for (size_t some = 64; !prompt.empty(); some *= 4) {
    tail_.clear();
    bool found = false;
    int32_t since = 0;
    for (const TokenId token : prompt.last(std::min(some, prompt.size()))) {
      ++since;
      if (!breaks(token)) continue;
      found = true;
      since = 0;
    }
    if (found) since_break_ = since;
    if (found || some >= prompt.size()) return;
  }
}

bool DryPenalty::breaks(TokenId token) {
  if (tokenizer_ == nullptr || breaker_bytes_ == 0) return false;
  const size_t before = tail_.size();
  tail_ += tokenizer_->piece(token, true);
  const bool found = std::ranges::any_of(params_.breakers, [&](const std::string& breaker) {
    const size_t within = breaker.size() - 1;  // bytes that may come before the token
    return tail_.find(breaker, before - std::min(before, within)) != std::string::npos;
  });
  const size_t keep = std::min(tail_.size(), breaker_bytes_ - 1);
  tail_.erase(0, tail_.size() - keep);
  return found;
}

bool DryPenalty::holds_breaker(TokenId token) const {
  if (tokenizer_ == nullptr) return false;
  const std::string_view piece = tokenizer_->piece(token, true);
  return std::ranges::any_of(
      params_.breakers, [piece](const std::string& breaker) { return piece.find(breaker) != std::string_view::npos; });
}

void DryPenalty::remember(TokenId token) {
  if (tokens_.size() == 2 * window_) tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<ptrdiff_t>(window_));
  tokens_.push_back(token);
  since_break_ = breaks(token) ? 0 : since_break_ + 1;
}

std::span<const DryPenalty::Match> DryPenalty::matches() {
  for (const Match& match : matches_) lengths_[static_cast<size_t>(index(match.token))] = 0;
  matches_.clear();
  const std::span<const TokenId> last = std::span(tokens_).last(std::min(window_, tokens_.size()));
  if (since_break_ < params_.allowed_length || last.size() <= static_cast<size_t>(params_.allowed_length)) return {};
  common_suffixes(last, common_);
  for (size_t i = 1; i < last.size(); ++i) {
    const int32_t length = std::min(common_[i], since_break_);
    if (length < params_.allowed_length) continue;
    const TokenId next = last[last.size() - i];
    int32_t& longest = lengths_[static_cast<size_t>(index(next))];
    if (longest == 0 && holds_breaker(next)) continue;
    if (longest == 0) matches_.push_back({next, length});
    longest = std::max(longest, length + 1);
  }
  for (Match& match : matches_) match.length = lengths_[static_cast<size_t>(index(match.token))] - 1;
  return matches_;
}

float DryPenalty::penalty(int32_t length) const {
  constexpr double kMost = 1e30;  // a logit stays finite
  const double grown = std::pow(static_cast<double>(params_.base), length - params_.allowed_length);
  return static_cast<float>(std::min(kMost, params_.multiplier * grown));
}

}  // namespace cairn::sampling
