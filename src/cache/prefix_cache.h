/// The prefix cache: finds KV pages that hold the beginning of a prompt, keeps them after their sequence has ended, and
/// decides which to evict when memory runs out.
///
/// A tree of pages: a node stands for the tokens of one page after those of its parent's, and refers to the pages that
/// hold them, one of each group. Nodes are found by the chained hash of all tokens before and in them (salted, so that
/// tenants share nothing), and verified against their tokens. A node of less than a whole page is a leaf: the end of a
/// conversation.
///
/// A sequence can resume at a boundary where every group can: kFull and kLatent groups need the pages of all nodes up
/// to it, kWindow groups those that the window reaches back to (unless they are optional), kState groups a slot copied
/// at this very boundary.
///
/// Eviction: a node without children whose page no sequence uses is evicted by its GreedyDual value (Young 1994: value
/// = clock + cost to compute its tokens again; the smallest is evicted and becomes the clock), so that expensive and
/// recently used nodes stay. Pages of windows and state slots are evicted without their nodes, least recently used
/// first.
///
/// Thread: the engine's. Nothing allocates after creation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/ids.h"
#include "cache/disk/disk_tier.h"
#include "cache/page_pool.h"

namespace cairn::cache {

/// A sequence's position in the tree: the node of its last whole page. It pins this node, and so all its ancestors.
struct PrefixCursor {
  int32_t node = -1;           ///< -1: at the root
  uint64_t key = 0;            ///< chained hash of all tokens so far; the salt's at the root
  int32_t tokens = 0;          ///< positions so far, a multiple of kPageTokens
  bool keeps_on_disk = false;  ///< whether the pages of its sequence may be written to the disk tier
  uint64_t owner = 0;          ///< whose they are there (disk::DiskTier::owner)
};

/// The result of a lookup.
struct PrefixHit {
  int32_t tokens = 0;  ///< positions that need not be computed
  /// Position of the first token that differs from what is cached beside the match; -1 if nothing is cached there.
  int32_t mismatch_position = -1;
  TokenId mismatch_token = kNoToken;  ///< the cached token at that position
};

/// Time to compute a token again: token_ns + position * position_ns nanoseconds.
struct RebuildCost {
  double token_ns = 1;
  double position_ns = 0;
};

class PrefixCache {
 public:
  /// `pool` outlives the cache.
  explicit PrefixCache(PagePool& pool);
  /// Creates a cache with a second tier of `host_bytes` of host memory: evicted pages are offloaded there, and restored
  /// when they are found again. 0: none. Errors: kInvalidArgument (less than a page of every group), kOutOfMemory.
  static Result<PrefixCache> create(PagePool& pool, int64_t host_bytes);
  /// Bytes of bookkeeping of the cache for such a pool, a second tier of `host_bytes`, without those `host_bytes`, and
  /// maybe a disk tier.
  static int64_t bytes(const KvLayout& layout, std::span<const int32_t> pages, int64_t host_bytes, bool disk = false);
  PrefixCache(PrefixCache&& other) noexcept;
  PrefixCache& operator=(PrefixCache&& other) noexcept;
  ~PrefixCache();

  static PrefixCursor root(uint64_t salt);

  // -- The disk tier.
  /// Pages are written to `tier`, which outlives the cache, when they are evicted, and as save() says. Call before the
  /// first sequence. Error: kOutOfMemory.
  Result<void> use_disk(disk::DiskTier& tier);
  /// Hands the tier the pages of kFull and kLatent groups between the positions `from` and `to`, of the path up to the
  /// cursor, as far as its queue has room; returns up to which position. From 0 on, the path also counts as used.
  int32_t save(const PrefixCursor& cursor, int32_t from, int32_t to);
  /// Hands it what a sequence needs besides to resume after `tokens` of the path: pages of windows and, if `states`,
  /// the states there.
  void save_boundary(const PrefixCursor& cursor, int32_t tokens, bool states);
  /// Hands it everything that is cached and may be written, the last used first, as long as `may_go_on` says so.
  void save_all(FunctionRef<bool()> may_go_on);
  /// What the tier has of the tokens beyond the cursor.
  disk::DiskMatch find_on_disk(const PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t tokens_max);
  /// Takes pages for all that `match` wants into the table, which ends at the cursor or is cut there. False if there
  /// are too few: the table ends at the cursor then.
  bool make_places(const PrefixCursor& cursor, const disk::DiskMatch& match, PageTable& table);
  /// Hands the tier what save() does not, so that a sequence can resume behind these tokens, of which no sequence has
  /// the last page: that page, the windows before the end and the states there.
  void save_end(const PrefixCursor& root, std::span<const TokenId> tokens);

  /// Drops the pages of these tokens, without writing them anywhere, from the last one back to the first that another
  /// prompt or a sequence needs too.
  void erase(const PrefixCursor& root, std::span<const TokenId> tokens);

  /// Extends `table` and `cursor`, which hold cursor.tokens positions and end on a page boundary, by what is cached of
  /// `tokens` (all tokens of the sequence), at most up to position `tokens_max`. Whole pages are shared. A page that
  /// agrees only in its beginning is copied, if a page for the copy can be found; then hit.tokens is not a page
  /// boundary. hit.tokens is at least the cursor.tokens before the call, and equal to it if nothing more is cached.
  /// Pages of the table beyond cursor.tokens hold nothing and are freed; a state slot of the table is overwritten by a
  /// cached state, and otherwise kept.
  PrefixHit resume(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t tokens_max, PageTable& table);

  /// Adds nodes for pages of `table` that have become whole: `computed` positions of `tokens` have been computed. A
  /// page that is cached already (another sequence computed the same) replaces the table's own. Pages that windows have
  /// left behind then count as used by the cache alone. For a `checkpoint`, copies of the state slots are kept as well,
  /// if `computed` is a page boundary and slots for them can be found.
  void advance(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed, PageTable& table,
               bool checkpoint);

  /// Keeps what the sequence has computed, including its last, partial page, and unpins it. The state slots are those
  /// after exactly `computed` tokens. The table is released and empty, the cursor at its root.
  void leave(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed, PageTable& table);

  /// Chained hash of the next whole page at `cursor`, by which sequences that are about to compute the same page are
  /// recognised; 0 if `tokens` do not fill that page.
  uint64_t next_key(const PrefixCursor& cursor, std::span<const TokenId> tokens) const;
  /// The cursor's key after the first `end` tokens, a multiple of kPageTokens that is not before the cursor.
  static uint64_t key_at(const PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t end);

  /// Evicts until `pages` pages of the group are free; false if too few can be.
  bool make_room(int32_t group, int32_t pages);
  /// Number of pages of the group that make_room could free, besides those that are free already.
  int32_t pages_evictable(int32_t group) const;
  void set_cost(RebuildCost cost);
  /// Evicts everything that no sequence is using.
  void clear();

  int32_t nodes() const;
  int64_t evicted() const;         ///< nodes evicted since the start, to the host or dropped
  int64_t pages_restored() const;  ///< pages restored from the host since the start
  int32_t host_slots_free() const;

 private:
  class Impl;
  explicit PrefixCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// How many children of the last match are searched for one that begins as the prompt goes on, the last used first.
inline constexpr int32_t kSiblingsScannedMax = 64;

}  // namespace cairn::cache
