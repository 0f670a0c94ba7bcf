// Lookup: finds how much of a prompt is cached, and puts its pages into a sequence's table.
#include <algorithm>

#include "base/check.h"
#include "base/hash.h"
#include "cache/prefix_cache_impl.h"

namespace cairn::cache {

uint64_t PrefixCache::Impl::chain(uint64_t key, std::span<const TokenId> tokens, int32_t begin) {
  return std::max<uint64_t>(1, hash64(std::as_bytes(tokens.subspan(begin, kernels::kPageTokens)), key));
}

PrefixHit PrefixCache::Impl::resume(PrefixCursor& cursor, std::span<const TokenId> tokens, int32_t tokens_max,
                                    PageTable& table) {
  CAIRN_CHECK(cursor.tokens % kernels::kPageTokens == 0);
  tokens_max = std::min(tokens_max, static_cast<int32_t>(tokens.size()));
  table.groups.resize(pool_.groups());
  Match found = match(cursor, tokens, tokens_max, Where::kOnDevice);
  if (pages_.host().slots_total() > 0) {
    const Match with_host = match(cursor, tokens, tokens_max, Where::kAnyTier);
    if (with_host.best().tokens > found.best().tokens) {
      restore_path(cursor, with_host.best());
      found = match(cursor, tokens, tokens_max, Where::kOnDevice);  // shorter if there was no room for all pages
    }
  }
  PrefixHit hit{
      .tokens = cursor.tokens, .mismatch_position = found.mismatch_position, .mismatch_token = found.mismatch_token};
  Boundary to = found.best();
  if (to.tokens <= cursor.tokens) return hit;

  truncate(table, cursor.tokens);
  pages_.pin(to.node);
  // Windows are filled for the earlier boundary, which remains if no page can be found for the copy.
  share_path(cursor, to, found.whole.tokens, table);
  if (found.is_partial() && !copy_partial(to, table)) {
    pages_.pin(found.whole.node);
    pages_.unpin(to.node);
    to = found.whole;
    truncate(table, to.tokens);
  }
  if (to.tokens > cursor.tokens) {
    const int32_t end = to.partial != kNoNode ? to.partial : to.node;
    copy_states(end, table);
    trim_windows(table, to.tokens);
    use_windows(end, to.tokens);
    tree_.to_front(end);
    if (to.partial != kNoNode) pages_.refresh(to.partial);
  }
  pages_.unpin(cursor.node);
  cursor.node = to.node;
  cursor.key = to.key;
  cursor.tokens = to.tokens / kernels::kPageTokens * kernels::kPageTokens;
  hit.tokens = to.tokens;
  return hit;
}

PrefixCache::Impl::Match PrefixCache::Impl::match(const PrefixCursor& cursor, std::span<const TokenId> tokens,
                                                  int32_t tokens_max, Where where) {
  std::ranges::fill(window_from_, 0);  // the table holds the windows' pages before the cursor
  Match match;
  match.whole = {.node = cursor.node, .tokens = cursor.tokens, .key = cursor.key};
  int32_t node = cursor.node != kNoNode ? cursor.node : tree_.root(cursor.key);
  uint64_t key = cursor.key;
  int32_t end = cursor.tokens;
  while (node != kNoNode && tokens_max - end >= kernels::kPageTokens) {
    const uint64_t next_key = chain(key, tokens, end);
    const int32_t next = tree_.find(node, next_key, tokens.subspan(end, kernels::kPageTokens));
    if (next == kNoNode || (where == Where::kOnDevice && !pages_.is_here(next))) break;
    // Beside a path at which no sequence can resume there may be the end of a conversation at which one can.
    if (has_state_ || lacks_window(next, where)) match_children(node, key, end, tokens, tokens_max, where, match);
    node = next;
    key = next_key;
    end += kernels::kPageTokens;
    for (int32_t g = 0; g < pool_.groups(); ++g) {
      if (is_kind(g, KvKind::kWindow) && !has(node, g, where)) window_from_[g] = end;
    }
    if (can_resume_after(node, end, where)) match.whole = {.node = node, .tokens = end, .key = key};
  }
  if (node != kNoNode) match_children(node, key, end, tokens, tokens_max, where, match);
  return match;
}

/// Searches the children for one that agrees with the longest beginning of `tokens` from `begin` on, short of a whole
/// page.
void PrefixCache::Impl::match_children(int32_t node, uint64_t key, int32_t begin, std::span<const TokenId> tokens,
                                       int32_t tokens_max, Where where, Match& match) const {
  const auto rest = tokens.subspan(begin, std::min<size_t>(kernels::kPageTokens, tokens.size() - begin));
  match.mismatch_position = -1;
  int32_t longest = -1;
  int32_t child = tree_.first_child(node);
  for (int32_t seen = 0; child != kNoNode && seen < kSiblingsScannedMax; ++seen, child = tree_.next_sibling(child)) {
    const auto theirs = tree_.tokens(child);
    const auto [ours_end, theirs_end] = std::ranges::mismatch(rest, theirs);
    const auto agree = static_cast<int32_t>(ours_end - rest.begin());
    if (agree > longest) {
      longest = agree;
      const bool differ = ours_end != rest.end() && theirs_end != theirs.end();
      match.mismatch_position = differ ? begin + agree : -1;
      match.mismatch_token = differ ? *theirs_end : kNoToken;
    }
    const int32_t boundary = std::min(begin + agree, tokens_max);
    if (boundary == begin + kernels::kPageTokens || boundary <= std::max(begin, match.partial.tokens)) continue;
    if (!can_resume_within(child, begin, boundary, where)) continue;
    match.partial = {.node = tree_.is_root(node) ? kNoNode : node, .partial = child, .tokens = boundary, .key = key};
  }
}

bool PrefixCache::Impl::lacks_window(int32_t node, Where where) const {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (is_kind(g, KvKind::kWindow) && window_needed(g) > 1 && !has(node, g, where)) return true;
  }
  return false;
}

