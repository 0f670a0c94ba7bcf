/// KV memory in pages, shared by reference count, from one budget fixed at start.
///
/// A page id names one page in every group's memory at once, so the lists of a table are equal, and references count
/// tables: one per table and id, whatever the number of groups.
///
/// Thread: the engine's. Nothing allocates after creation but the tables themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cache/kv_layout.h"

namespace cairn {

/// Pages of one sequence, one list per group of the layout: groups[g][i] holds positions [i * kPageTokens, ...). An
/// empty table has no lists or empty ones.
struct PageTable {
  std::vector<std::vector<PageId>> groups;
};

class PagePool {
 public:
  /// `pages` of every group; the memory comes from the backend at once. Errors: kOutOfMemory with the bytes asked for.
  static Result<PagePool> create(Backend& backend, const KvLayout& layout, int32_t pages);

  const KvLayout& layout() const { return layout_; }
  int32_t pages_total() const { return pages_total_; }
  int32_t pages_free() const { return static_cast<int32_t>(free_.size()); }

  /// Extends the table to hold positions [0, tokens), one reference per page. False, and nothing changed, when too few
  /// pages are free.
  bool extend(PageTable& table, int32_t tokens);
  /// Drops the table's references and empties it.
  void release(PageTable& table);
  /// Adds a reference to a page in use, for sharing: whoever calls this puts the id into every group's list of another
  /// table, or keeps it and gives it back with drop().
  void share(PageId page);
  /// Takes one reference away; the page is free when none is left.
  void drop(PageId page);
  int32_t references(PageId page) const { return references_[index(page)]; }

  /// Memory of a layer of a group, for the backend.
  KvView view(int32_t group, int32_t layer) const;

 private:
  KvLayout layout_;
  int32_t pages_total_ = 0;
  std::vector<Buffer> memory_;  // one per group
  std::vector<PageId> free_;
  std::vector<int32_t> references_;  // per page
};

}  // namespace cairn
