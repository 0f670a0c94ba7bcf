#include "engine/slots.h"

#include <algorithm>
#include <new>
#include <utility>

#include "cache/prefix_cache.h"

namespace cairn::engine {

Slots::Slots(std::shared_ptr<cache::disk::DiskTier> tier, int32_t count) : tier_(std::move(tier)), count_(count) {}

std::vector<Slots::Slot>::iterator Slots::at(uint64_t tenant, int32_t id) {
  return std::ranges::find_if(slots_, [&](const Slot& slot) { return slot.tenant == tenant && slot.id == id; });
}

// The lowest number that the tenant does not use; -1: it uses all.
int32_t Slots::unused(uint64_t tenant) const {
  std::vector<bool> used(static_cast<size_t>(count_), false);
  for (const Slot& slot : slots_)
    if (slot.tenant == tenant) used[static_cast<size_t>(slot.id)] = true;
  const auto first = std::ranges::find(used, false);
  return first == used.end() ? -1 : static_cast<int32_t>(first - used.begin());
}

// The tenant's slot with the most of these tokens; the end if none has enough of them.
std::vector<Slots::Slot>::iterator Slots::choose(uint64_t tenant, std::span<const TokenId> tokens, uint64_t salt) {
  auto best = slots_.end();
  auto most = static_cast<int64_t>(kSlotSimilarityMin * static_cast<double>(tokens.size()));
  for (auto slot = slots_.begin(); slot != slots_.end(); ++slot) {
    if (slot->tenant != tenant || slot->conversation.salt != salt) continue;
    const auto same = std::ranges::mismatch(slot->conversation.tokens, tokens).in2 - tokens.begin();
    if (same <= most) continue;
    most = same;
    best = slot;
  }
  return best;
}

int32_t Slots::put(uint64_t tenant, int32_t wanted, std::span<const TokenId> tokens, uint64_t salt) noexcept try {
  Conversation conversation{{tokens.begin(), tokens.end()}, salt};
  const std::lock_guard lock(mutex_);
  auto slot = wanted >= 0 ? at(tenant, wanted) : choose(tenant, tokens, salt);
  if (slot == slots_.end()) {
    const int32_t id = wanted >= 0 ? wanted : unused(tenant);
    if (id >= 0 && std::ssize(slots_) < count_) {
      slot = slots_.insert(slots_.end(), {.tenant = tenant, .id = id, .used = 0, .conversation = {}});
    } else {
      // All are in use: the one that was used longest ago, of the tenant itself if it has them all.
      slot = std::ranges::min_element(slots_, {}, &Slot::used);
      if (id >= 0) slot->id = id;
      slot->tenant = tenant;
    }
  }
  slot->used = ++clock_;
  slot->conversation = std::move(conversation);
  return slot->id;
} catch (const std::bad_alloc&) {
  return -1;
}

std::optional<Conversation> Slots::find(uint64_t tenant, int32_t id) const {
  const std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_)
    if (slot.tenant == tenant && slot.id == id) return slot.conversation;
  return std::nullopt;
}

void Slots::clear(uint64_t tenant, int32_t id) {
  const std::lock_guard lock(mutex_);
  if (const auto slot = at(tenant, id); slot != slots_.end()) slots_.erase(slot);
}

std::vector<int32_t> Slots::tokens(uint64_t tenant) const {
  std::vector<int32_t> counts(static_cast<size_t>(count_), 0);
  const std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.tenant == tenant)
      counts[static_cast<size_t>(slot.id)] = static_cast<int32_t>(slot.conversation.tokens.size());
  }
  return counts;
}

OnDisk Slots::on_disk(const Conversation& conversation) const {
  const cache::disk::PageDigest root = tier_->root(cache::PrefixCache::root(conversation.salt).key);
  const auto count = static_cast<int32_t>(conversation.tokens.size());
  const cache::disk::DiskMatch match = tier_->match(root, 0, conversation.tokens, count);
  return {match.tokens, match.bytes};
}

Result<OnDisk> Slots::save(uint64_t tenant, std::string_view name, const Conversation& conversation) {
  CAIRN_TRY_VOID(tier_->keep_tokens(tenant, name, conversation.salt, conversation.tokens));
  return on_disk(conversation);
}

Result<Conversation> Slots::load(uint64_t tenant, std::string_view name) const {
  CAIRN_TRY(auto kept, tier_->kept_tokens(tenant, name));
  return Conversation{std::move(kept.second), kept.first};
}

}  // namespace cairn::engine
