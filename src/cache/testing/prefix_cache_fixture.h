/// For tests of the prefix cache: sequences that "compute" pages by writing a hash of all tokens up to each row, so
/// that whoever reads a page can tell whether it is the right one.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cache/lab_sequence.h"
#include "cache/prefix_cache.h"
#include "cache/testing/limited_memory.h"

namespace cairn::cache {

class PrefixCacheFixture {
 public:
  PrefixCacheFixture(std::vector<KvGroup> groups, std::vector<int32_t> pages, int32_t host_slots = 0)
      : pool_(make_pool(memory_, std::move(groups), pages)),
        prefix_cache_(PrefixCache::create(pool_, host_slots * slot_bytes()).value()) {}

  PagePool& pool() { return pool_; }
  PrefixCache& cache() { return prefix_cache_; }

  LabSequence sequence(std::vector<TokenId> tokens, uint64_t salt = 0) { return lab_sequence(std::move(tokens), salt); }
  /// Looks up and checks what was found. tokens_max -1: all.
  PrefixHit resume(LabSequence& sequence, int32_t tokens_max = -1) {
    const int32_t all = static_cast<int32_t>(sequence.tokens.size());
    const int32_t before = sequence.cursor.tokens;
    const PrefixHit hit =
        prefix_cache_.resume(sequence.cursor, sequence.tokens, tokens_max < 0 ? all : tokens_max, sequence.table);
    EXPECT_GE(hit.tokens, before);
    EXPECT_EQ(sequence.cursor.tokens, hit.tokens / kernels::kPageTokens * kernels::kPageTokens);
    sequence.computed = hit.tokens;
    if (hit.tokens > before) {
      for (int32_t g = 0; g < pool_.groups(); ++g) {
        const size_t pages = is_state(g) ? 1 : pages_for(hit.tokens);
        EXPECT_EQ(sequence.table.groups[g].size(), pages);
      }
    }
    verify(sequence);
    return hit;
  }
  /// Makes room and takes pages for `rows` more; false if there are too few.
  bool reserve(LabSequence& sequence, int32_t rows) {
    for (int32_t g = 0; g < pool_.groups(); ++g) {
      if (!prefix_cache_.make_room(g, pool_.missing(sequence.table, g, sequence.computed + rows))) return false;
    }
    return pool_.extend(sequence.table, sequence.computed + rows);
  }
  /// Writes the next `rows` rows, which reserve() has made room for. As speculation does, it spoils `spoilt` rows
  /// after.
  void compute(LabSequence& sequence, int32_t rows, int32_t spoilt = 0) {
    const int32_t end = sequence.computed + rows;
    for (int32_t g = 0; g < pool_.groups(); ++g) {
      const auto& pages = sequence.table.groups[g];
      if (is_state(g)) {
        EXPECT_EQ(pool_.references(g, pages.at(0)), 1) << "a state that others see too is written to";
        write_row(pool_.slot(g, pages.at(0)), sequence.hashes[end], g);
        continue;
      }
      for (int32_t p = sequence.computed;
           p < end + spoilt && p / kernels::kPageTokens < static_cast<int32_t>(pages.size()); ++p) {
        EXPECT_EQ(pool_.references(g, pages[p / kernels::kPageTokens]), 1)
            << "a page that others see too is written to";
        write_row(row(g, pages[p / kernels::kPageTokens], p), p < end ? sequence.hashes[p + 1] : 0xdead, g);
      }
    }
    sequence.computed = end;
  }
  void advance(LabSequence& sequence, bool checkpoint = true) {
    prefix_cache_.advance(sequence.cursor, sequence.tokens, sequence.computed, sequence.table, checkpoint);
    EXPECT_LE(sequence.cursor.tokens, sequence.computed);
    pool_.release_behind(sequence.table, sequence.computed);
    verify(sequence);
  }
  void leave(LabSequence& sequence) {
    prefix_cache_.leave(sequence.cursor, sequence.tokens, sequence.computed, sequence.table);
    const PrefixCursor root = PrefixCache::root(sequence.salt);
    EXPECT_EQ(std::tuple(sequence.cursor.node, sequence.cursor.key, sequence.cursor.tokens),
              std::tuple(root.node, root.key, root.tokens));
    for (const auto& pages : sequence.table.groups) EXPECT_TRUE(pages.empty());
  }
  /// Looks up, computes the rest in chunks, advancing after each.
  PrefixHit run(LabSequence& sequence, int32_t chunk = 1 << 20) {
    const PrefixHit hit = resume(sequence);
    while (sequence.computed < static_cast<int32_t>(sequence.tokens.size())) {
      const int32_t rows = std::min(chunk, static_cast<int32_t>(sequence.tokens.size()) - sequence.computed);
      EXPECT_TRUE(reserve(sequence, rows));
      compute(sequence, rows);
      advance(sequence);
    }
    return hit;
  }
  PrefixHit run_and_leave(std::vector<TokenId> tokens, uint64_t salt = 0) {
    LabSequence made = sequence(std::move(tokens), salt);
    const PrefixHit hit = run(made);
    leave(made);
    return hit;
  }
  /// What is cached of the tokens, without a trace but for recency.
  PrefixHit peek(std::vector<TokenId> tokens, uint64_t salt = 0, int32_t tokens_max = -1) {
    LabSequence made = sequence(std::move(tokens), salt);
    const PrefixHit hit = resume(made, tokens_max);
    leave(made);
    return hit;
  }

