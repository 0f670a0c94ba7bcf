#include "cache/node_pages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cairn {

NodePages::NodePages(PagePool& pool, PrefixTree& tree, HostTier host)
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
      of_use_(tree.nodes_max(), 0),
      leaves_(tree.nodes_max()),
      on_host_leaves_(tree.nodes_max()) {
  CAIRN_CHECK(groups_ <= kKvGroupsMax);
  for (int32_t g = 0; g < groups_; ++g) in_use_.emplace_back(goes_alone(g) ? tree.nodes_max() : 0);
}

int64_t NodePages::bytes(const KvLayout& layout, int64_t nodes_max) {
  const auto groups = layout.groups.size();
  const size_t of_node =
      groups * sizeof(PageId) + 2 * sizeof(int32_t) + sizeof(double) + sizeof(OnHost) + sizeof(uint32_t);
  int64_t bytes = nodes_max * static_cast<int64_t>(of_node) + nodes_max / 8 + 2 * ValueHeap::bytes(nodes_max);
  for (const KvGroup& group : layout.groups) bytes += UseList::bytes(goes_alone(group) ? nodes_max : 0);
  return bytes;
}

void NodePages::give(int32_t node, int32_t group, PageId page) {
  CAIRN_CHECK(!has(node, group));
  pool_.keep(group, page);
  pages_[int64_t{node} * groups_ + group] = page;
  if (goes_alone(group)) {
    in_use_[group].push_back(node);
  } else {
    set_here(node, true);
  }
  forget_on_host(node, group);
  update(node);
}

PageId NodePages::steal(int32_t node, int32_t group) {
  const PageId page = this->page(node, group);
  pool_.share(group, page);
  strip(node, group);
  return page;
}

void NodePages::use(int32_t node, int32_t group) {
  if (!goes_alone(group) || !has(node, group)) return;
  in_use_[group].to_back(node);
  of_use_[node] |= 1u << group;
}

bool NodePages::restore(int32_t node, uint32_t wanted) {
  pin(node);
  bool done = true;
  const auto is_wanted = [&](int32_t g) { return !has(node, g) && (!goes_alone(g) || (wanted >> g & 1) != 0); };
  // Room for all before any is taken: a node has pages of all kFull and kLatent groups here, or of none.
  for (int32_t g = 0; g < groups_; ++g) done = done && (!is_wanted(g) || make_room(g, 1));
  for (int32_t g = 0; g < groups_; ++g) done = done && (!is_wanted(g) || has_on_host(node, g));
  for (int32_t g = 0; g < groups_ && done; ++g) {
    if (!is_wanted(g)) continue;
    const PageId page = pool_.take(g);
    host_.get(on_host_[node].slot, pool_, g, page);
    give(node, g, page);
    pool_.drop(g, page);
    ++restored_;
  }
  unpin(node);
  return done;
}

void NodePages::admit(int32_t node) {
  pins_[node] = 0;
  of_use_[node] = 0;
  set_here(node, true);
  refresh(node);
}