bool PrefixCache::Impl::can_resume_after(int32_t node, int32_t boundary, Where where) const {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (is_kind(g, KvKind::kWindow)) {
      const int32_t begin = window_begin(window_needed(g), boundary);
      if (begin < boundary && begin < window_from_[g]) return false;
    } else if (!has(node, g, where)) {
      return false;
    }
  }
  return true;
}

bool PrefixCache::Impl::can_resume_within(int32_t node, int32_t begin, int32_t boundary, Where where) const {
  if (where == Where::kOnDevice && !pages_.is_here(node)) return false;
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (is_kind(g, KvKind::kState)) {
      if (boundary != tree_.end(node) || !has(node, g, where)) return false;
    } else if (is_kind(g, KvKind::kWindow)) {
      const int32_t needed = window_begin(window_needed(g), boundary);
      if (needed < boundary && !has(node, g, where)) return false;
      if (needed < begin && needed < window_from_[g]) return false;
    }
  }
  return true;
}

/// Restores the pages that the boundary needs from the host, as far as there is room.
void PrefixCache::Impl::restore_path(const PrefixCursor& cursor, const Boundary& to) {
  const int32_t end = to.partial != kNoNode ? to.partial : to.node;
  path_.clear();
  for (int32_t node = end; node != cursor.node && !tree_.is_root(node); node = tree_.parent(node)) {
    pages_.pin(node);
    path_.push_back(node);
  }
  bool done = true;
  for (auto node = path_.rbegin(); node != path_.rend() && done; ++node) {
    uint32_t wanted = 0;
    for (int32_t g = 0; g < pool_.groups(); ++g) {
      const bool needed = is_kind(g, KvKind::kWindow) ? tree_.end(*node) > window_begin(window(g), to.tokens)
                                                      : is_paged(g) || *node == end;
      if (needed && has(*node, g, Where::kAnyTier)) wanted |= 1u << g;
    }
    done = pages_.restore(*node, wanted);
  }
  for (const int32_t node : path_) pages_.unpin(node);
}

