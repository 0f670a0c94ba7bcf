/// KV memory in pages, shared by reference count, from one budget fixed at start.
///
/// Every group of the layout has pages of its own. A fresh page holds whatever its last user left there: keys and
/// values are written before they are read, and a state starts from nothing at position 0.
///
/// Thread: the engine's. Nothing allocates after creation but the tables themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cache/kv_layout.h"
#include "kernels/device_memory.h"

namespace cairn::cache {

/// Pages of one sequence, one list per group of the layout: groups[g][i] holds positions [i * kPageTokens, ...), or is
/// kNoPage where a window has left it behind. The list of a kState group is its slot alone. An empty table has no lists
/// or empty ones.
struct PageTable {
  std::vector<std::vector<PageId>> groups;
};

class PagePool {
 public:
  /// pages[g] of every group; the memory comes from devices[KvGroup::device] at once, and they outlive the pool.
  /// Errors: kOutOfMemory with the bytes asked for.
  static Result<PagePool> create(std::span<kernels::DeviceMemory* const> devices, const KvLayout& layout,
                                 std::span<const int32_t> pages);
  /// Overload for a single device.
  static Result<PagePool> create(kernels::DeviceMemory& device, const KvLayout& layout,
                                 std::span<const int32_t> pages) {
    kernels::DeviceMemory* const devices[] = {&device};
    return create(devices, layout, pages);
  }
  /// Bytes of bookkeeping, besides the pages themselves.
  static int64_t list_bytes(std::span<const int32_t> pages);

  const KvLayout& layout() const { return layout_; }
  int32_t groups() const { return static_cast<int32_t>(layout_.groups.size()); }
  int32_t pages_total(int32_t group) const { return static_cast<int32_t>(references_[group].size()); }
  int32_t pages_free(int32_t group) const { return static_cast<int32_t>(free_[group].size()); }

  /// Number of pages of the group that the table lacks to hold positions [0, tokens).
  int32_t missing(const PageTable& table, int32_t group, int32_t tokens) const;
  /// Extends the table to hold positions [0, tokens), one reference per page. False, and nothing changed, when a group
  /// has too few free pages.
  bool extend(PageTable& table, int32_t tokens);
  /// Frees the pages that no row at `position` or later reads: those wholly before the windows of kWindow groups. Takes
  /// time in proportion to the number of pages freed.
  void release_behind(PageTable& table, int32_t position);
  /// Frees the pages after those that hold positions [0, tokens). A kState group keeps its slot.
  void release_beyond(PageTable& table, int32_t tokens);
  /// Drops all of the table's references and empties it.
  void release(PageTable& table);

  /// Takes a free page of the group, with one reference; kNoPage if there is none.
  PageId allocate(int32_t group);
  /// Adds a reference to a page in use.
  void retain(int32_t group, PageId page);
  /// Removes one reference; the page is free when none is left.
  void release(int32_t group, PageId page);
  int32_t references(int32_t group, PageId page) const { return references_[group][index(page)]; }

  /// Adds the prefix cache's reference, at most one per page; cache_release() removes it.
  void cache_retain(int32_t group, PageId page);
  void cache_release(int32_t group, PageId page);
  /// Number of pages of the group that only the prefix cache refers to.
  int32_t pages_idle(int32_t group) const { return idle_[group]; }

  /// Copies all bytes of a page to another page of its group.
  void copy(int32_t group, PageId from, PageId to);
  /// Copies a page to host memory of page_bytes() bytes; write() copies it back.
  void read(int32_t group, PageId page, std::byte* to) const;
  void write(int32_t group, const std::byte* from, PageId page);

  /// Memory of a layer of a group, for the backend.
  kernels::KvView view(int32_t group, int32_t layer) const;
  /// Memory of a slot of a kState group.
  std::byte* slot(int32_t group, PageId page) const;

 private:
  std::byte* memory(int32_t group, PageId page) const;

  KvLayout layout_;
  std::vector<kernels::DeviceMemory*> devices_;  // per group, as all below
  std::vector<int64_t> page_bytes_;
  std::vector<kernels::Buffer> memory_;
  std::vector<std::vector<PageId>> free_;
  std::vector<std::vector<int32_t>> references_;  // [group][page]
  std::vector<std::vector<bool>> kept_;           // [group][page]: whether one of the references is the prefix cache's
  std::vector<int32_t> idle_;
};

/// The first position that a row at `position` reads in a kWindow group.
constexpr int32_t window_begin(int32_t window, int32_t position) {
  return position < window ? 0 : position - window + 1;
}

}  // namespace cairn::cache
