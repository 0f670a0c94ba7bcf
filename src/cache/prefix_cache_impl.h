/// Implementation of the prefix cache: lookup (prefix_resume.cpp) and insertion (prefix_cache.cpp) over the tree and
/// its pages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/prefix_cache.h"
#include "cache/prefix_cache_store.h"
#include "cache/prefix_tree.h"

namespace cairn::cache {

class PrefixCache::Impl {
 public:
  Impl(PagePool& pool, HostTier host);

  PrefixHit resume(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t tokens_max, PageTable& table);
  void advance(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed, PageTable& table,
               bool checkpoint);
  void leave(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed, PageTable& table);

  Result<void> use_disk(disk::DiskTier& tier);
  int32_t save(const PrefixCursor& cursor, int32_t from, int32_t to);
  void save_boundary(const PrefixCursor& cursor, int32_t tokens, bool states);
  disk::DiskMatch find_on_disk(const PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t tokens_max);
  bool make_places(const PrefixCursor& cursor, const disk::DiskMatch& match, PageTable& table);
  void save_end(const PrefixCursor& root, std::span<const TokenId> tokens);
  void erase(const PrefixCursor& root, std::span<const TokenId> tokens);

  const PagePool& pool() const { return pool_; }
  const PrefixTree& tree() const { return tree_; }
  PrefixCacheStore& pages() { return pages_; }
  const PrefixCacheStore& pages() const { return pages_; }

  /// Chained hash of the page of tokens at `begin`, where `key` is the hash of all tokens before. Never 0.
  static uint64_t chain(uint64_t key, std::span<const TokenId> tokens, int32_t begin);

 private:
  /// A boundary at which a sequence can resume: after the whole page `node`, or in the middle of the page `partial`, a
  /// child of it.
  struct Boundary {
    int32_t node = kNoNode;
    int32_t partial = kNoNode;
    int32_t tokens = 0;
    uint64_t key = 0;  // chained hash of `node`
  };
  struct Match {
    Boundary whole;    // the last boundary after a whole page
    Boundary partial;  // the last boundary in the middle of a page, if it has a node there

    bool is_partial() const { return partial.partial != kNoNode && partial.tokens > whole.tokens; }
    const Boundary& best() const { return is_partial() ? partial : whole; }

    int32_t mismatch_position = -1;
    TokenId mismatch_token = kNoToken;
  };

  // -- Lookup.
  /// Which pages count as present: those on the device only, or also those on host.
  enum class Where { kOnDevice, kAnyTier };

  Match match(const PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t tokens_max, Where where);
  void match_children(int32_t node, uint64_t key, int32_t begin, std::span<const TokenId> tokens, int32_t tokens_max,
                      Where where, Match& match) const;
  bool has(int32_t node, int32_t group, Where where) const {
    return pages_.has(node, group) || (where == Where::kAnyTier && pages_.has_on_host(node, group));
  }
  int32_t find_last(const PrefixCursor& root, std::span<const TokenId> tokens) const;
  bool lacks_window(int32_t node, Where where) const;
  bool can_resume_after(int32_t node, int32_t boundary, Where where) const;
  bool can_resume_within(int32_t node, int32_t begin, int32_t boundary, Where where) const;
  void restore_path(const PrefixCursor& cursor, const Boundary& to);
  void share_path(const PrefixCursor& cursor, const Boundary& to, int32_t window_position, PageTable& table);
  bool copy_partial(const Boundary& to, PageTable& table);
  void copy_states(int32_t node, PageTable& table);
  void truncate(PageTable& table, int32_t tokens);
  void trim_windows(PageTable& table, int32_t position);
  void use_windows(int32_t node, int32_t position);

  // -- Insertion.
  bool add_page(PrefixCursor& cursor, std::span<const TokenId> tokens, PageTable& table);
  int32_t keep_end(const PrefixCursor& cursor, std::span<const TokenId> tokens, PageTable& table);
  void merge(int32_t node, PageTable& table);
  void give_pages(int32_t node, const PageTable& table);
  void remove_covered(int32_t node);
  bool holds_all(int32_t node, const PageTable& table) const;
  bool covers(int32_t node, int32_t leaf) const;
  bool has_states(int32_t node) const;
  void copy_states_to(int32_t node, const PageTable& table);

  bool is_kind(int32_t group, KvKind kind) const { return pool_.layout().groups[group].kind == kind; }
  bool is_paged(int32_t group) const { return !is_kind(group, KvKind::kState); }
  int32_t window(int32_t group) const { return pool_.layout().groups[group].window; }
  /// The window without which no sequence can resume. With 1 no position before the boundary is needed.
  int32_t window_needed(int32_t group) const {
    const KvGroup& of = pool_.layout().groups[group];
    return of.optional ? 1 : of.window;
  }

  PagePool& pool_;
  PrefixTree tree_;
  PrefixCacheStore pages_;
  bool has_state_ = false;
  std::vector<int32_t> window_from_;  // scratch, [group]: position from which on the path has all pages of the window
  std::vector<PageId> fresh_;         // scratch, [group]
  std::vector<int32_t> path_;         // scratch of restore_path and save
};

}  // namespace cairn::cache
