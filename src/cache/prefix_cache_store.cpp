#include "cache/prefix_cache_store.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace cairn::cache {

PrefixCacheStore::PrefixCacheStore(PagePool& pool, PrefixTree& tree, HostTier host)
    : pool_(pool),
      tree_(tree),
      host_(std::move(host)),
      groups_(pool.groups()),
      pages_(size_t{1} * tree.nodes_max() * pool.groups(), kNoPage),
      pins_(tree.nodes_max(), 0),
      used_(tree.nodes_max(), 0),
      here_(tree.nodes_max(), false),
      children_here_(tree.nodes_max(), 0),
      on_host_(tree.nodes_max()),
      touched_groups_(tree.nodes_max(), 0),
      leaves_(tree.nodes_max()),
      on_host_leaves_(tree.nodes_max()) {
  CAIRN_CHECK(groups_ <= kKvGroupsMax);
  for (int32_t g = 0; g < groups_; ++g) lru_by_group_.emplace_back(evicts_independently(g) ? tree.nodes_max() : 0);
}

int64_t PrefixCacheStore::bytes(const KvLayout& layout, int64_t nodes_max, bool disk) {
  const auto groups = layout.groups.size();
  const size_t of_node =
      groups * sizeof(PageId) + 2 * sizeof(int32_t) + sizeof(double) + sizeof(OnHost) + sizeof(uint32_t);
  int64_t bytes = nodes_max * static_cast<int64_t>(of_node) + nodes_max / 8 + 2 * ValueHeap::bytes(nodes_max);
  if (disk) bytes += nodes_max * static_cast<int64_t>(sizeof(OnDisk));
  for (const KvGroup& group : layout.groups) bytes += UseList::bytes(evicts_independently(group) ? nodes_max : 0);
  return bytes;
}

void PrefixCacheStore::give(int32_t node, int32_t group, PageId page) {
  CAIRN_CHECK(!has(node, group));
  pool_.cache_retain(group, page);
  pages_[int64_t{node} * groups_ + group] = page;
  if (evicts_independently(group)) {
    lru_by_group_[group].push_back(node);
  } else {
    set_here(node, true);
  }
  drop_host_copy(node, group);
  update(node);
}

PageId PrefixCacheStore::detach_for_reuse(int32_t node, int32_t group) {
  const PageId page = this->page(node, group);
  pool_.retain(group, page);
  evict_page(node, group);
  return page;
}

void PrefixCacheStore::use(int32_t node, int32_t group) {
  if (!evicts_independently(group) || !has(node, group)) return;
  lru_by_group_[group].to_back(node);
  touched_groups_[node] |= 1u << group;
}

bool PrefixCacheStore::restore(int32_t node, uint32_t wanted) {
  pin(node);
  bool done = true;
  const auto is_wanted = [&](int32_t g) {
    return !has(node, g) && (!evicts_independently(g) || (wanted >> g & 1) != 0);
  };
  // Makes room for all pages before any is taken: of its kFull and kLatent groups, a node has all pages on the device
  // or none.
  for (int32_t g = 0; g < groups_; ++g) done = done && (!is_wanted(g) || make_room(g, 1));
  for (int32_t g = 0; g < groups_; ++g) done = done && (!is_wanted(g) || has_on_host(node, g));
  for (int32_t g = 0; g < groups_ && done; ++g) {
    if (!is_wanted(g)) continue;
    const PageId page = pool_.allocate(g);
    host_.get(on_host_[node].slot, pool_, g, page);
    give(node, g, page);
    pool_.release(g, page);
    ++restored_;
  }
  unpin(node);
  return done;
}

void PrefixCacheStore::admit(int32_t node, const PrefixCursor& cursor) {
  pins_[node] = 0;
  touched_groups_[node] = 0;
  if (disk_ != nullptr) {
    const int32_t parent = tree_.parent(node);
    const disk::PageDigest before = digest(tree_.is_root(parent) ? kNoNode : parent, tree_.key(parent));
    on_disk_[node] = {disk::DiskTier::next(before, tree_.tokens(node)), cursor.owner, cursor.keeps_on_disk};
  }
  set_here(node, true);
  refresh(node);
}

void PrefixCacheStore::remove(int32_t node) {
  CAIRN_CHECK(pins_[node] == 0);
  for (int32_t g = 0; g < groups_; ++g) {
    if (has(node, g)) evict_page(node, g);
  }
  if (on_host_[node].slot != kNoSlot) host_.give_back(on_host_[node].slot);
  on_host_[node] = {};
  set_here(node, false);
  leaves_.remove(node);
  on_host_leaves_.remove(node);
  const int32_t parent = tree_.parent(node);
  tree_.remove(node);
  if (!tree_.is_root(parent)) {
    update(parent);
  } else if (tree_.first_child(parent) == kNoNode) {
    tree_.remove(parent);
  }
}

void PrefixCacheStore::remove_with_descendants(int32_t node) {
  for (int32_t at = node;;) {
    while (tree_.first_child(at) != kNoNode) at = tree_.first_child(at);
    const int32_t parent = tree_.parent(at);
    remove(at);
    if (at == node) return;
    at = parent;
  }
}

