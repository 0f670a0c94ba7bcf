// The prefix cache and its disk tier: what is handed over, and places for what comes back.
#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "base/check.h"
#include "cache/prefix_cache_impl.h"

namespace cairn::cache {

Result<void> PrefixCache::Impl::use_disk(disk::DiskTier& tier) try {
  path_.reserve(tree_.nodes_max());
  return pages_.use_disk(tier);
} catch (const std::bad_alloc&) {
  return fail(Code::kOutOfMemory, "no memory for paths of {} pages", tree_.nodes_max());
}

int32_t PrefixCache::Impl::save(const PrefixCursor& cursor, int32_t from, int32_t to) {
  if (pages_.disk() == nullptr || !cursor.keeps_on_disk) return to;
  path_.clear();
  for (int32_t node = cursor.node; node != kNoNode && !tree_.is_root(node) && tree_.end(node) > from;
       node = tree_.parent(node)) {
    if (tree_.end(node) <= to) path_.push_back(node);
  }
  if (from == 0) {
    std::vector<disk::PageDigest> used;
    used.reserve(path_.size());
    for (const int32_t node : path_) used.push_back(pages_.digest(node, 0));
    pages_.disk()->touch(std::move(used));
  }
  for (auto node = path_.rbegin(); node != path_.rend(); ++node) {
    pages_.keep_on_disk(*node, cursor);
    for (int32_t g = 0; g < pool_.groups(); ++g) {
      if (!is_kind(g, KvKind::kFull) && !is_kind(g, KvKind::kLatent)) continue;
      if (!pages_.disk()->has_room(g)) return tree_.begin(*node);
      pages_.save(*node, g);
    }
  }
  return to;
}

void PrefixCache::Impl::save_boundary(const PrefixCursor& cursor, int32_t tokens, bool states) {
  if (pages_.disk() == nullptr || !cursor.keeps_on_disk) return;
  int32_t node = cursor.node;
  while (node != kNoNode && !tree_.is_root(node) && tree_.end(node) > tokens) node = tree_.parent(node);
  if (node == kNoNode || tree_.is_root(node) || tree_.end(node) != tokens) return;
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (is_kind(g, KvKind::kState) && states) pages_.save(node, g);
    if (!is_kind(g, KvKind::kWindow)) continue;
    const int32_t begin = window_begin(window(g), tokens);
    for (int32_t at = node; !tree_.is_root(at) && tree_.end(at) > begin; at = tree_.parent(at)) pages_.save(at, g);
  }
}

/// The node in which the tokens end, on the device or on host; kNoNode if there is none.
int32_t PrefixCache::Impl::find_last(const PrefixCursor& root, std::span<const TokenId> tokens) const {
  int32_t node = tree_.root(root.key);
  uint64_t key = root.key;
  const auto count = static_cast<int32_t>(tokens.size());
  int32_t at = 0;
  for (; node != kNoNode && count - at >= kernels::kPageTokens; at += kernels::kPageTokens) {
    key = chain(key, tokens, at);
    node = tree_.find(node, key, tokens.subspan(static_cast<size_t>(at), kernels::kPageTokens));
  }
  if (node == kNoNode || at == count) return node;
  int32_t child = tree_.first_child(node);
  while (child != kNoNode && !std::ranges::equal(tree_.tokens(child), tokens.subspan(static_cast<size_t>(at))))
    child = tree_.next_sibling(child);
  return child;
}

void PrefixCache::Impl::save_end(const PrefixCursor& root, std::span<const TokenId> tokens) {
  const int32_t end = pages_.disk() == nullptr ? kNoNode : find_last(root, tokens);
  if (end == kNoNode || tree_.is_root(end)) return;
  pages_.keep_on_disk(end, root);
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    pages_.save(end, g);
    if (!is_kind(g, KvKind::kWindow)) continue;
    const int32_t begin = window_begin(window(g), tree_.end(end));
    for (int32_t at = end; !tree_.is_root(at) && tree_.end(at) > begin; at = tree_.parent(at)) {
      pages_.keep_on_disk(at, root);
      pages_.save(at, g);
    }
  }
}

void PrefixCache::Impl::erase(const PrefixCursor& root, std::span<const TokenId> tokens) {
  int32_t node = find_last(root, tokens);
  while (node != kNoNode && !tree_.is_root(node) && tree_.first_child(node) == kNoNode && !pages_.is_pinned(node)) {
    const int32_t parent = tree_.parent(node);
    const bool last = tree_.is_root(parent);  // it goes with its last child
    pages_.remove(node);
    node = last ? kNoNode : parent;
  }
}

disk::DiskMatch PrefixCache::Impl::find_on_disk(const PrefixCursor& cursor, std::span<const TokenId> tokens,
                                                int32_t tokens_max) {
  if (pages_.disk() == nullptr) return {.tokens = cursor.tokens, .tokens_with_pages = cursor.tokens};
  return pages_.disk()->match(pages_.digest(cursor.node, cursor.key), cursor.tokens, tokens, tokens_max);
}

bool PrefixCache::Impl::make_places(const PrefixCursor& cursor, const disk::DiskMatch& match, PageTable& table) {
  table.groups.resize(pool_.groups());
  truncate(table, cursor.tokens);
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (is_paged(g)) table.groups[g].resize(pages_for(match.tokens), kNoPage);
  }
  for (const disk::WantedPage& wanted : match.pages) {
    auto& pages = table.groups[wanted.page.group];
    if (!is_paged(wanted.page.group)) {
      if (!pages.empty()) continue;
      pages.push_back(kNoPage);
    }
    PageId& page = pages.at(wanted.place);
    page = pages_.allocate(wanted.page.group);
    if (page != kNoPage) continue;
    if (!is_paged(wanted.page.group)) pages.clear();
    truncate(table, cursor.tokens);
    return false;
  }
  trim_windows(table, match.tokens);  // so that no page lies before a gap
  return true;
}

}  // namespace cairn::cache
