#include "cache/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cache/prefix_cache_impl.h"

namespace cairn::cache {
namespace {

/// Maximum nodes for a layout without a group that has a page for every node.
constexpr int32_t kNodesWithoutPagesMax = 1 << 16;
/// Tree nodes added for the roots of salts; the roots of further salts take the nodes of pages.
constexpr int32_t kSaltsMax = 1 << 10;

/// Every node that is not only on host holds a page of each kFull and kLatent group.
int32_t nodes_max(const KvLayout& layout, std::span<const int32_t> pages, int32_t host_slots) {
  int32_t nodes = 0;
  for (size_t g = 0; g < pages.size(); ++g) {
    const KvKind kind = layout.groups[g].kind;
    if (kind == KvKind::kFull || kind == KvKind::kLatent) nodes = std::max(nodes, pages[g]);
  }
  nodes = nodes == 0 ? kNodesWithoutPagesMax : nodes + host_slots;
  return nodes + std::min(nodes, kSaltsMax);
}

int32_t nodes_max(const PagePool& pool, const HostTier& host) {
  std::vector<int32_t> pages;
  for (int32_t g = 0; g < pool.groups(); ++g) pages.push_back(pool.pages_total(g));
  return nodes_max(pool.layout(), pages, host.slots_total());
}

/// A bijection of 64 bits (Steele, Lea, Flood 2014: splitmix64), so that no two salts have the same root.
constexpr uint64_t mix(uint64_t salt) {
  salt += 0x9e3779b97f4a7c15;
  salt = (salt ^ (salt >> 30)) * 0xbf58476d1ce4e5b9;
  salt = (salt ^ (salt >> 27)) * 0x94d049bb133111eb;
  return salt ^ (salt >> 31);
}

bool begins_with(std::span<const TokenId> tokens, std::span<const TokenId> beginning) {
  return tokens.size() >= beginning.size() && std::ranges::equal(tokens.first(beginning.size()), beginning);
}

}  // namespace

PrefixCache::Impl::Impl(PagePool& pool, HostTier host)
    : pool_(pool),
      tree_(nodes_max(pool, host)),
      pages_(pool, tree_, std::move(host)),
      window_from_(pool.groups(), 0),
      fresh_(pool.groups(), kNoPage) {
  for (int32_t g = 0; g < pool.groups(); ++g) has_state_ = has_state_ || !is_paged(g);
  if (pages_.host().slots_total() > 0) path_.reserve(tree_.nodes_max());
}

void PrefixCache::Impl::advance(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed,
                                PageTable& table, bool checkpoint) {
  CAIRN_CHECK(cursor.tokens <= computed && static_cast<size_t>(computed) <= tokens.size());
  while (computed - cursor.tokens >= kernels::kPageTokens) {
    if (!add_page(cursor, tokens, table)) return;
  }
  if (checkpoint && has_state_ && cursor.tokens == computed && cursor.node != kNoNode)
    copy_states_to(cursor.node, table);
}

void PrefixCache::Impl::leave(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed,
                              PageTable& table) {
  table.groups.resize(pool_.groups());
  // The sequence's own slots become the checkpoint at its end, without a copy.
  while (computed - cursor.tokens >= kernels::kPageTokens && add_page(cursor, tokens, table)) continue;
  int32_t end = cursor.node;
  if (computed > cursor.tokens) {
    end = computed - cursor.tokens < kernels::kPageTokens ? keep_end(cursor, tokens.first(computed), table) : kNoNode;
  }
  if (end != kNoNode) {
    for (int32_t g = 0; g < pool_.groups(); ++g) {
      if (is_paged(g) || table.groups[g].empty()) continue;
      if (!pages_.has(end, g)) pages_.give(end, g, table.groups[g][0]);
      pages_.use(end, g);
    }
    // The next turn may diverge in the middle of this one's last page, so the window is kept from where that page
    // begins.
    use_windows(end, cursor.tokens);
    int32_t first_with_state = kNoNode;
    for (int32_t node = end; !tree_.is_root(node); node = tree_.parent(node)) {
      pages_.refresh(node);
      if (has_states(node)) first_with_state = node;
    }
    // The checkpoint that most conversations share, usually behind a system prompt, is not older than this one's end.
    for (int32_t g = 0; g < pool_.groups() && first_with_state != kNoNode; ++g) {
      if (!is_paged(g)) pages_.use(first_with_state, g);
    }
  }
  uint64_t root_key = cursor.key;
  if (cursor.node != kNoNode) {
    int32_t root = cursor.node;
    while (!tree_.is_root(root)) root = tree_.parent(root);
    root_key = tree_.key(root);
  }
  pages_.unpin(cursor.node);
  pool_.release(table);
  cursor = {.key = root_key, .keeps_on_disk = cursor.keeps_on_disk, .owner = cursor.owner};
}

/// Adds a node for the whole page at the cursor and moves the cursor behind it; false if no node is free.
bool PrefixCache::Impl::add_page(PrefixCursor& cursor, std::span<const TokenId> tokens, PageTable& table) {
  if (!pages_.make_node_room(2)) return false;
  int32_t parent = cursor.node != kNoNode ? cursor.node : tree_.root(cursor.key);
  if (parent == kNoNode) parent = tree_.add_root(cursor.key);
  const uint64_t key = chain(cursor.key, tokens, cursor.tokens);
  const auto page = tokens.subspan(cursor.tokens, kernels::kPageTokens);
  int32_t node = tree_.find(parent, key, page);
  if (node == kNoNode) {
    node = tree_.add(parent, key, page);
    pages_.admit(node, cursor);
    give_pages(node, table);
    remove_covered(node);
  } else {
    pages_.keep_on_disk(node, cursor);
    merge(node, table);
  }
  pages_.pin(node);
  pages_.unpin(cursor.node);
  cursor.node = node;
  cursor.key = key;
  cursor.tokens += kernels::kPageTokens;
  return true;
}

/// The node for the tokens after the cursor's last whole page: a new leaf, or an existing node that covers them.
/// kNoNode if there is neither.
int32_t PrefixCache::Impl::keep_end(const PrefixCursor& cursor, std::span<const TokenId> tokens, PageTable& table) {
  if (!pages_.make_node_room(2)) return kNoNode;
  int32_t parent = cursor.node != kNoNode ? cursor.node : tree_.root(cursor.key);
  if (parent == kNoNode) parent = tree_.add_root(cursor.key);
  const auto rest = tokens.subspan(cursor.tokens);
  int32_t child = tree_.first_child(parent);
  for (int32_t seen = 0; child != kNoNode && seen < kSiblingsScannedMax; ++seen, child = tree_.next_sibling(child)) {
    const bool same = std::ranges::equal(tree_.tokens(child), rest);
    if (same) {
      pages_.keep_on_disk(child, cursor);
      merge(child, table);
    }
    if (same || (!has_state_ && begins_with(tree_.tokens(child), rest) && holds_all(child, table))) return child;
  }
  const int32_t leaf = tree_.add_leaf(parent, rest);
  pages_.admit(leaf, cursor);
  give_pages(leaf, table);
  remove_covered(leaf);
  return leaf;
}

/// Merges two computations of the same page: the table takes the node's pages, and the node takes those that it lacks.
void PrefixCache::Impl::merge(int32_t node, PageTable& table) {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (!is_paged(g)) continue;
    PageId& ours = table.groups[g].at(tree_.begin(node) / kernels::kPageTokens);
    if (ours == kNoPage) continue;
    if (!pages_.has(node, g)) pages_.give(node, g, ours);
    const PageId theirs = pages_.page(node, g);
    if (ours == theirs) continue;
    pool_.retain(g, theirs);
    pool_.release(g, ours);
    ours = theirs;
  }
}