void PrefixCacheStore::pin(int32_t node) {
  if (node == kNoNode) return;
  ++pins_[node];
  update(node);
}

void PrefixCacheStore::unpin(int32_t node) {
  if (node == kNoNode) return;
  CAIRN_CHECK(pins_[node] > 0);
  --pins_[node];
  update(node);
}

void PrefixCacheStore::refresh(int32_t node) {
  used_[node] = clock_;
  update(node);
}

bool PrefixCacheStore::make_room(int32_t group, int32_t pages) {
  if (pool_.pages_free(group) + pool_.pages_idle(group) < pages) return false;
  while (pool_.pages_free(group) < pages) {
    if (!(evicts_independently(group) ? evict_page(group) : evict_leaf())) return false;
  }
  return true;
}

PageId PrefixCacheStore::allocate(int32_t group) { return make_room(group, 1) ? pool_.allocate(group) : kNoPage; }

bool PrefixCacheStore::make_node_room(int32_t nodes) {
  while (tree_.nodes_free() < nodes) {
    if (!on_host_leaves_.empty()) {
      release_slot(on_host_leaves_.first());
    } else if (!leaves_.empty()) {
      remove_with_descendants(leaves_.first());
      ++evicted_;
    } else {
      return false;
    }
  }
  return true;
}

void PrefixCacheStore::clear() {
  while (!on_host_leaves_.empty()) release_slot(on_host_leaves_.first());
  while (!leaves_.empty()) remove_with_descendants(leaves_.first());
  touched_groups_.assign(touched_groups_.size(), 0);  // so that nothing is offloaded while everything is dropped
  for (int32_t g = 0; g < groups_; ++g) {
    while (evicts_independently(g) && pool_.pages_idle(g) > 0 && evict_page(g)) continue;
  }
}

/// Whether no sequence can resume at the node's end or in its middle. The converse does not hold: windows may lack
/// pages before the node.
bool PrefixCacheStore::is_dead(int32_t node) const {
  for (int32_t g = 0; g < groups_; ++g) {
    const KvGroup& group = pool_.layout().groups[g];
    const bool needed = group.kind != KvKind::kWindow || (group.window > 1 && !group.optional);
    if (needed && !has(node, g) && !has_on_host(node, g)) return true;
  }
  return false;
}

double PrefixCacheStore::value(int32_t node) const {
  if (is_dead(node)) return 0;
  const double count = tree_.end(node) - tree_.begin(node);
  const double positions = count * tree_.begin(node) + count * (count - 1) / 2;
  return used_[node] + count * cost_.token_ns + positions * cost_.position_ns;
}

/// Updates whether the node may be evicted and its value, after either has changed.
void PrefixCacheStore::update(int32_t node) {
  if (here_[node] && pins_[node] == 0 && children_here_[node] == 0) {
    leaves_.put(node, value(node));
  } else {
    leaves_.remove(node);
  }
  const bool leaf = here_[node] || tree_.first_child(node) == kNoNode;
  if (on_host_[node].slot != kNoSlot && pins_[node] == 0 && leaf) {
    on_host_leaves_.put(node, value(node));
  } else {
    on_host_leaves_.remove(node);
  }
}

void PrefixCacheStore::set_here(int32_t node, bool here) {
  if (here_[node] == here) return;
  here_[node] = here;
  const int32_t parent = tree_.parent(node);
  children_here_[parent] += here ? 1 : -1;
  if (!tree_.is_root(parent)) update(parent);
}

void PrefixCacheStore::evict_page(int32_t node, int32_t group) {
  PageId& page = pages_[int64_t{node} * groups_ + group];
  pool_.cache_release(group, page);
  page = kNoPage;
  touched_groups_[node] &= ~(1u << group);
  if (evicts_independently(group)) lru_by_group_[group].remove(node);
  update(node);
}

bool PrefixCacheStore::evict_page(int32_t group) {
  UseList& list = lru_by_group_[group];
  for (int32_t tries = list.size(); tries > 0; --tries) {
    const int32_t node = list.first();
    if (pool_.references(group, page(node, group)) == 1) {
      // A page that only a window left behind, or that was only kept on the way, is not worth a slot on the host.
      if ((touched_groups_[node] >> group & 1) != 0) {
        save(node, group);
        offload(node, group);
      }
      evict_page(node, group);
      return true;
    }
    list.to_back(node);  // a sequence refers to it, which counts as use
  }
  return false;
}

bool PrefixCacheStore::evict_leaf() {
  if (leaves_.empty()) return false;
  clock_ = std::max(clock_, leaves_.first_value());
  const int32_t node = leaves_.first();
  save_evicted(node);
  if (!offload_all(node)) remove_with_descendants(node);
  ++evicted_;
  return true;
}

/// Copies a page to the node's slot on the host, where it stays when the page here is evicted; false if no slot is to
/// be had.
bool PrefixCacheStore::offload(int32_t node, int32_t group) {
  if (!acquire_slot(node)) return false;
  host_.put(on_host_[node].slot, pool_, group, page(node, group));
  on_host_[node].groups |= 1u << group;
  update(node);
  return true;
}

