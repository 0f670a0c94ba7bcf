/// The pages that nodes of the prefix cache hold, and which of them to give up when memory runs out.
///
/// A node is evicted by its GreedyDual value, which for a leaf that no boundary can be resumed at is nothing. Pages of
/// windows and state slots go without their nodes, oldest use first.
///
/// With a host tier, what a node had goes there if it is worth more than what is there. A node whose kFull and kLatent
/// pages have gone is then not "here", nor are those after it; it lives until its slot is wanted. A node that is here
/// may have pages on host too: of windows and states that a boundary was resumed by.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/eviction_order.h"
#include "cache/host_tier.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "cache/prefix_tree.h"

namespace cairn {

class PrefixCacheStore {
 public:
  PrefixCacheStore(PagePool& pool, PrefixTree& tree, HostTier host);
  /// That it takes, without the host tier.
  static int64_t bytes(const KvLayout& layout, int64_t nodes_max);

  PageId page(int32_t node, int32_t group) const { return pages_[int64_t{node} * groups_ + group]; }
  bool has(int32_t node, int32_t group) const { return page(node, group) != kNoPage; }
  bool has_on_host(int32_t node, int32_t group) const { return (on_host_[node].groups >> group & 1) != 0; }
  bool is_here(int32_t node) const { return here_[node]; }

  /// The node adds its own reference to a page, in place of what it has on host.
  void give(int32_t node, int32_t group, PageId page);
  /// Takes a state slot from the node, with a reference for the caller.
  PageId detach_for_reuse(int32_t node, int32_t group);
  /// The page was of use: the last to go of its group's.
  void use(int32_t node, int32_t group);

  /// Brings pages of the node from host: all of kFull and kLatent groups, and those of other groups that `wanted` has a
  /// bit for. False if there is no room, or they have gone. What is before the node is here, and pinned.
  bool restore(int32_t node, uint32_t wanted);

  /// A new node of the tree, before anything else is done with it.
  void admit(int32_t node);
  /// Removes a node without children and pins, and its root if it was the last one there.
  void remove(int32_t node);
  /// A pinned node stays, and so do all before it. kNoNode is allowed.
  void pin(int32_t node);
  void unpin(int32_t node);
  /// The node was of use: its value is counted from now on.
  void refresh(int32_t node);

  /// Evicts until so many pages of the group are free; false, and nothing evicted, if too few can be.
  bool make_room(int32_t group, int32_t pages);
  /// A free page with one reference, for which another may go; or kNoPage.
  PageId allocate(int32_t group);
  /// Evicts until the tree has so many free nodes; false if it cannot.
  bool make_node_room(int32_t nodes);
  /// Everything that no sequence is using.
  void clear();

  void set_cost(RebuildCost cost) { cost_ = cost; }
  int64_t evicted() const { return evicted_; }
  int64_t restored() const { return restored_; }
  const HostTier& host() const { return host_; }

 private:
  /// What a node has in the host tier: a slot, if it has a page of any group there.
  struct OnHost {
    int32_t slot = kNoSlot;
    uint32_t groups = 0;  // a bit each
  };

  static bool evicts_independently(const KvGroup& group) {
    return group.kind == KvKind::kWindow || group.kind == KvKind::kState;
  }
  bool evicts_independently(int32_t group) const { return evicts_independently(pool_.layout().groups[group]); }
  bool is_dead(int32_t node) const;
  double value(int32_t node) const;
  void update(int32_t node);
  void set_here(int32_t node, bool here);
  void evict_page(int32_t node, int32_t group);
  void remove_with_descendants(int32_t node);
  bool evict_page(int32_t group);
  bool evict_leaf();

  bool offload(int32_t node, int32_t group);
  bool offload_all(int32_t node);
  bool acquire_slot(int32_t node);
  void drop_host_copy(int32_t node, int32_t group);
  void release_slot(int32_t node);

  PagePool& pool_;
  PrefixTree& tree_;
  HostTier host_;
  int32_t groups_;
  std::vector<PageId> pages_;           // [node][group]
  std::vector<int32_t> pins_;           // per node, as all below
  std::vector<double> used_;            // the clock when it was of use
  std::vector<bool> here_;              // not, if it is on host only
  std::vector<int32_t> children_here_;  // of them
  std::vector<OnHost> on_host_;
  std::vector<uint32_t> touched_groups_;  // groups whose page was of use, a bit each
  ValueHeap leaves_;                      // here, without pins and children here
  ValueHeap on_host_leaves_;  // those that may lose their slot: without pins, and, if not here, without children
  std::vector<UseList> lru_by_group_;  // per group: nodes that have a page of it, for groups whose pages go alone
  RebuildCost cost_;
  double clock_ = 0;
  int64_t evicted_ = 0;
  int64_t restored_ = 0;
};

}  // namespace cairn
