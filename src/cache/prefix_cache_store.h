/// The pages that nodes of the prefix cache hold, and the choice of those to evict when memory runs out.
///
/// A node is evicted by its GreedyDual value, which is 0 for a leaf at which no sequence can resume. Pages of windows
/// and state slots are evicted without their nodes, least recently used first.
///
/// With a host tier, an evicted node is offloaded if its value is higher than that of a node there. A node whose kFull
/// and kLatent pages are on host only is not "here", nor are its descendants; it lives until its slot is needed. A node
/// that is here may have pages on host too: of windows and states at which a sequence resumed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "cache/disk/disk_tier.h"
#include "cache/eviction_order.h"
#include "cache/host_tier.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "cache/prefix_tree.h"

namespace cairn::cache {

class PrefixCacheStore {
 public:
  PrefixCacheStore(PagePool& pool, PrefixTree& tree, HostTier host);
  /// Bytes of bookkeeping for `nodes_max` nodes, without the host tier.
  static int64_t bytes(const KvLayout& layout, int64_t nodes_max, bool disk);

  PageId page(int32_t node, int32_t group) const { return pages_[int64_t{node} * groups_ + group]; }
  bool has(int32_t node, int32_t group) const { return page(node, group) != kNoPage; }
  bool has_on_host(int32_t node, int32_t group) const { return (on_host_[node].groups >> group & 1) != 0; }
  bool is_here(int32_t node) const { return here_[node]; }

  /// Gives the node a page, with a reference of its own; it replaces what the node has on host.
  void give(int32_t node, int32_t group, PageId page);
  /// Takes a state slot from the node, with a reference for the caller.
  PageId detach_for_reuse(int32_t node, int32_t group);
  /// Marks the page as used: it becomes the last of its group to be evicted.
  void use(int32_t node, int32_t group);

  /// Restores pages of the node from host: all of kFull and kLatent groups, and those of other groups whose bit is set
  /// in `wanted`. False if there is no room, or they were dropped. The node's ancestors are on the device and pinned.
  bool restore(int32_t node, uint32_t wanted);

  /// Registers a new node of the tree, which the cursor's sequence has computed; called before anything else is done
  /// with the node.
  void admit(int32_t node, const PrefixCursor& cursor);
  /// Removes a node without children and pins, and its root if it was the last node of that root.
  void remove(int32_t node);
  /// Pins a node: it and all its ancestors stay. kNoNode is allowed.
  void pin(int32_t node);
  void unpin(int32_t node);
  bool is_pinned(int32_t node) const { return pins_[node] > 0; }
  /// Marks the node as used: its value is counted from the current clock.
  void refresh(int32_t node);

  /// Evicts until `pages` pages of the group are free; false, with nothing evicted, if too few can be.
  bool make_room(int32_t group, int32_t pages);
  /// A free page with one reference, evicting another if need be; kNoPage if there is none.
  PageId allocate(int32_t group);
  /// Evicts until the tree has `nodes` free nodes; false if it cannot.
  bool make_node_room(int32_t nodes);
  /// Evicts everything that no sequence is using.
  void clear();

  // -- The disk tier.
  Result<void> use_disk(disk::DiskTier& tier);
  disk::DiskTier* disk() const { return disk_; }
  /// The node's name on disk; kNoNode: that of the root of `key`.
  disk::PageDigest digest(int32_t node, uint64_t key) const;
  /// The node's pages may be written from now on, for the cursor's owner.
  void keep_on_disk(int32_t node, const PrefixCursor& cursor);
  /// Hands the tier the node's page, or its copy on host, if it may be written and is not there.
  void save(int32_t node, int32_t group);
  /// Hands it everything of all nodes, the last used first, as long as `may_go_on`.
  void save_all(FunctionRef<bool()> may_go_on);

  void set_cost(RebuildCost cost) { cost_ = cost; }
  int64_t evicted() const { return evicted_; }
  int64_t restored() const { return restored_; }
  const HostTier& host() const { return host_; }

 private:
  /// A node's share of the host tier: a slot, if it has a page of any group there.
  struct OnHost {
    int32_t slot = kNoSlot;
    uint32_t groups = 0;  // one bit per group
  };
  /// What the disk tier knows of a node.
  struct OnDisk {
    disk::PageDigest digest;
    uint64_t owner = 0;
    bool may_be_written = false;
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
  void save_evicted(int32_t node);

  PagePool& pool_;
  PrefixTree& tree_;
  HostTier host_;
  int32_t groups_;
  std::vector<PageId> pages_;           // [node][group]
  std::vector<int32_t> pins_;           // [node], as in all members below
  std::vector<double> used_;            // the clock at the last use
  std::vector<bool> here_;              // false if the node is on host only
  std::vector<int32_t> children_here_;  // number of children that are here
  std::vector<OnHost> on_host_;
  std::vector<uint32_t> touched_groups_;  // groups whose page was used, one bit each
  ValueHeap leaves_;                      // nodes here without pins and without children here
  ValueHeap on_host_leaves_;  // nodes that may lose their slot: without pins and, if not here, without children
  // [group]: nodes that have a page of it, for groups whose pages are evicted without their nodes
  std::vector<UseList> lru_by_group_;
  disk::DiskTier* disk_ = nullptr;  // null: none
  std::vector<OnDisk> on_disk_;     // empty without a tier
  RebuildCost cost_;
  double clock_ = 0;
  int64_t evicted_ = 0;
  int64_t restored_ = 0;
};

}  // namespace cairn::cache
