#include "cache/page_pool.h"

#include "base/check.h"

namespace cairn {

Result<PagePool> PagePool::create(Backend& backend, const KvLayout& layout, int32_t pages) {
  CAIRN_CHECK(pages > 0 && !layout.groups.empty());
  PagePool pool;
  pool.layout_ = layout;
  pool.pages_total_ = pages;
  for (const KvGroup& group : layout.groups) {
    const int64_t page_bytes = layout.page_bytes(group);
    int64_t bytes = 0;
    if (__builtin_mul_overflow(page_bytes, int64_t{pages}, &bytes)) {
      return fail(Code::kOutOfMemory, "{} KV pages of {} bytes are more than any memory", pages, page_bytes);
    }
    auto memory = backend.allocate(bytes);
    if (!memory.has_value()) {
      return fail(Code::kOutOfMemory, "no memory for {} KV pages of {} bytes ({} bytes): {}", pages, page_bytes, bytes,
                  memory.error().text());
    }
    pool.memory_.push_back(std::move(memory).value());
  }
  pool.references_.assign(pages, 0);
  pool.free_.reserve(pages);
  // Taken from the back, so that pages are used in order of their ids.
  for (int32_t page = pages - 1; page >= 0; --page) pool.free_.push_back(PageId{page});
  return pool;
}

bool PagePool::extend(PageTable& table, int32_t tokens) {
  CAIRN_CHECK(tokens >= 0);
  table.groups.resize(layout_.groups.size());
  const int64_t have = static_cast<int64_t>(table.groups[0].size());
  const int64_t missing = (int64_t{tokens} + kPageTokens - 1) / kPageTokens - have;
  if (missing <= 0) return true;
  if (missing > pages_free()) return false;
  for (int64_t i = 0; i < missing; ++i) {
    const PageId page = free_.back();
    free_.pop_back();
    references_[index(page)] = 1;
    for (auto& pages : table.groups) pages.push_back(page);
  }
  return true;
}

void PagePool::release(PageTable& table) {
  if (table.groups.empty()) return;
  for (const PageId page : table.groups[0]) drop(page);
  for (auto& pages : table.groups) {
    CAIRN_CHECK(pages.size() == table.groups[0].size());
  }
  for (auto& pages : table.groups) pages.clear();
}

void PagePool::share(PageId page) {
  CAIRN_CHECK(references_.at(index(page)) > 0);
  ++references_[index(page)];
}

void PagePool::drop(PageId page) {
  CAIRN_CHECK(references_.at(index(page)) > 0);
  if (--references_[index(page)] == 0) free_.push_back(page);
}

KvView PagePool::view(int32_t group, int32_t layer) const {
  const KvGroup& kv_group = layout_.groups.at(group);
  KvView view;
  view.base = static_cast<std::byte*>(memory_[group].data());
  view.page_stride = layout_.page_bytes(kv_group);
  for (int32_t before = 0; before < layer; ++before) view.layer_offset += layout_.layer_bytes(kv_group.layers[before]);
  const KvLayer& kv = kv_group.layers.at(layer);
  view.type = layout_.type;
  view.kv_heads = kv.kv_heads;
  view.key_dim = kv.key_dim;
  view.value_dim = kv.value_dim;
  return view;
}

}  // namespace cairn
