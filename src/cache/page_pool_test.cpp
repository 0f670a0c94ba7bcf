#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "cache/testing/limited_memory.h"

namespace cairn::cache {
namespace {

/// Four groups with a page of 2048 bytes, one of 384, a latent one of 640, and a slot of 128.
KvLayout four_groups() {
  KvLayout layout;
  layout.type = kernels::KvType::kF16;
  layout.groups.push_back({KvKind::kFull, 0, {{2, 5, 3}, {1, 8, 8}}, 0});
  layout.groups.push_back({KvKind::kWindow, 40, {{3, 1, 1}}, 0});
  layout.groups.push_back({KvKind::kLatent, 0, {{1, 10, 0}}, 0});
  layout.groups.push_back({KvKind::kState, 0, {}, 100});
  return layout;
}
enum Group { kFullGroup, kWindowGroup, kLatentGroup, kStateGroup, kGroups };

class PagePoolTest : public testing::Test {
 protected:
  PagePool make(std::array<int32_t, kGroups> pages) {
    auto pool = PagePool::create(memory_, four_groups(), pages);
    EXPECT_TRUE(pool.has_value());
    return std::move(pool).value();
  }
  static std::array<int32_t, kGroups> free_pages(const PagePool& pool) {
    std::array<int32_t, kGroups> free{};
    for (int32_t g = 0; g < kGroups; ++g) free[g] = pool.pages_free(g);
    return free;
  }
  LimitedMemory memory_;
};

TEST(KvLayoutTest, BytesOfLayersPagesAndTokensAreComputed) {
  KvLayout layout = four_groups();
  EXPECT_EQ(layout.layer_bytes(layout.groups[kFullGroup].layers[0]), (5 + 3) * 2 * kernels::kPageTokens * 2);
  EXPECT_EQ(layout.page_bytes(layout.groups[kFullGroup]), (16 + 16) * kernels::kPageTokens * 2);
  EXPECT_EQ(layout.page_bytes(layout.groups[kWindowGroup]), 6 * kernels::kPageTokens * 2);
  EXPECT_EQ(layout.page_bytes(layout.groups[kLatentGroup]), 10 * kernels::kPageTokens * 2);
  EXPECT_EQ(layout.page_bytes(layout.groups[kStateGroup]), 128);
  EXPECT_EQ(layout.token_bytes(), (32 + 6 + 10) * 2);
  layout.type = kernels::KvType::kBF16;
  EXPECT_EQ(layout.token_bytes(), (32 + 6 + 10) * 2);
  layout.type = kernels::KvType::kQ8_0;
  EXPECT_EQ(layout.layer_bytes(layout.groups[kFullGroup].layers[0]),
            2 * 2 * kernels::kPageTokens * kernels::kKvBlockBytes);
  EXPECT_EQ(layout.page_bytes(layout.groups[kStateGroup]), 128) << "states are not quantised";
}

TEST(KvLayoutTest, PagesForTokensAndWindowBeginsAreComputed) {
  EXPECT_EQ(pages_for(0), 0);
  EXPECT_EQ(pages_for(1), 1);
  EXPECT_EQ(pages_for(kernels::kPageTokens), 1);
  EXPECT_EQ(pages_for(kernels::kPageTokens + 1), 2);
  EXPECT_EQ(window_begin(4, 0), 0);
  EXPECT_EQ(window_begin(4, 3), 0);
  EXPECT_EQ(window_begin(4, 4), 1) << "position 4 sees 1, 2, 3 and itself";
  EXPECT_EQ(window_begin(1, 7), 7);
}

TEST_F(PagePoolTest, ExtendTakesEachPageOnceAndOneStateSlot) {
  PagePool pool = make({4, 5, 6, 2});
  PageTable table;
  EXPECT_EQ(pool.missing(table, kFullGroup, 33), 2);
  EXPECT_EQ(pool.missing(table, kStateGroup, 33), 1);
  ASSERT_TRUE(pool.extend(table, 0));
  EXPECT_EQ(free_pages(pool), (std::array{4, 5, 6, 2}));
  ASSERT_TRUE(pool.extend(table, 1));
  EXPECT_EQ(free_pages(pool), (std::array{3, 4, 5, 1}));
  ASSERT_TRUE(pool.extend(table, kernels::kPageTokens));
  EXPECT_EQ(free_pages(pool), (std::array{3, 4, 5, 1})) << "the page still had room";
  ASSERT_TRUE(pool.extend(table, kernels::kPageTokens + 1));
  EXPECT_EQ(free_pages(pool), (std::array{2, 3, 4, 1}));
  ASSERT_EQ(table.groups.size(), size_t{kGroups});
  for (const Group g : {kFullGroup, kWindowGroup, kLatentGroup}) {
    ASSERT_EQ(table.groups[g].size(), 2u);
    EXPECT_NE(table.groups[g][0], table.groups[g][1]);
  }
  EXPECT_EQ(table.groups[kStateGroup].size(), 1u);
  ASSERT_TRUE(pool.extend(table, 1)) << "fewer than there are is no change";
  EXPECT_EQ(table.groups[kFullGroup].size(), 2u);
}

TEST_F(PagePoolTest, AFailedExtendChangesNothing) {
  PagePool pool = make({9, 3, 9, 1});
  PageTable table;
  ASSERT_TRUE(pool.extend(table, kernels::kPageTokens));
  const PageTable before = table;
  EXPECT_FALSE(pool.extend(table, 4 * kernels::kPageTokens));
  EXPECT_EQ(table.groups, before.groups);
  EXPECT_EQ(free_pages(pool), (std::array{8, 2, 8, 0}));
  EXPECT_FALSE(pool.extend(table, INT32_MAX));
  EXPECT_TRUE(pool.extend(table, 3 * kernels::kPageTokens));
  PageTable second;
  pool.release_behind(table, 3 * kernels::kPageTokens);
  EXPECT_EQ(pool.pages_free(kWindowGroup), 1);
  EXPECT_FALSE(pool.extend(second, 1)) << "no slot is left";
  pool.release(table);
  EXPECT_TRUE(pool.extend(second, 1));
}

TEST_F(PagePoolTest, PagesBeforeTheWindowAreFreedOnceNoRowReadsThem) {
  PagePool pool = make({8, 8, 8, 1});
  PageTable table;
  ASSERT_TRUE(pool.extend(table, 6 * kernels::kPageTokens));
  const auto gone = [&] { return std::ranges::count(table.groups[kWindowGroup], kNoPage); };
  // A row at p reads p - 39 .. p; page 0 ends with position 31.
  pool.release_behind(table, 31 + 39);
  EXPECT_EQ(gone(), 0);
  pool.release_behind(table, 31 + 40);
  EXPECT_EQ(gone(), 1);
  EXPECT_EQ(table.groups[kWindowGroup][0], kNoPage);
  pool.release_behind(table, 3 * kernels::kPageTokens + 39);
  EXPECT_EQ(gone(), 3);
  EXPECT_EQ(free_pages(pool), (std::array{2, 8 - 3, 2, 0})) << "other groups keep theirs";
  pool.release_behind(table, 3 * kernels::kPageTokens);
  EXPECT_EQ(gone(), 3) << "an earlier position brings nothing back";
  EXPECT_EQ(pool.missing(table, kWindowGroup, 6 * kernels::kPageTokens), 0) << "what was left behind is not missing";
  pool.release_behind(table, INT32_MAX);
  EXPECT_EQ(gone(), 6);
  pool.release(table);
  EXPECT_EQ(free_pages(pool), (std::array{8, 8, 8, 1}));
}

TEST_F(PagePoolTest, ReleaseBeyondFreesPagesAfterAToken) {
  PagePool pool = make({4, 4, 4, 4});
  const auto all = free_pages(pool);
  PageTable table;
  ASSERT_TRUE(pool.extend(table, 3 * kernels::kPageTokens + 1));
  pool.release_behind(table, 2 * kernels::kPageTokens + 10);  // the window is 40: only the first page is behind it
  pool.release_beyond(table, 3 * kernels::kPageTokens + 1);
  EXPECT_EQ(free_pages(pool), (std::array<int32_t, kGroups>{0, 1, 0, 3}));
  pool.release_beyond(table, 2 * kernels::kPageTokens);
  EXPECT_EQ(free_pages(pool), (std::array<int32_t, kGroups>{2, 3, 2, 3}));
  EXPECT_EQ(table.groups[kFullGroup].size(), 2U);
  ASSERT_TRUE(pool.extend(table, 2 * kernels::kPageTokens + 1));
  EXPECT_EQ(free_pages(pool), (std::array<int32_t, kGroups>{1, 2, 1, 3}));
  pool.release_beyond(table, 0);
  pool.release(table);
  EXPECT_EQ(free_pages(pool), all);
}

TEST_F(PagePoolTest, SharedPagesLiveUntilTheLastReference) {
  PagePool pool = make({2, 2, 2, 2});
  PageTable first;
  ASSERT_TRUE(pool.extend(first, kernels::kPageTokens));
  const PageId page = first.groups[kFullGroup][0];
  PageTable second;
  second.groups = {{page}, {}, {}, {}};
  pool.retain(kFullGroup, page);
  EXPECT_EQ(pool.references(kFullGroup, page), 2);
  pool.release(first);
  EXPECT_TRUE(first.groups[kFullGroup].empty());
  EXPECT_EQ(free_pages(pool), (std::array{1, 2, 2, 2}));
  pool.release(first);
  EXPECT_EQ(pool.references(kFullGroup, page), 1) << "an empty table holds nothing";
  ASSERT_TRUE(pool.extend(second, 2 * kernels::kPageTokens));
  EXPECT_EQ(second.groups[kFullGroup][0], page);
  pool.release(second);
  EXPECT_EQ(free_pages(pool), (std::array{2, 2, 2, 2}));
}

TEST_F(PagePoolTest, IdlePagesAreThoseThatOnlyTheCacheRefersTo) {
  PagePool pool = make({3, 1, 1, 1});
  const PageId a = pool.allocate(kFullGroup);
  const PageId b = pool.allocate(kFullGroup);
  pool.cache_retain(kFullGroup, a);
  EXPECT_EQ(pool.references(kFullGroup, a), 2);
  EXPECT_EQ(pool.pages_idle(kFullGroup), 0);
  pool.release(kFullGroup, a);
  EXPECT_EQ(pool.pages_idle(kFullGroup), 1);
  pool.retain(kFullGroup, a);
  EXPECT_EQ(pool.pages_idle(kFullGroup), 0);
  pool.cache_retain(kFullGroup, b);
  pool.cache_release(kFullGroup, b);
  EXPECT_EQ(pool.references(kFullGroup, b), 1);
  EXPECT_EQ(pool.pages_idle(kFullGroup), 0) << "of one reference, but not the index's";
  pool.release(kFullGroup, a);
  pool.cache_release(kFullGroup, a);
  EXPECT_EQ(pool.pages_idle(kFullGroup), 0);
  EXPECT_EQ(pool.pages_free(kFullGroup), 2);
  ASSERT_NE(pool.allocate(kFullGroup), kNoPage);
  ASSERT_NE(pool.allocate(kFullGroup), kNoPage);
  EXPECT_EQ(pool.allocate(kFullGroup), kNoPage);
}

TEST_F(PagePoolTest, CopiesReadsAndWritesWholePages) {
  PagePool pool = make({2, 2, 2, 3});
  for (int32_t g = 0; g < kGroups; ++g) {
    const int64_t bytes = pool.layout().page_bytes(pool.layout().groups[g]);
    std::vector<std::byte> written(bytes), seen(bytes);
    for (int64_t i = 0; i < bytes; ++i) written[i] = static_cast<std::byte>(i * 7 + g);
    pool.write(g, written.data(), PageId{0});
    pool.copy(g, PageId{0}, PageId{1});
    pool.read(g, PageId{1}, seen.data());
    EXPECT_EQ(seen, written);
  }
  EXPECT_EQ(pool.slot(kStateGroup, PageId{1})[3], static_cast<std::byte>(3 * 7 + kStateGroup));
  EXPECT_EQ(pool.slot(kStateGroup, PageId{2}) - pool.slot(kStateGroup, PageId{1}), 128);
}

TEST_F(PagePoolTest, ViewsOfLayersAndPagesDoNotOverlap) {
  PagePool pool = make({3, 3, 3, 1});
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges;
  const KvLayout& layout = pool.layout();
  for (int32_t g = 0; g < kStateGroup; ++g) {
    for (int32_t l = 0; l < static_cast<int32_t>(layout.groups[g].layers.size()); ++l) {
      const kernels::KvView view = pool.view(g, l);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(view.base + view.layer_offset) % 16, 0u);
      const KvLayer& layer = layout.groups[g].layers[l];
      EXPECT_EQ(view.kv_heads, layer.kv_heads);
      EXPECT_EQ(view.key_dim, layer.key_dim);
      EXPECT_EQ(view.value_dim, layer.value_dim);
      for (int32_t page = 0; page < 3; ++page) {
        std::byte* begin = view.base + page * view.page_stride + view.layer_offset;
        std::byte* end = begin + layout.layer_bytes(layer);
        std::fill(begin, end, std::byte{0x5a});  // lets AddressSanitizer find accesses outside the pool's memory
        ranges.emplace_back(begin, end);
      }
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].second, ranges[i].first);
}

TEST_F(PagePoolTest, RandomOperationsLeakNothing) {
  constexpr uint32_t kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  constexpr std::array<int32_t, kGroups> kPages = {20, 11, 17, 4};
  PagePool pool = make(kPages);
  std::vector<PageTable> tables(6);
  for (int step = 0; step < 3'000; ++step) {
    PageTable& table = tables[random() % tables.size()];
    const int32_t action = random() % 5;
    if (action == 0) {
      pool.release(table);
    } else if (action == 1) {
      const PageTable copy = tables[random() % tables.size()];
      for (int32_t g = 0; g < static_cast<int32_t>(copy.groups.size()); ++g) {
        for (const PageId page : copy.groups[g]) {
          if (page != kNoPage) pool.retain(g, page);
        }
      }
      pool.release(table);
      table = copy;
    } else if (action == 2) {
      pool.release_behind(table, random() % (10 * kernels::kPageTokens));
    } else {
      const auto before = free_pages(pool);
      const PageTable had = table;
      if (!pool.extend(table, random() % (10 * kernels::kPageTokens))) {
        EXPECT_EQ(free_pages(pool), before);
        for (size_t g = 0; g < had.groups.size(); ++g) EXPECT_EQ(table.groups[g], had.groups[g]);
      }
    }
    for (int32_t g = 0; g < kGroups; ++g) {
      std::vector<int32_t> held(kPages[g], 0);
      for (const PageTable& each : tables) {
        if (each.groups.empty()) continue;
        for (const PageId page : each.groups[g]) {
          if (page != kNoPage) ++held[index(page)];
        }
      }
      for (int32_t page = 0; page < kPages[g]; ++page) ASSERT_EQ(pool.references(g, PageId{page}), held[page]);
      ASSERT_EQ(pool.pages_free(g), std::ranges::count(held, 0));
    }
  }
  for (PageTable& table : tables) pool.release(table);
  EXPECT_EQ(free_pages(pool), kPages);
}

TEST_F(PagePoolTest, TooMuchMemoryIsAnErrorWithTheBytes) {
  memory_.bytes_max = 1 << 20;
  const auto pool = PagePool::create(memory_, four_groups(), std::array{1'000'000, 1, 1, 1});
  ASSERT_FALSE(pool.has_value());
  EXPECT_EQ(pool.error().code, Code::kOutOfMemory);
  EXPECT_NE(pool.error().message.find("2048000000 bytes"), std::string::npos) << pool.error().message;
}

/// Counts the bytes and copies that it is asked for.
class CountingMemory : public LimitedMemory {
 public:
  int64_t allocated = 0;
  int copies = 0, reads = 0, writes = 0;

