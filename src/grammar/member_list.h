/// Lists of which each element comes once: the members of objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::grammar {

/// Which elements may come next follows from a state: what has been. Elements are known by number.
class MemberList {
 public:
  struct Element {
    bool required = false;
    bool repeats = false;  ///< it may come more than once, and counts as one towards the least number
  };
  /// The next of the ordered elements, numbers of elements, and a bit for each of the elements that have no order.
  /// Empty: nothing has been.
  using State = std::vector<uint64_t>;

  static constexpr uint32_t kNoMost = 0xFFFF'FFFF;

  MemberList() = default;
  /// The first `ordered` of the elements come in their order, before all others. At least `least` of them come, and at
  /// most `most` with repetitions.
  MemberList(std::vector<Element> elements, uint32_t ordered, uint32_t least, uint32_t most);

  /// Elements that may come next, such that the list can be completed.
  template <class Visit>
  void each_next(const State& state, Visit visit) const {
    const uint64_t begin = state.empty() ? 0 : state[0];
    bool skips_required = false;
    for (auto i = static_cast<uint32_t>(begin); i < ordered_ && !skips_required; ++i) {
      if (fits(state, i)) visit(i);
      skips_required = elements_[i].required;
    }
    if (skips_required) return;
    for (uint32_t i = ordered_; i < elements_.size(); ++i) {
      if ((elements_[i].repeats || !has(state, i)) && fits(state, i)) visit(i);
    }
  }
  State after(const State& state, uint32_t element) const;
  bool complete(const State& state) const;

 private:
  bool has(const State& state, uint32_t element) const {
    const size_t bit = element - ordered_;
    return !state.empty() && (state[kBits + bit / 64] >> (bit % 64) & 1) != 0;
  }
  bool fits(const State& state, uint32_t element) const;
  /// Required elements that have not been.
  uint64_t missing(const State& state) const;

  static constexpr size_t kTaken = 1;     ///< in a state: how many elements with repetitions, where there is a most
  static constexpr size_t kDistinct = 2;  ///< how many without, as far as `least_` matters
  static constexpr size_t kBits = 3;

  std::vector<Element> elements_;
  std::vector<uint32_t> required_from_;  ///< among the ordered ones from this one on
  uint32_t ordered_ = 0;
  uint32_t required_later_ = 0;  ///< among the others
  uint32_t least_ = 0;
  uint32_t most_ = kNoMost;
};

}  // namespace cairn::grammar
