/// Many texts as the tree of their beginnings. It is made in time linear in their bytes, once they are sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::grammar {

/// A place in the tree is what may follow after the bytes that led there. Behind the last byte that several texts have
/// in common the rest of a text is kept as it is, and places are those of its bytes. Immutable.
class TextTree {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNowhere = 0xFFFF'FFFF;
  static constexpr uint32_t kEnd = 0xFFFF'FFFE;  ///< a text has ended, and none goes on

  /// At least one text, ascending, none twice and none empty; together they have less than 2^31 bytes.
  explicit TextTree(const std::vector<std::string_view>& texts);

  uint32_t step(uint32_t place, uint8_t byte) const;
  /// Whether a text ends there.
  bool ends(uint32_t place) const { return place < places_.size() && places_[place].ends; }
  /// Bytes of the shortest rest of a text.
  uint32_t shortest(uint32_t place) const;
  template <class Visit>
  void each_byte(uint32_t place, Visit visit) const {
    if (place >= places_.size()) return visit(rests_[place - places_.size()]);
    const Place& at = places_[place];
    for (uint32_t i = 0; i < at.count; ++i) visit(steps_[at.first + i].byte);
  }
  size_t bytes() const {
    return places_.size() * sizeof(Place) + steps_.size() * sizeof(Step) + rests_.size() + rest_ends_.size() * 4;
  }
  /// Equal for equal trees.
  uint64_t hash() const { return hash_; }

 private:
  struct Step {
    uint32_t place = 0;
    uint8_t byte = 0;
  };
  struct Place {
    uint32_t first = 0;  // of its steps
    uint32_t shortest = 0;
    uint16_t count = 0;
    bool ends = false;
  };
  uint32_t add_rest(std::string_view rest);

  std::vector<Place> places_;
  std::vector<Step> steps_;
  std::vector<uint8_t> rests_;       // places from places_.size() on
  std::vector<uint32_t> rest_ends_;  // ascending
  uint64_t hash_ = 0;
};

}  // namespace cairn::grammar
