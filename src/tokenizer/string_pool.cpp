#include "tokenizer/string_pool.h"

#include "base/hash.h"

namespace cairn::tokenizer {

size_t StringPool::slot_of(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.index == kNone || (slot.hash == hash && view(slot.index) == text)) return i;
  }
}

uint32_t StringPool::find(std::string_view text) const {
  return slots_[slot_of(text, static_cast<uint32_t>(hash64(text)))].index;
}

uint32_t StringPool::intern(std::string_view text) {
  const auto hash = static_cast<uint32_t>(hash64(text));
  size_t i = slot_of(text, hash);
  if (slots_[i].index != kNone) return slots_[i].index;
  if (2 * ends_.size() >= slots_.size()) {
    grow();
    i = slot_of(text, hash);
  }
  const uint32_t index = size();
  bytes_.append(text);
  ends_.push_back(bytes_.size());
  slots_[i] = {hash, index};
  return index;
}

void StringPool::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.index == kNone) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].index != kNone) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace cairn::tokenizer
