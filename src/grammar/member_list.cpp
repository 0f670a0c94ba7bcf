#include "grammar/member_list.h"

#include <algorithm>
#include <utility>

namespace cairn::grammar {

MemberList::MemberList(std::vector<Element> elements, uint32_t ordered, uint32_t least, uint32_t most)
    : elements_(std::move(elements)), ordered_(ordered), least_(least), most_(most) {
  required_from_.assign(ordered_ + 1, 0);
  for (uint32_t i = ordered_; i-- > 0;) required_from_[i] = required_from_[i + 1] + elements_[i].required;
  for (size_t i = ordered_; i < elements_.size(); ++i) required_later_ += elements_[i].required;
}

uint64_t MemberList::missing(const State& state) const {
  if (state.empty()) return required_from_[0] + required_later_;
  uint64_t result = required_from_[state[0]] + required_later_;
  if (required_later_ == 0) return result;
  for (uint32_t i = ordered_; i < elements_.size(); ++i) result -= elements_[i].required && has(state, i);
  return result;
}

// Whether there is room for the element and then for all that must come, and enough is left that may.
bool MemberList::fits(const State& state, uint32_t element) const {
  if (most_ == kNoMost && least_ == 0) return true;
  const bool fresh = element < ordered_ || !has(state, element);
  const uint64_t distinct = (state.empty() ? 0 : state[kDistinct]) + fresh;
  const uint64_t wanted = distinct < least_ ? least_ - distinct : 0;
  if (most_ != kNoMost) {
    const uint64_t taken = state.empty() ? 0 : state[kTaken];
    const uint64_t required = missing(state) - (fresh && elements_[element].required);
    if (taken + 1 + std::max(required, wanted) > most_) return false;
  }
  if (wanted == 0) return true;
  uint64_t left = element < ordered_ ? ordered_ - element - 1 : 0;
  for (uint32_t i = ordered_; i < elements_.size(); ++i) left += i != element && !has(state, i);
  return wanted <= left;
}

MemberList::State MemberList::after(const State& state, uint32_t element) const {
  State result = state;
  if (result.empty()) result.assign(kBits + (elements_.size() - ordered_ + 63) / 64, 0);
  const bool seen = element >= ordered_ && has(result, element);
  result[0] = element < ordered_ ? element + 1 : ordered_;
  if (most_ != kNoMost) ++result[kTaken];
  if (!seen) result[kDistinct] = std::min<uint64_t>(result[kDistinct] + 1, least_);
  if (element < ordered_) return result;
  // Where nothing asks whether it has been, all repetitions are alike.
  const size_t bit = element - ordered_;
  if (!elements_[element].repeats || elements_[element].required || least_ > 0) {
    result[kBits + bit / 64] |= uint64_t{1} << (bit % 64);
  }
  return result;
}

bool MemberList::complete(const State& state) const {
  return missing(state) == 0 && (state.empty() ? 0 : state[kDistinct]) >= least_;
}

}  // namespace cairn::grammar
