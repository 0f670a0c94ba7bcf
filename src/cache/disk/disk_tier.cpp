#include "cache/disk/disk_tier.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "cache/page_pool.h"

namespace cairn::cache::disk {
namespace {

/// Bytes a second of a slow SSD, taken before anything was read.
constexpr double kAssumedReadRate = 400e6;

std::string text_of(uint64_t number) { return fmt::format("{:016x}", number); }

}  // namespace

DiskTier::DiskTier(std::shared_ptr<DiskWorker> worker, const KvLayout& layout, DiskPolicy policy)
    : worker_(std::move(worker)), layout_(layout), policy_(policy) {
  for (const KvGroup& group : layout_.groups) page_bytes_.push_back(layout_.page_bytes(group));
}

Result<std::unique_ptr<DiskTier>> DiskTier::create(std::shared_ptr<DiskWorker> worker, const KvLayout& layout,
                                                   std::string_view identity, std::string_view about,
                                                   DiskPolicy policy) {
  auto tier = std::unique_ptr<DiskTier>(new DiskTier(std::move(worker), layout, policy));
  std::string all(identity);
  for (const KvGroup& group : layout.groups) {
    all +=
        fmt::format("; group {} {} {} {}", static_cast<int>(group.kind), group.window, group.state_bytes, group.device);
    for (const KvLayer& layer : group.layers) {
      all += fmt::format(", {} {} {} {} {}", static_cast<int>(layout.type_of(layer)), layer.kv_heads, layer.key_dim,
                         layer.value_dim, layer.tokens_per_row);
    }
  }
  CAIRN_TRY(tier->space_, tier->worker_->store().use_space(all, about, tier->page_bytes_));
  return tier;
}

PageDigest DiskTier::root(uint64_t key) const { return worker_->store().keyed("salt", text_of(key)); }

PageDigest DiskTier::next(const PageDigest& before, std::span<const TokenId> tokens) {
  CAIRN_CHECK(!tokens.empty() && tokens.size() <= kernels::kPageTokens);
  std::array<std::byte, sizeof before + kernels::kPageTokens * sizeof(TokenId)> bytes;
  std::memcpy(bytes.data(), &before, sizeof before);
  std::memcpy(bytes.data() + sizeof before, tokens.data(), tokens.size_bytes());
  return digest_of(std::span(bytes).first(sizeof before + tokens.size_bytes()));
}

uint64_t DiskTier::owner(const PageStore& store, uint64_t tenant) { return store.keyed("owner", text_of(tenant)).low; }

double DiskTier::read_rate() const {
  const double rate = worker_->read_rate();
  return rate > 0 ? rate : kAssumedReadRate;
}

bool DiskTier::has_all_of(KvKind kind, const PageDigest& page) const {
  for (int32_t g = 0; g < groups(); ++g) {
    if (this->kind(g) == kind && !has({page, g})) return false;
  }
  return true;
}

// Whether a sequence can resume at `boundary`, the end of a page with all of its kFull and kLatent groups or, of an
// unfinished page, in it; window_from[g]: from where on the windows' pages before it are there.
bool DiskTier::can_resume(const PageDigest& page, int32_t page_begin, int32_t boundary,
                          std::span<const int32_t> window_from) const {
  if (!has_all_of(KvKind::kState, page)) return false;
  for (int32_t g = 0; g < groups(); ++g) {
    if (kind(g) != KvKind::kWindow) continue;
    const int32_t begin = window_begin(layout_.groups[static_cast<size_t>(g)].window, boundary);
    if (begin >= boundary) continue;
    if (!has({page, g}) || (begin < page_begin && begin < window_from[static_cast<size_t>(g)])) return false;
  }
  return true;
}

// Adds what a sequence that resumes at `boundary` needs of the page at `begin`.
void DiskTier::want(const PageDigest& page, int32_t begin, int32_t boundary, DiskMatch& match) const {
  const bool last = boundary - begin <= kernels::kPageTokens;
  for (int32_t g = 0; g < groups(); ++g) {
    const bool state = kind(g) == KvKind::kState;
    if (state && !last) continue;
    if (kind(g) == KvKind::kWindow) {
      const int32_t from = window_begin(layout_.groups[static_cast<size_t>(g)].window, boundary);
      if (from >= boundary || from >= begin + kernels::kPageTokens) continue;
    }
    match.pages.push_back({{page, g}, state ? 0 : begin / kernels::kPageTokens, bytes_of(g)});
    match.bytes += bytes_of(g);
  }
}

DiskMatch DiskTier::match(PageDigest at, int32_t begin, std::span<const TokenId> tokens, int32_t tokens_max) const {
  tokens_max = std::min(tokens_max, static_cast<int32_t>(tokens.size()));
  DiskMatch match{.tokens = begin, .tokens_with_pages = begin};
  std::vector<PageDigest> path;  // whole pages from `begin` on
  std::vector<int32_t> window_from(page_bytes_.size(), 0);
  PageDigest partial;
  size_t pages = 0;  // of `path`, before the boundary
  bool is_partial = false;
  for (int32_t end = begin;;) {
    // The end of a conversation in the middle of the next page.
    const uint32_t counts = worker().store().partials(space_, at);
    for (int32_t count = 1; counts != 0 && count < kernels::kPageTokens && end + count <= tokens_max; ++count) {
      if ((counts >> count & 1) == 0) continue;
      const PageDigest page = next(at, tokens.subspan(static_cast<size_t>(end), static_cast<size_t>(count)));
      if (!has_all_of(KvKind::kFull, page) || !has_all_of(KvKind::kLatent, page)) continue;
      if (!can_resume(page, end, end + count, window_from)) continue;
      match.tokens = end + count;
      partial = page;
      is_partial = true;
      pages = path.size();
    }
    if (tokens_max - end < kernels::kPageTokens) break;
    const PageDigest page = next(at, tokens.subspan(static_cast<size_t>(end), kernels::kPageTokens));
    if (!has_all_of(KvKind::kFull, page) || !has_all_of(KvKind::kLatent, page)) break;
    const int32_t page_begin = end;
    end += kernels::kPageTokens;
    at = page;
    path.push_back(page);
    if (can_resume(page, page_begin, end, window_from)) {
      match.tokens = end;
      is_partial = false;
      pages = path.size();
    }
    for (int32_t g = 0; g < groups(); ++g) {
      if (kind(g) == KvKind::kWindow && !has({page, g})) window_from[static_cast<size_t>(g)] = end;
    }
    // Without a group that has a page for every position, nothing says that there is one.
    if (path.size() > kRecordsMax) break;
  }
  match.tokens_with_pages = begin + static_cast<int32_t>(path.size()) * kernels::kPageTokens;
  for (size_t i = 0; i < pages; ++i)
    want(path[i], begin + static_cast<int32_t>(i) * kernels::kPageTokens, match.tokens, match);
  if (is_partial) want(partial, begin + static_cast<int32_t>(pages) * kernels::kPageTokens, match.tokens, match);
  return match;
}

Result<void> DiskTier::keep_tokens(uint64_t tenant, std::string_view name, uint64_t salt,
                                   std::span<const TokenId> tokens) {
  worker_->drain(kNamedPatience);
  return worker_->store().put_named(space_, owner(worker_->store(), tenant), name, salt, std::as_bytes(tokens));
}

Result<std::pair<uint64_t, std::vector<TokenId>>> DiskTier::kept_tokens(uint64_t tenant, std::string_view name) const {
  CAIRN_TRY(const NamedBytes named, worker_->store().get_named(space_, owner(worker_->store(), tenant), name));
  std::vector<TokenId> tokens(named.bytes.size() / sizeof(TokenId));
  std::memcpy(tokens.data(), named.bytes.data(), tokens.size() * sizeof(TokenId));
  return std::pair(named.salt, std::move(tokens));
}

std::shared_ptr<DiskLoad> DiskTier::load(DiskMatch&& match) {
  auto load = std::make_shared<DiskLoad>(space_, std::move(match.pages));
  worker_->add(load);
  return load;
}

}  // namespace cairn::cache::disk