  Result<kernels::Buffer> allocate(int64_t bytes) override {
    allocated += bytes;
    return LimitedMemory::allocate(bytes);
  }
  void copy(const void* from, int64_t bytes, void* to) override {
    ++copies;
    LimitedMemory::copy(from, bytes, to);
  }
  void read(const void* from, int64_t bytes, void* to) override {
    ++reads;
    LimitedMemory::read(from, bytes, to);
  }
  void write(const void* from, int64_t bytes, void* to) override {
    ++writes;
    LimitedMemory::write(from, bytes, to);
  }
};

TEST(PagePoolDevices, EachGroupsPagesAreAllocatedOnItsDevice) {
  KvLayout layout = four_groups();
  layout.groups[kWindowGroup].device = 1;
  CountingMemory devices[2];
  kernels::DeviceMemory* const memories[] = {&devices[0], &devices[1]};
  auto pool = PagePool::create(memories, layout, std::array{3, 2, 1, 1}).value();
  EXPECT_EQ(devices[0].allocated, 3 * 2048 + 640 + 128);
  EXPECT_EQ(devices[1].allocated, 2 * 384);
  std::vector<std::byte> bytes(4096);
  pool.write(kWindowGroup, bytes.data(), PageId{0});
  pool.copy(kWindowGroup, PageId{0}, PageId{1});
  pool.read(kWindowGroup, PageId{1}, bytes.data());
  EXPECT_EQ(devices[0].copies + devices[0].reads + devices[0].writes, 0);
  EXPECT_TRUE(devices[1].copies == 1 && devices[1].reads == 1 && devices[1].writes == 1);
  pool.copy(kFullGroup, PageId{0}, PageId{2});
  EXPECT_EQ(devices[0].copies, 1);
  EXPECT_EQ(devices[1].copies, 1);
}

}  // namespace
}  // namespace cairn::cache