void PrefixCache::Impl::give_pages(int32_t node, const PageTable& table) {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (!is_paged(g)) continue;
    const PageId page = table.groups[g].at(tree_.begin(node) / kernels::kPageTokens);
    if (page != kNoPage) pages_.give(node, g, page);
  }
}

/// Whether the node has a page of every group of which the table has one for it.
bool PrefixCache::Impl::holds_all(int32_t node, const PageTable& table) const {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (!is_paged(g)) continue;
    const PageId page = table.groups[g].at(tree_.begin(node) / kernels::kPageTokens);
    if (page != kNoPage && !pages_.has(node, g)) return false;
  }
  return true;
}

/// Whether every sequence that can resume within `leaf` can also resume within its sibling `node`.
bool PrefixCache::Impl::covers(int32_t node, int32_t leaf) const {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (has(leaf, g, Where::kAnyTier) && (!is_paged(g) || !pages_.has(node, g))) return false;
  }
  return begins_with(tree_.tokens(node), tree_.tokens(leaf));
}

void PrefixCache::Impl::remove_covered(int32_t node) {
  int32_t child = tree_.first_child(tree_.parent(node));
  for (int32_t seen = 0; child != kNoNode && seen < kSiblingsScannedMax; ++seen) {
    const int32_t next = tree_.next_sibling(child);
    if (child != node && !tree_.is_whole(child) && covers(node, child)) pages_.remove(child);
    child = next;
  }
}

bool PrefixCache::Impl::has_states(int32_t node) const {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (!is_paged(g) && pages_.has(node, g)) return true;
  }
  return false;
}

