#include "cache/page_pool.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::cache {

Result<PagePool> PagePool::create(std::span<kernels::DeviceMemory* const> devices, const KvLayout& layout,
                                  std::span<const int32_t> pages) {
  CAIRN_CHECK(!layout.groups.empty() && pages.size() == layout.groups.size());
  PagePool pool;
  pool.layout_ = layout;
  for (size_t g = 0; g < pages.size(); ++g) {
    const int32_t device = layout.groups[g].device;
    CAIRN_CHECK(pages[g] > 0 && device >= 0 && device < std::ssize(devices) && devices[device] != nullptr);
    const int64_t page_bytes = layout.page_bytes(layout.groups[g]);
    int64_t bytes = 0;
    if (__builtin_mul_overflow(page_bytes, int64_t{pages[g]}, &bytes)) {
      return fail(Code::kOutOfMemory, "{} KV pages of {} bytes are more than any memory", pages[g], page_bytes);
    }
    auto memory = devices[device]->allocate(bytes);
    if (!memory.has_value()) {
      return fail(Code::kOutOfMemory, "no memory for {} KV pages of {} bytes ({} bytes): {}", pages[g], page_bytes,
                  bytes, memory.error().text());
    }
    pool.devices_.push_back(devices[device]);
    pool.page_bytes_.push_back(page_bytes);
    pool.memory_.push_back(std::move(memory).value());
    pool.references_.emplace_back(pages[g], 0);
    pool.kept_.emplace_back(pages[g], false);
    // Taken from the back, so that pages are used in order of their ids.
    auto& free = pool.free_.emplace_back();
    free.reserve(pages[g]);
    for (int32_t page = pages[g] - 1; page >= 0; --page) free.push_back(PageId{page});
  }
  pool.idle_.assign(pages.size(), 0);
  return pool;
}

int64_t PagePool::list_bytes(std::span<const int32_t> pages) {
  int64_t bytes = 0;
  for (const int64_t of_group : pages) {
    bytes += of_group * static_cast<int64_t>(sizeof(PageId) + sizeof(int32_t)) + of_group / 8;
  }
  return bytes;
}

int32_t PagePool::missing(const PageTable& table, int32_t group, int32_t tokens) const {
  CAIRN_CHECK(tokens >= 0);
  const int32_t have = table.groups.empty() ? 0 : static_cast<int32_t>(table.groups[group].size());
  const bool state = layout_.groups[group].kind == KvKind::kState;
  const int32_t wanted = state ? std::min(tokens, 1) : pages_for(tokens);
  return std::max(0, wanted - have);
}

bool PagePool::extend(PageTable& table, int32_t tokens) {
  table.groups.resize(layout_.groups.size());
  for (int32_t g = 0; g < groups(); ++g) {
    if (missing(table, g, tokens) > pages_free(g)) return false;
  }
  for (int32_t g = 0; g < groups(); ++g) {
    for (int32_t left = missing(table, g, tokens); left > 0; --left) {
      table.groups[g].push_back(kNoPage);  // comes first, as growing the list may fail
      table.groups[g].back() = allocate(g);
    }
  }
  return true;
}

void PagePool::release_behind(PageTable& table, int32_t position) {
  for (int32_t g = 0; g < static_cast<int32_t>(table.groups.size()); ++g) {
    const KvGroup& group = layout_.groups[g];
    if (group.kind != KvKind::kWindow) continue;
    auto& pages = table.groups[g];
    const int32_t have = static_cast<int32_t>(pages.size());
    // Goes down from the window until it meets a page that was freed before: all pages before that are free as well.
    for (int32_t i = std::min(have, window_begin(group.window, position) / kernels::kPageTokens) - 1; i >= 0; --i) {
      if (pages[i] == kNoPage) break;
      release(g, pages[i]);
      pages[i] = kNoPage;
    }
  }
}

void PagePool::release_beyond(PageTable& table, int32_t tokens) {
  for (int32_t g = 0; g < static_cast<int32_t>(table.groups.size()); ++g) {
    if (layout_.groups[g].kind == KvKind::kState) continue;
    auto& pages = table.groups[g];
    for (const auto kept = static_cast<size_t>(pages_for(tokens)); pages.size() > kept; pages.pop_back()) {
      if (pages.back() != kNoPage) release(g, pages.back());
    }
  }
}

void PagePool::release(PageTable& table) {
  for (int32_t g = 0; g < static_cast<int32_t>(table.groups.size()); ++g) {
    for (const PageId page : table.groups[g]) {
      if (page != kNoPage) release(g, page);
    }
    table.groups[g].clear();
  }
}

PageId PagePool::allocate(int32_t group) {
  auto& free = free_.at(group);
  if (free.empty()) return kNoPage;
  const PageId page = free.back();
  free.pop_back();
  references_[group][index(page)] = 1;
  return page;
}

void PagePool::retain(int32_t group, PageId page) {
  int32_t& references = references_.at(group).at(index(page));
  CAIRN_CHECK(references > 0);
  if (++references == 2 && kept_[group][index(page)]) --idle_[group];
}

void PagePool::release(int32_t group, PageId page) {
  int32_t& references = references_.at(group).at(index(page));
  CAIRN_CHECK(references > 0);
  --references;
  if (references == 0) free_[group].push_back(page);
  if (references == 1 && kept_[group][index(page)]) ++idle_[group];
}

void PagePool::cache_retain(int32_t group, PageId page) {
  CAIRN_CHECK(!kept_.at(group).at(index(page)));
  retain(group, page);
  kept_[group][index(page)] = true;
}

void PagePool::cache_release(int32_t group, PageId page) {
  CAIRN_CHECK(kept_.at(group).at(index(page)));
  if (references_[group][index(page)] == 1) --idle_[group];
  kept_[group][index(page)] = false;
  release(group, page);
}

void PagePool::copy(int32_t group, PageId from, PageId to) {
  CAIRN_CHECK(from != to);
  devices_[group]->copy(memory(group, from), page_bytes_[group], memory(group, to));
}

void PagePool::read(int32_t group, PageId page, std::byte* to) const {
  devices_[group]->read(memory(group, page), page_bytes_[group], to);
}

void PagePool::write(int32_t group, const std::byte* from, PageId page) {
  devices_[group]->write(from, page_bytes_[group], memory(group, page));
}

kernels::KvView PagePool::view(int32_t group, int32_t layer) const {
  const KvGroup& kv_group = layout_.groups.at(group);
  kernels::KvView view;
  view.base = static_cast<std::byte*>(memory_[group].data());
  view.page_stride = page_bytes_[group];
  for (int32_t before = 0; before < layer; ++before) view.layer_offset += layout_.layer_bytes(kv_group.layers[before]);
  const KvLayer& kv = kv_group.layers.at(layer);
  view.type = layout_.type_of(kv);
  view.kv_heads = kv.kv_heads;
  view.key_dim = kv.key_dim;
  view.value_dim = kv.value_dim;
  view.tokens_per_row = kv.tokens_per_row;
  return view;
}

std::byte* PagePool::slot(int32_t group, PageId page) const {
  CAIRN_CHECK(layout_.groups.at(group).kind == KvKind::kState);
  return memory(group, page);
}

std::byte* PagePool::memory(int32_t group, PageId page) const {
  CAIRN_CHECK(index(page) >= 0 && index(page) < pages_total(group));
  return static_cast<std::byte*>(memory_[group].data()) + page_bytes_[group] * index(page);
}

}  // namespace cairn::cache
