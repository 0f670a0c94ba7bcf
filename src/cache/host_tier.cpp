#include "cache/host_tier.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "base/check.h"

namespace cairn::cache {
namespace {

constexpr std::align_val_t kSlotAlignment{64};

}  // namespace

void HostTier::Free::operator()(std::byte* memory) const { ::operator delete(memory, kSlotAlignment); }

int32_t HostTier::slots_in(const KvLayout& layout, int64_t bytes) {
  int64_t slot_bytes = 0;
  for (const KvGroup& group : layout.groups) slot_bytes += layout.page_bytes(group);
  if (slot_bytes == 0) return 0;
  return static_cast<int32_t>(std::min<int64_t>(bytes / slot_bytes, std::numeric_limits<int32_t>::max() / 4));
}

Result<HostTier> HostTier::create(const PagePool& pool, int64_t bytes) {
  HostTier tier;
  for (const KvGroup& group : pool.layout().groups) {
    tier.offsets_.push_back(tier.slot_bytes_);
    tier.slot_bytes_ += pool.layout().page_bytes(group);
  }
  if (bytes == 0 || tier.slot_bytes_ == 0) return tier;
  if (bytes < tier.slot_bytes_) {
    return fail(Code::kInvalidArgument,
                "host memory for KV pages of {} bytes holds nothing: a page of every group takes {} bytes; raise "
                "--kv-host-bytes, or use 0 for none",
                bytes, tier.slot_bytes_);
  }
  const int64_t slots = slots_in(pool.layout(), bytes);
  // The memory is not touched before use, so that the system commits it only as the tier fills.
  auto* memory = static_cast<std::byte*>(::operator new(slots * tier.slot_bytes_, kSlotAlignment, std::nothrow));
  if (memory == nullptr) {
    return fail(Code::kOutOfMemory,
                "no host memory for {} slots of KV pages of {} bytes ({} bytes); lower "
                "--kv-host-bytes",
                slots, tier.slot_bytes_, slots * tier.slot_bytes_);
  }
  tier.memory_.reset(memory);
  tier.slots_total_ = static_cast<int32_t>(slots);
  tier.free_.resize(slots);
  std::iota(tier.free_.rbegin(), tier.free_.rend(), 0);
  return tier;
}

int32_t HostTier::take() {
  if (free_.empty()) return kNoSlot;
  const int32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void HostTier::give_back(int32_t slot) {
  CAIRN_CHECK(slot >= 0 && slot < slots_total_ && slots_free() < slots_total_);
  free_.push_back(slot);
}

void HostTier::put(int32_t slot, const PagePool& pool, int32_t group, PageId page) {
  pool.read(group, page, place(slot, group));
}

void HostTier::get(int32_t slot, PagePool& pool, int32_t group, PageId page) const {
  pool.write(group, place(slot, group), page);
}

void HostTier::read(int32_t slot, int32_t group, std::span<std::byte> to) const {
  std::memcpy(to.data(), place(slot, group), to.size());
}

}  // namespace cairn::cache
