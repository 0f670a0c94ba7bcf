/// Finds KV pages that hold the beginning of a prompt, keeps them after their sequence has gone, and decides which to
/// give up when memory runs out.
///
/// A tree of pages: a node stands for the tokens of one page after those of its parent's, and refers to the pages that
/// hold them, one of each group. Nodes are found by the chained hash of all tokens before and in them (salted, so that
/// tenants do not see each other's), and verified against their tokens. A node of less than a whole page is a leaf: the
/// end of a conversation.
///
/// A sequence can resume at a boundary where every group can: kFull and kLatent groups need the pages of all nodes up
/// to it, kWindow groups those that the window reaches back to, kState groups a slot copied at this very boundary.
///
/// Eviction: a node whose page is used by nobody else and that has no children goes by its GreedyDual value (Young
/// 1994: value = clock + cost to compute its tokens again; the smallest goes and becomes the clock), so that what is
/// dear and recent stays. Pages of windows and state slots go without their nodes, oldest use first.
///
/// Thread: the engine's. Nothing allocates after creation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cache/page_pool.h"

namespace cairn {

/// Where a sequence stands in the tree: the node of its last whole page. It pins this node, and so all before it.
struct PrefixCursor {
  int32_t node = -1;   ///< -1: at the root
  uint64_t key = 0;    ///< chained hash up to here; the salt's at the root
  int32_t tokens = 0;  ///< positions up to here, a multiple of kPageTokens
};

/// What a lookup found.
struct PrefixHit {
  int32_t tokens = 0;  ///< positions that need not be computed
  /// Position of the first token that differs from what is cached beside the match, or -1 if nothing is.
  int32_t mismatch_position = -1;
  TokenId mismatch_token = kNoToken;  ///< the token that the cache has there
};

/// Time to compute a token again: token_ns + position * position_ns.
struct RebuildCost {
  double token_ns = 1;
  double position_ns = 0;
};

class PrefixCache {
 public:
  /// `pool` outlives the cache.
  explicit PrefixCache(PagePool& pool);
  /// With a second tier: `host_bytes` of host memory to which what is evicted goes, and from which it comes back when
  /// it is found. 0: none. Errors: kInvalidArgument (less than a page of every group), kOutOfMemory.
  static Result<PrefixCache> create(PagePool& pool, int64_t host_bytes);
  /// Bytes that the cache of such a pool takes, and what finds the pages of a second tier of `host_bytes`, but not
  /// those.
  static int64_t bytes(const KvLayout& layout, std::span<const int32_t> pages, int64_t host_bytes);
  PrefixCache(PrefixCache&& other) noexcept;
  PrefixCache& operator=(PrefixCache&& other) noexcept;
  ~PrefixCache();

  static PrefixCursor root(uint64_t salt);

  /// Extends `table` and `cursor`, which hold cursor.tokens positions and end on a page boundary, by what is cached of
  /// `tokens` (all tokens of the sequence), up to position `tokens_max` at most. Whole pages are shared; of a page that
  /// agrees only in its beginning a copy is made, if a page for it can be had: then hit.tokens is no page boundary.
  /// hit.tokens >= cursor.tokens before; equal if nothing more is cached. Pages of the table beyond cursor.tokens hold
  /// nothing and are given back; a state slot that it has is written to, and kept otherwise.
  PrefixHit resume(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t tokens_max, PageTable& table);

  /// Adds nodes for pages of `table` that have become whole: `computed` positions of `tokens` have been computed. A
  /// page that is there already (another sequence computed the same) takes the place of the table's own. Pages left
  /// behind by windows count from now on as used by the cache alone.
  void advance(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed, PageTable& table);

  /// Keeps what the sequence has computed, with its last, partial page, and unpins. The state slots are those after
  /// exactly `computed` tokens. The table is released and empty, the cursor at its root.
  void leave(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed, PageTable& table);

  /// Chained hash of the next whole page at `cursor`, by which sequences that are about to compute the same page know
  /// each other; 0 if `tokens` do not fill it.
  uint64_t next_key(const PrefixCursor& cursor, std::span<const TokenId> tokens) const;

  /// Evicts until `pages` pages of the group are free; false if too few can be.
  bool make_room(int32_t group, int32_t pages);
  /// Pages of the group that make_room could free, besides those free already.
  int32_t pages_evictable(int32_t group) const;
  void set_cost(RebuildCost cost);
  /// Forgets everything that no sequence is using.
  void clear();

  int32_t nodes() const;
  int64_t evicted() const;         ///< nodes evicted since the start, to the host or for good
  int64_t pages_restored() const;  ///< from the host since the start
  int32_t host_slots_free() const;

 private:
  class Impl;
  explicit PrefixCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A state slot is copied while a prompt is computed when the last copy on its path is at least so many tokens back.
inline constexpr int32_t kCheckpointTokens = 256;
/// Nodes after the last match that are looked at for one that begins as the prompt goes on, the one used last first.
inline constexpr int32_t kSiblingsScannedMax = 64;

}  // namespace cairn
