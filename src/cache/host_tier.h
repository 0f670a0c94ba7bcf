/// A second tier of the KV cache in host memory: pages evicted from the pool may be offloaded here and restored later.
///
/// It consists of slots of one page of each group, from one allocation. prefix_cache_store.h tracks which node has
/// which slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "cache/page_pool.h"

namespace cairn::cache {

inline constexpr int32_t kNoSlot = -1;

/// Thread: the engine's. Nothing allocates after creation.
class HostTier {
 public:
  /// A tier without slots.
  HostTier() = default;
  /// Number of slots that fit into `bytes`.
  static int32_t slots_in(const KvLayout& layout, int64_t bytes);
  /// Bytes of bookkeeping for `slots` slots, besides the pages themselves.
  static int64_t list_bytes(int32_t slots) { return int64_t{slots} * static_cast<int64_t>(sizeof(int32_t)); }
  /// Creates as many slots as fit into `bytes`; 0 bytes: none. Errors: kInvalidArgument (less than one slot, or
  /// negative), kOutOfMemory.
  static Result<HostTier> create(const PagePool& pool, int64_t bytes);

  int32_t slots_total() const { return slots_total_; }
  int32_t slots_free() const { return static_cast<int32_t>(free_.size()); }
  /// Takes a free slot; kNoSlot if there is none.
  int32_t take();
  void give_back(int32_t slot);

  /// put() copies a page of the pool into its place in the slot; get() copies it back.
  void put(int32_t slot, const PagePool& pool, int32_t group, PageId page);
  void get(int32_t slot, PagePool& pool, int32_t group, PageId page) const;
  /// Copies a page of a slot to `to`, which is as long.
  void read(int32_t slot, int32_t group, std::span<std::byte> to) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::byte* place(int32_t slot, int32_t group) const { return memory_.get() + slot_bytes_ * slot + offsets_[group]; }

  std::unique_ptr<std::byte[], Free> memory_;
  int64_t slot_bytes_ = 0;
  std::vector<int64_t> offsets_;  // [group]: offset of its page in a slot, in bytes
  int32_t slots_total_ = 0;
  std::vector<int32_t> free_;
};

}  // namespace cairn::cache
