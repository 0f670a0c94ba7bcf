#include "engine/sequence/sequence_memory.h"

#include "base/hash.h"

namespace cairn::engine {

SequenceCaching::SequenceCaching(const GenerateRequest& request)
    : salt_(request.salt),
      tenant_(hash64(request.tenant)),
      may_be_kept_(request.keep_on_disk),
      keep_on_disk_(may_be_kept_),
      slot_(request.slot),
      slot_action_(request.slot_action) {}

void SequenceCaching::set_disk_owner(uint64_t owner, bool is_long_enough) {
  disk_owner_ = owner;
  keep_on_disk_ = may_be_kept_ && (is_long_enough || slot_action_ == SlotAction::kSave);
}

cache::PrefixCursor SequenceCaching::root() const {
  cache::PrefixCursor cursor = cache::PrefixCache::root(salt_);
  cursor.keeps_on_disk = keep_on_disk_;
  cursor.owner = disk_owner_;
  return cursor;
}

}  // namespace cairn::engine