void PrefixCache::Impl::copy_states_to(int32_t node, const PageTable& table) {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (is_paged(g)) continue;
    pages_.use(node, g);
    if (pages_.has(node, g)) continue;
    const PageId slot = table.groups[g].empty() ? kNoPage : pages_.allocate(g);
    if (slot == kNoPage) return;
    pool_.copy(g, table.groups[g][0], slot);
    pages_.give(node, g, slot);
    pool_.release(g, slot);
  }
}

PrefixCache::PrefixCache(PagePool& pool) : impl_(std::make_unique<Impl>(pool, HostTier())) {}
PrefixCache::PrefixCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PrefixCache::PrefixCache(PrefixCache&& other) noexcept = default;
PrefixCache& PrefixCache::operator=(PrefixCache&& other) noexcept = default;
PrefixCache::~PrefixCache() = default;

Result<PrefixCache> PrefixCache::create(PagePool& pool, int64_t host_bytes) {
  CAIRN_TRY(HostTier host, HostTier::create(pool, host_bytes));
  return PrefixCache(std::make_unique<Impl>(pool, std::move(host)));
}

int64_t PrefixCache::bytes(const KvLayout& layout, std::span<const int32_t> pages, int64_t host_bytes, bool disk) {
  const int32_t slots = HostTier::slots_in(layout, host_bytes);
  const int32_t nodes = nodes_max(layout, pages, slots);
  const int64_t path_bytes = slots > 0 || disk ? int64_t{nodes} * static_cast<int64_t>(sizeof(int32_t)) : 0;
  return PrefixTree::bytes(nodes) + PrefixCacheStore::bytes(layout, nodes, disk) + HostTier::list_bytes(slots) +
         path_bytes;
}

PrefixCursor PrefixCache::root(uint64_t salt) { return {.key = mix(salt)}; }

PrefixHit PrefixCache::resume(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t tokens_max,
                              PageTable& table) {
  return impl_->resume(cursor, tokens, tokens_max, table);
}
void PrefixCache::advance(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed, PageTable& table,
                          bool checkpoint) {
  impl_->advance(cursor, tokens, computed, table, checkpoint);
}
void PrefixCache::leave(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t computed, PageTable& table) {
  impl_->leave(cursor, tokens, computed, table);
}
uint64_t PrefixCache::next_key(const PrefixCursor& cursor, std::span<const TokenId> tokens) const {
  const bool whole = static_cast<int64_t>(tokens.size()) - cursor.tokens >= kernels::kPageTokens;
  return whole ? Impl::chain(cursor.key, tokens, cursor.tokens) : 0;
}
uint64_t PrefixCache::key_at(const PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t end) {
  uint64_t key = cursor.key;
  for (int32_t at = cursor.tokens; at < end; at += kernels::kPageTokens) key = Impl::chain(key, tokens, at);
  return key;
}
Result<void> PrefixCache::use_disk(disk::DiskTier& tier) { return impl_->use_disk(tier); }
int32_t PrefixCache::save(const PrefixCursor& cursor, int32_t from, int32_t to) {
  return impl_->save(cursor, from, to);
}
void PrefixCache::save_boundary(const PrefixCursor& cursor, int32_t tokens, bool states) {
  impl_->save_boundary(cursor, tokens, states);
}
void PrefixCache::save_all(FunctionRef<bool()> may_go_on) { impl_->pages().save_all(may_go_on); }
disk::DiskMatch PrefixCache::find_on_disk(const PrefixCursor& cursor, std::span<const TokenId> tokens,
                                          int32_t tokens_max) {
  return impl_->find_on_disk(cursor, tokens, tokens_max);
}
bool PrefixCache::make_places(const PrefixCursor& cursor, const disk::DiskMatch& match, PageTable& table) {
  return impl_->make_places(cursor, match, table);
}
void PrefixCache::save_end(const PrefixCursor& root, std::span<const TokenId> tokens) { impl_->save_end(root, tokens); }
void PrefixCache::erase(const PrefixCursor& root, std::span<const TokenId> tokens) { impl_->erase(root, tokens); }
bool PrefixCache::make_room(int32_t group, int32_t pages) { return impl_->pages().make_room(group, pages); }
int32_t PrefixCache::pages_evictable(int32_t group) const { return impl_->pool().pages_idle(group); }
void PrefixCache::set_cost(RebuildCost cost) { impl_->pages().set_cost(cost); }
void PrefixCache::clear() { impl_->pages().clear(); }
int32_t PrefixCache::nodes() const {
  return impl_->tree().nodes_max() - impl_->tree().nodes_free() - impl_->tree().roots();
}
int64_t PrefixCache::evicted() const { return impl_->pages().evicted(); }
int64_t PrefixCache::pages_restored() const { return impl_->pages().restored(); }
int32_t PrefixCache::host_slots_free() const { return impl_->pages().host().slots_free(); }

}  // namespace cairn::cache