/// Fills the table from the cursor to to.node; window groups from where a row at `window_position` needs them.
void PrefixCache::Impl::share_path(const PrefixCursor& cursor, const Boundary& to, int32_t window_position,
                                   PageTable& table) {
  const int32_t end = to.tokens / kernels::kPageTokens;
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (is_paged(g)) table.groups[g].resize(end, kNoPage);
  }
  int32_t node = to.node;
  for (int32_t i = end - 1; i >= cursor.tokens / kernels::kPageTokens; --i, node = tree_.parent(node)) {
    for (int32_t g = 0; g < pool_.groups(); ++g) {
      if (!is_paged(g) || !pages_.has(node, g)) continue;
      if (is_kind(g, KvKind::kWindow) && i < window_begin(window(g), window_position) / kernels::kPageTokens) continue;
      const PageId page = pages_.page(node, g);
      pool_.retain(g, page);
      table.groups[g][i] = page;
    }
  }
}

/// Copies the page in which the boundary lies; false, with nothing changed, if no page for the copy can be found.
bool PrefixCache::Impl::copy_partial(const Boundary& to, PageTable& table) {
  // Pinned, so that it is not evicted for its own copy.
  pages_.pin(to.partial);
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (pages_.has(to.partial, g)) pool_.retain(g, pages_.page(to.partial, g));
  }
  bool have_all = true;
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    fresh_[g] = is_paged(g) && have_all ? pages_.allocate(g) : kNoPage;
    have_all = have_all && (!is_paged(g) || fresh_[g] != kNoPage);
  }
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (fresh_[g] != kNoPage && have_all) {
      if (pages_.has(to.partial, g)) pool_.copy(g, pages_.page(to.partial, g), fresh_[g]);
      table.groups[g].push_back(fresh_[g]);
    } else if (fresh_[g] != kNoPage) {
      pool_.release(g, fresh_[g]);
    }
    if (pages_.has(to.partial, g)) pool_.release(g, pages_.page(to.partial, g));
  }
  pages_.unpin(to.partial);
  return have_all;
}

/// Gives the table copies of the node's state slots, or the slots themselves if no slot is free for a copy.
void PrefixCache::Impl::copy_states(int32_t node, PageTable& table) {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (is_paged(g)) continue;
    const PageId from = pages_.page(node, g);
    auto& slots = table.groups[g];
    pool_.retain(g, from);  // so that it is not evicted for its own copy
    if (slots.empty()) {
      const PageId slot = pages_.allocate(g);
      slots.push_back(slot != kNoPage ? slot : pages_.detach_for_reuse(node, g));
    }
    if (slots[0] != from) {
      pool_.copy(g, from, slots[0]);
      pages_.use(node, g);
    }
    pool_.release(g, from);
  }
}

void PrefixCache::Impl::truncate(PageTable& table, int32_t tokens) {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (!is_paged(g)) continue;
    auto& pages = table.groups[g];
    for (; pages.size() > static_cast<size_t>(pages_for(tokens)); pages.pop_back()) {
      if (pages.back() != kNoPage) pool_.release(g, pages.back());
    }
  }
}

/// Frees the window pages before `position` like PagePool::release_behind, for a table whose windows may have gaps.
void PrefixCache::Impl::trim_windows(PageTable& table, int32_t position) {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (!is_kind(g, KvKind::kWindow)) continue;
    for (int32_t i = window_begin(window(g), position) / kernels::kPageTokens - 1; i >= 0; --i) {
      PageId& page = table.groups[g][i];
      if (page != kNoPage) pool_.release(g, page);
      page = kNoPage;
    }
  }
}

/// Marks the window pages that a row at `position`, in or after `node`, reads as used.
void PrefixCache::Impl::use_windows(int32_t node, int32_t position) {
  for (int32_t g = 0; g < pool_.groups(); ++g) {
    if (!is_kind(g, KvKind::kWindow)) continue;
    const int32_t begin = window_begin(window(g), position);
    for (int32_t at = node; !tree_.is_root(at) && tree_.end(at) > begin; at = tree_.parent(at)) pages_.use(at, g);
  }
}

}  // namespace cairn::cache
