/// Byte-pair merging: repeatedly merges the neighbouring pair with the best priority, leftmost first, until none can
/// merge. Shared by byte-pair vocabularies (priority: rank of the merge) and SentencePiece (priority: score of the
/// token it makes).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace cairn::tokenizer {

inline constexpr uint32_t kNoMerge = UINT32_MAX;

/// The result of merging two neighbours. A lower priority is better; kNoMerge: they do not merge.
struct Merge {
  uint32_t priority = kNoMerge;
  uint32_t merged = 0;
};

/// A part of the word. Symbols merged into their left neighbour are no longer in the list of `next`.
struct Symbol {
  uint32_t id = 0;
  uint32_t begin = 0;
  uint32_t length = 0;
  int32_t previous = -1;
  int32_t next = -1;  ///< -1: the last one
  Merge with_next;
};

/// Scratch memory for merging, kept between words so that it is not allocated for each.
struct MergeScratch {
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;  // priority << 32 | index of the left symbol, as a heap
  uint64_t steps = 0;           ///< queue pops and scans so far, for tests of the running time

  void add(uint32_t id, uint32_t begin, uint32_t length) {
    const auto index = static_cast<int32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({id, begin, length, index - 1, -1, {}});
  }
};

/// Below this number of symbols, searching for the best pair each time is faster than a queue.
inline constexpr size_t kScanSymbolsMax = 24;

/// `lookup(left, right)` returns a Merge. Takes O(n log n) time and O(n) calls of `lookup` for n symbols.
template <class Lookup>
void merge_symbols(MergeScratch& scratch, Lookup&& lookup) {
  std::vector<Symbol>& symbols = scratch.symbols;
  if (symbols.size() < 2) return;
  for (size_t i = 0; i + 1 < symbols.size(); ++i) symbols[i].with_next = lookup(symbols[i], symbols[i + 1]);

  const auto absorb_next = [&](Symbol& left) {
    Symbol& right = symbols[left.next];
    left.id = left.with_next.merged;
    left.length += right.length;
    left.next = right.next;
    right.with_next = {};
    const auto self = static_cast<int32_t>(&left - symbols.data());
    left.with_next = {};
    if (left.next >= 0) {
      symbols[left.next].previous = self;
      left.with_next = lookup(left, symbols[left.next]);
    }
    if (left.previous >= 0) symbols[left.previous].with_next = lookup(symbols[left.previous], left);
  };

  if (symbols.size() <= kScanSymbolsMax) {
    while (true) {
      Symbol* best = &symbols[0];
      for (int32_t i = 0; i >= 0; i = symbols[i].next) {
        if (symbols[i].with_next.priority < best->with_next.priority) best = &symbols[i];
        ++scratch.steps;
      }
      if (best->with_next.priority == kNoMerge) return;
      absorb_next(*best);
    }
  }

  // A stale entry, whose pair has changed, is recognised by its priority: an entry of equal priority at the same place
  // means the same merge.
  std::vector<uint64_t>& queue = scratch.queue;
  const auto enqueue = [&](int32_t index) {
    const uint32_t priority = symbols[index].with_next.priority;
    if (priority == kNoMerge) return false;
    queue.push_back(uint64_t{priority} << 32 | static_cast<uint32_t>(index));
    return true;
  };
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) enqueue(static_cast<int32_t>(i));
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t entry = queue.back();
    queue.pop_back();
    ++scratch.steps;
    Symbol& left = symbols[static_cast<uint32_t>(entry)];
    if (left.with_next.priority != entry >> 32) continue;
    absorb_next(left);
    if (left.previous >= 0 && enqueue(left.previous)) std::push_heap(queue.begin(), queue.end(), std::greater<>());
    if (enqueue(static_cast<int32_t>(static_cast<uint32_t>(entry)))) {
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  }
}

}  // namespace cairn::tokenizer