  /// Every row that the next one of the sequence reads is the right one, but for those of optional windows.
  void verify(const LabSequence& sequence) {
    for (int32_t g = 0; g < pool_.groups() && sequence.computed > 0; ++g) {
      const KvGroup& group = pool_.layout().groups[g];
      const auto& pages = sequence.table.groups.at(g);
      if (group.optional) continue;
      if (is_state(g)) {
        EXPECT_TRUE(is_row(pool_.slot(g, pages.at(0)), sequence.hashes[sequence.computed], g)) << "state, group " << g;
        continue;
      }
      const int32_t begin = group.kind == KvKind::kWindow ? window_begin(group.window, sequence.computed) : 0;
      for (int32_t p = begin; p < sequence.computed; ++p) {
        const PageId page = pages.at(p / kernels::kPageTokens);
        ASSERT_NE(page, kNoPage) << "group " << g << ", position " << p << " of " << sequence.computed;
        ASSERT_TRUE(is_row(row(g, page, p), sequence.hashes[p + 1], g)) << "group " << g << ", position " << p;
      }
      for (size_t i = 1; i < pages.size(); ++i) ASSERT_FALSE(pages[i] == kNoPage && pages[i - 1] != kNoPage);
    }
  }
  /// No page is lost, and the counts are what they say, when `sequences` are all there are.
  void verify_references(const std::vector<LabSequence*>& sequences) {
    for (int32_t g = 0; g < pool_.groups(); ++g) {
      std::vector<int32_t> held(pool_.pages_total(g), 0);
      for (const LabSequence* sequence : sequences) {
        if (sequence->table.groups.empty()) continue;
        for (const PageId page : sequence->table.groups[g]) {
          if (page != kNoPage) ++held[cairn::index(page)];
        }
      }
      int32_t free = 0, idle = 0;
      for (int32_t page = 0; page < pool_.pages_total(g); ++page) {
        const int32_t of_index = pool_.references(g, PageId{page}) - held[page];
        ASSERT_TRUE(of_index == 0 || of_index == 1) << "group " << g << ", page " << page << ": " << of_index;
        free += pool_.references(g, PageId{page}) == 0 ? 1 : 0;
        idle += of_index == 1 && held[page] == 0 ? 1 : 0;
      }
      ASSERT_EQ(pool_.pages_free(g), free);
      ASSERT_EQ(prefix_cache_.pages_evictable(g), idle);
    }
  }
  bool is_state(int32_t group) const { return pool_.layout().groups[group].kind == KvKind::kState; }

  int64_t slot_bytes() const {
    int64_t bytes = 0;
    for (const KvGroup& group : pool_.layout().groups) bytes += pool_.layout().page_bytes(group);
    return bytes;
  }

 private:
  static PagePool make_pool(kernels::DeviceMemory& memory, std::vector<KvGroup> groups,
                            const std::vector<int32_t>& pages) {
    return PagePool::create(memory, {kernels::KvType::kF32, std::move(groups)}, pages).value();
  }
  std::byte* row(int32_t group, PageId page, int32_t position) {
    const kernels::KvView view = pool_.view(group, 0);
    return view.base + view.page_stride * cairn::index(page) + position % kernels::kPageTokens * 16;
  }
  static uint64_t row_of(uint64_t hash, int32_t group) { return hash + static_cast<uint64_t>(group); }
  static void write_row(std::byte* to, uint64_t hash, int32_t group) {
    const uint64_t value = row_of(hash, group);
    std::memcpy(to, &value, sizeof value);
  }
  static bool is_row(const std::byte* at, uint64_t hash, int32_t group) {
    const uint64_t value = row_of(hash, group);
    return std::memcmp(at, &value, sizeof value) == 0;
  }

  LimitedMemory memory_;
  PagePool pool_;
  PrefixCache prefix_cache_;
};

}  // namespace cairn::cache