void NodePages::remove(int32_t node) {
  CAIRN_CHECK(pins_[node] == 0);
  for (int32_t g = 0; g < groups_; ++g) {
    if (has(node, g)) strip(node, g);
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

void NodePages::remove_with_descendants(int32_t node) {
  for (int32_t at = node;;) {
    while (tree_.first_child(at) != kNoNode) at = tree_.first_child(at);
    const int32_t parent = tree_.parent(at);
    remove(at);
    if (at == node) return;
    at = parent;
  }
}

void NodePages::pin(int32_t node) {
  if (node == kNoNode) return;
  ++pins_[node];
  update(node);
}

void NodePages::unpin(int32_t node) {
  if (node == kNoNode) return;
  CAIRN_CHECK(pins_[node] > 0);
  --pins_[node];
  update(node);
}

void NodePages::refresh(int32_t node) {
  used_[node] = clock_;
  update(node);
}

bool NodePages::make_room(int32_t group, int32_t pages) {
  if (pool_.pages_free(group) + pool_.pages_idle(group) < pages) return false;
  while (pool_.pages_free(group) < pages) {
    if (!(goes_alone(group) ? evict_page(group) : evict_leaf())) return false;
  }
  return true;
}

PageId NodePages::take(int32_t group) { return make_room(group, 1) ? pool_.take(group) : kNoPage; }

bool NodePages::make_node_room(int32_t nodes) {
  while (tree_.nodes_free() < nodes) {
    if (!on_host_leaves_.empty()) {
      give_up_slot(on_host_leaves_.first());
    } else if (!leaves_.empty()) {
      remove_with_descendants(leaves_.first());
      ++evicted_;
    } else {
      return false;
    }
  }
  return true;
}

void NodePages::clear() {
  while (!on_host_leaves_.empty()) give_up_slot(on_host_leaves_.first());
  while (!leaves_.empty()) remove_with_descendants(leaves_.first());
  of_use_.assign(of_use_.size(), 0);  // what goes now does not go to the host
  for (int32_t g = 0; g < groups_; ++g) {
    while (goes_alone(g) && pool_.pages_idle(g) > 0 && evict_page(g)) continue;
  }
}

/// No boundary at its end or in its middle can be resumed. Not the other way round: windows may lack what is before.
bool NodePages::is_dead(int32_t node) const {
  for (int32_t g = 0; g < groups_; ++g) {
    const KvGroup& group = pool_.layout().groups[g];
    const bool needed = group.kind == KvKind::kState || group.kind != KvKind::kWindow || group.window > 1;
    if (needed && !has(node, g) && !has_on_host(node, g)) return true;
  }
  return false;
}

double NodePages::value(int32_t node) const {
  if (is_dead(node)) return 0;
  const double count = tree_.end(node) - tree_.begin(node);
  const double positions = count * tree_.begin(node) + count * (count - 1) / 2;
  return used_[node] + count * cost_.token_ns + positions * cost_.position_ns;
}

/// Whether the node may go, and for how much, after either has changed.
void NodePages::update(int32_t node) {
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

void NodePages::set_here(int32_t node, bool here) {
  if (here_[node] == here) return;
  here_[node] = here;
  const int32_t parent = tree_.parent(node);
  children_here_[parent] += here ? 1 : -1;
  if (!tree_.is_root(parent)) update(parent);
}

void NodePages::strip(int32_t node, int32_t group) {
  PageId& page = pages_[int64_t{node} * groups_ + group];
  pool_.forget(group, page);
  page = kNoPage;
  of_use_[node] &= ~(1u << group);
  if (goes_alone(group)) in_use_[group].remove(node);
  update(node);
}

bool NodePages::evict_page(int32_t group) {
  UseList& list = in_use_[group];
  for (int32_t tries = list.size(); tries > 0; --tries) {
    const int32_t node = list.first();
    if (pool_.references(group, page(node, group)) == 1) {
      // What was only left behind by a window, or kept on the way, is not worth a place on the host.
      if ((of_use_[node] >> group & 1) != 0) stash(node, group);
      strip(node, group);
      return true;
    }
    list.to_back(node);  // a sequence has it, which is use
  }
  return false;
}

bool NodePages::evict_leaf() {
  if (leaves_.empty()) return false;
  clock_ = std::max(clock_, leaves_.first_value());
  const int32_t node = leaves_.first();
  if (!stash_all(node)) remove_with_descendants(node);
  ++evicted_;
  return true;
}

/// Copies a page to the host, where the node keeps it when it is stripped of it here; false if it has no place there.
bool NodePages::stash(int32_t node, int32_t group) {
  if (!take_slot(node)) return false;
  host_.put(on_host_[node].slot, pool_, group, page(node, group));
  on_host_[node].groups |= 1u << group;
  update(node);
  return true;
}

/// Moves a node that is a leaf here to the host; false, and nothing changed, if it is not worth it.
bool NodePages::stash_all(int32_t node) {
  const bool nothing = value(node) == 0 && tree_.first_child(node) == kNoNode;
  bool has_whole = false;
  for (int32_t g = 0; g < groups_; ++g) has_whole = has_whole || (!goes_alone(g) && has(node, g));
  if (nothing || !has_whole || !take_slot(node)) return false;
  for (int32_t g = 0; g < groups_; ++g) {
    if (!has(node, g)) continue;
    stash(node, g);
    strip(node, g);
  }
  set_here(node, false);
  update(node);
  return true;
}

/// A slot for the node, if it has none: a free one, or that of a node of less value.
bool NodePages::take_slot(int32_t node) {
  if (on_host_[node].slot != kNoSlot) return true;
  if (host_.slots_free() == 0) {
    if (on_host_leaves_.empty()) return false;
    // Descendants that are on host live as long as it does, so one of them goes rather than it.
    const bool has_descendants = tree_.first_child(node) != kNoNode && children_here_[node] == 0;
    if (!has_descendants && on_host_leaves_.first_value() > value(node)) return false;
    give_up_slot(on_host_leaves_.first());
  }
  on_host_[node] = {host_.take(), 0};
  return true;
}

void NodePages::forget_on_host(int32_t node, int32_t group) {
  on_host_[node].groups &= ~(1u << group);
  if (on_host_[node].groups == 0) give_up_slot(node);
}

/// Drops what the node has on host; a node that is not here, which then has no children, with it.
void NodePages::give_up_slot(int32_t node) {
  if (!is_here(node)) return remove(node);
  if (on_host_[node].slot == kNoSlot) return;
  host_.give_back(on_host_[node].slot);
  on_host_[node] = {};
  update(node);
}

}  // namespace cairn
