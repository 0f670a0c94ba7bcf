/// Distinct strings, numbered 0, 1, 2, ... in order of insertion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::tokenizer {

class StringPool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  StringPool() : slots_(16) {}

  /// The number of `text`, which is added if it is new. At most 2^31 strings.
  uint32_t intern(std::string_view text);
  /// The number of `text`, or kNone.
  uint32_t find(std::string_view text) const;
  /// Valid until the next intern().
  std::string_view view(uint32_t index) const {
    return std::string_view(bytes_).substr(ends_[index], ends_[index + 1] - ends_[index]);
  }
  uint32_t size() const { return static_cast<uint32_t>(ends_.size() - 1); }

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t index = kNone;
  };
  size_t slot_of(std::string_view text, uint32_t hash) const;
  void grow();

  std::string bytes_;
  std::vector<size_t> ends_ = {0};  // string i is bytes_[ends_[i], ends_[i + 1])
  std::vector<Slot> slots_;         // open addressing; the size is a power of two, at most half full
};

}  // namespace cairn::tokenizer