/// Moves a node without children on the device to the host; false, with nothing changed, if it is not worth a slot.
bool PrefixCacheStore::offload_all(int32_t node) {
  const bool nothing = value(node) == 0 && tree_.first_child(node) == kNoNode;
  bool has_whole = false;
  for (int32_t g = 0; g < groups_; ++g) has_whole = has_whole || (!evicts_independently(g) && has(node, g));
  if (nothing || !has_whole || !acquire_slot(node)) return false;
  for (int32_t g = 0; g < groups_; ++g) {
    if (!has(node, g)) continue;
    offload(node, g);
    evict_page(node, g);
  }
  set_here(node, false);
  update(node);
  return true;
}

/// Gets a slot for the node if it has none: a free one, or that of a node of less value.
bool PrefixCacheStore::acquire_slot(int32_t node) {
  if (on_host_[node].slot != kNoSlot) return true;
  if (host_.slots_free() == 0) {
    if (on_host_leaves_.empty()) return false;
    // Descendants on host would be lost with it, so the least valuable one gives up its slot, whatever the values.
    const bool has_descendants = tree_.first_child(node) != kNoNode && children_here_[node] == 0;
    if (!has_descendants && on_host_leaves_.first_value() > value(node)) return false;
    release_slot(on_host_leaves_.first());
  }
  on_host_[node] = {host_.take(), 0};
  return true;
}

void PrefixCacheStore::drop_host_copy(int32_t node, int32_t group) {
  on_host_[node].groups &= ~(1u << group);
  if (on_host_[node].groups == 0) release_slot(node);
}

/// Drops what the node has on host. A node that is on host only, which has no children then, is removed.
void PrefixCacheStore::release_slot(int32_t node) {
  if (!is_here(node)) return remove(node);
  if (on_host_[node].slot == kNoSlot) return;
  host_.give_back(on_host_[node].slot);
  on_host_[node] = {};
  update(node);
}

// -- The disk tier.
Result<void> PrefixCacheStore::use_disk(disk::DiskTier& tier) try {
  on_disk_.resize(static_cast<size_t>(tree_.nodes_max()));
  disk_ = &tier;
  return {};
} catch (const std::bad_alloc&) {
  return fail(Code::kOutOfMemory, "no memory for the names of {} pages on disk", tree_.nodes_max());
}

disk::PageDigest PrefixCacheStore::digest(int32_t node, uint64_t key) const {
  return node == kNoNode ? disk_->root(key) : on_disk_[node].digest;
}

void PrefixCacheStore::keep_on_disk(int32_t node, const PrefixCursor& cursor) {
  if (disk_ == nullptr || !cursor.keeps_on_disk || on_disk_[node].may_be_written) return;
  on_disk_[node].may_be_written = true;
  on_disk_[node].owner = cursor.owner;
}

void PrefixCacheStore::save(int32_t node, int32_t group) try {
  if (disk_ == nullptr || !on_disk_[node].may_be_written) return;
  const bool here = has(node, group);
  if (!here && !has_on_host(node, group)) return;
  const disk::PageAddress page{on_disk_[node].digest, group};
  if (!disk_->wants(page)) return;
  std::vector<std::byte> bytes(static_cast<size_t>(disk_->bytes_of(group)));
  if (here) {
    pool_.read(group, this->page(node, group), bytes.data());
  } else {
    host_.read(on_host_[node].slot, group, bytes);
  }
  const int32_t parent = tree_.parent(node);
  disk_->put(page,
             {.parent = digest(tree_.is_root(parent) ? kNoNode : parent, tree_.key(parent)),
              .owner = on_disk_[node].owner,
              .begin = tree_.begin(node),
              .count = tree_.end(node) - tree_.begin(node)},
             std::move(bytes));
} catch (const std::bad_alloc&) {
  log_debug("no memory for a page on its way to the disk");
}

/// Saves a node that leaves the device: its pages of windows and its states only if a sequence may resume at them.
void PrefixCacheStore::save_evicted(int32_t node) {
  if (disk_ == nullptr || (!tree_.is_whole(node) && is_dead(node))) return;
  for (int32_t g = 0; g < groups_; ++g) {
    if (!evicts_independently(g) || (touched_groups_[node] >> g & 1) != 0 || has_on_host(node, g)) save(node, g);
  }
}

void PrefixCacheStore::save_all(FunctionRef<bool()> may_go_on) {
  if (disk_ == nullptr) return;
  std::vector<int32_t> nodes;
  for (int32_t node = 0; node < tree_.nodes_max(); ++node) {
    if (here_[node] || on_host_[node].slot != kNoSlot) nodes.push_back(node);
  }
  std::ranges::sort(nodes, [this](int32_t a, int32_t b) {
    return std::tuple(-used_[a], tree_.begin(a), a) < std::tuple(-used_[b], tree_.begin(b), b);
  });
  for (const int32_t node : nodes) {
    if (!may_go_on()) return;
    save_evicted(node);
  }
}

}  // namespace cairn::cache
