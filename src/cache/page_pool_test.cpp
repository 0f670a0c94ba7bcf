#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>

namespace cairn {
namespace {

/// Memory only, with a limit; the operations are never called.
class MemoryBackend final : public Backend {
 public:
  int64_t bytes_max = int64_t{1} << 40;

  Result<Buffer> allocate(int64_t bytes) override {
    if (bytes > bytes_max) return fail(Code::kOutOfMemory, "over the limit of the test");
    return Buffer(std::calloc(1, bytes), bytes, [](void* data, size_t) { std::free(data); });
  }
  std::string description() const override { return "memory"; }
  bool supports(TensorType) const override { return false; }
  Result<Weight> load(const HostMatrix&) override { return fail(Code::kUnsupported, "memory only"); }
  Result<void> reserve(int32_t, int32_t, int64_t, int32_t) override { return {}; }
  void embed(const Weight&, std::span<const TokenId>, float, float*) override {}
  void matmul(std::span<const Projection>, const float*, int32_t) override {}
  void matmul_experts(std::span<const Projection>, const float*, int32_t, const int32_t*, int32_t, bool) override {}
  void route(const RouteParams&, const float*, int32_t, int32_t*, float*) override {}
  void combine_experts(const float*, const float*, int32_t, int32_t, int64_t, float*) override {}
  void rms_norm(const float*, const float*, float, int64_t, int64_t, float*) override {}
  void gate(Activation, const float*, const float*, int64_t, float*) override {}
  void add(float*, const float*, int64_t, float) override {}
  void scale_rows(float*, std::span<const float>, int64_t) override {}
  void sigmoid_scale_rows(float*, const float*, int64_t, int64_t) override {}
  void scale_and_cap(float*, int64_t, float, float) override {}
  void gather_rows(const float*, std::span<const int32_t>, int64_t, float*) override {}
  void rope_table(std::span<const int32_t>, std::span<const double>, float, float*) override {}
  void rope(RopeStyle, const float*, int32_t, float*, int64_t, int32_t, int32_t) override {}
  void store_kv(const KvView&, std::span<const AttentionSlice>, const float*, const float*) override {}
  void attention(const AttentionParams&, const KvView&, std::span<const AttentionSlice>, const float*,
                 float*) override {}
  void read(const void*, int64_t, void*) override {}
  void write(const void*, int64_t, void*) override {}
};

KvLayout two_groups() {
  KvLayout layout;
  layout.type = KvType::kF16;
  layout.groups.push_back({KvKind::kFull, 0, {{2, 5, 3}, {1, 8, 8}}});
  layout.groups.push_back({KvKind::kWindow, 16, {{3, 1, 1}}});
  return layout;
}

class PagePoolTest : public testing::Test {
 protected:
  PagePool make(int32_t pages) {
    auto pool = PagePool::create(backend_, two_groups(), pages);
    EXPECT_TRUE(pool.has_value());
    return std::move(pool).value();
  }
  MemoryBackend backend_;
};

TEST(KvLayoutTest, BytesOfLayersPagesAndTokens) {
  const KvLayout layout = two_groups();
  EXPECT_EQ(layout.layer_bytes(layout.groups[0].layers[0]), (5 + 3) * 2 * kPageTokens * 2);
  EXPECT_EQ(layout.page_bytes(layout.groups[0]), (16 + 16) * kPageTokens * 2);
  EXPECT_EQ(layout.page_bytes(layout.groups[1]), 6 * kPageTokens * 2);
  EXPECT_EQ(layout.token_bytes(), (32 + 6) * 2);
}

TEST_F(PagePoolTest, ExtendTakesPagesForPositionsOnce) {
  PagePool pool = make(4);
  PageTable table;
  ASSERT_TRUE(pool.extend(table, 0));
  EXPECT_EQ(pool.pages_free(), 4);
  ASSERT_TRUE(pool.extend(table, 1));
  EXPECT_EQ(pool.pages_free(), 3);
  ASSERT_TRUE(pool.extend(table, kPageTokens));
  EXPECT_EQ(pool.pages_free(), 3) << "the page still had room";
  ASSERT_TRUE(pool.extend(table, kPageTokens + 1));
  ASSERT_EQ(table.groups.size(), 2u);
  EXPECT_EQ(table.groups[0].size(), 2u);
  EXPECT_EQ(table.groups[0], table.groups[1]);
  EXPECT_NE(table.groups[0][0], table.groups[0][1]);
  ASSERT_TRUE(pool.extend(table, 1)) << "fewer than there are is no change";
  EXPECT_EQ(table.groups[0].size(), 2u);
}

TEST_F(PagePoolTest, ExtendFailsWhole) {
  PagePool pool = make(3);
  PageTable table;
  ASSERT_TRUE(pool.extend(table, kPageTokens));
  const PageTable before = table;
  EXPECT_FALSE(pool.extend(table, 4 * kPageTokens));
  EXPECT_EQ(table.groups, before.groups);
  EXPECT_EQ(pool.pages_free(), 2);
  EXPECT_FALSE(pool.extend(table, INT32_MAX));
  EXPECT_TRUE(pool.extend(table, 3 * kPageTokens));
}

TEST_F(PagePoolTest, SharedPagesLiveUntilTheLastReference) {
  PagePool pool = make(2);
  PageTable first;
  ASSERT_TRUE(pool.extend(first, kPageTokens));
  const PageId page = first.groups[0][0];
  PageTable second;
  second.groups = {{page}, {page}};
  pool.share(page);
  EXPECT_EQ(pool.references(page), 2);
  pool.release(first);
  EXPECT_TRUE(first.groups[0].empty());
  EXPECT_EQ(pool.pages_free(), 1);
  pool.release(first);
  EXPECT_EQ(pool.references(page), 1) << "an empty table holds nothing";
  ASSERT_TRUE(pool.extend(second, 2 * kPageTokens));
  EXPECT_EQ(second.groups[1][0], page);
  pool.release(second);
  EXPECT_EQ(pool.pages_free(), 2);
}

TEST_F(PagePoolTest, ViewsOfLayersAndPagesDoNotOverlap) {
  PagePool pool = make(3);
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges;
  const KvLayout& layout = pool.layout();
  for (int32_t g = 0; g < static_cast<int32_t>(layout.groups.size()); ++g) {
    for (int32_t l = 0; l < static_cast<int32_t>(layout.groups[g].layers.size()); ++l) {
      const KvView view = pool.view(g, l);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(view.base + view.layer_offset) % 16, 0u);
      const KvLayer& layer = layout.groups[g].layers[l];
      EXPECT_EQ(view.kv_heads, layer.kv_heads);
      EXPECT_EQ(view.key_dim, layer.key_dim);
      EXPECT_EQ(view.value_dim, layer.value_dim);
      for (int32_t page = 0; page < 3; ++page) {
        std::byte* begin = view.base + page * view.page_stride + view.layer_offset;
        std::byte* end = begin + layout.layer_bytes(layer);
        std::fill(begin, end, std::byte{0x5a});  // a sanitizer sees what is outside the pool's memory
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
  constexpr int32_t kPages = 20;
  PagePool pool = make(kPages);
  std::vector<PageTable> tables(6);
  for (int step = 0; step < 3'000; ++step) {
    PageTable& table = tables[random() % tables.size()];
    const int32_t action = random() % 4;
    if (action == 0) {
      pool.release(table);
    } else if (action == 1 && (table.groups.empty() || table.groups[0].empty())) {
      const PageTable& source = tables[random() % tables.size()];
      if (!source.groups.empty()) {
        const PageTable copy = source;
        for (const PageId page : copy.groups[0]) pool.share(page);
        table = copy;
      }
    } else {
      const int32_t before = pool.pages_free();
      const size_t had = table.groups.empty() ? 0 : table.groups[0].size();
      const bool done = pool.extend(table, random() % (10 * kPageTokens));
      if (!done) {
        EXPECT_EQ(pool.pages_free(), before);
        EXPECT_EQ(table.groups[0].size(), had);
      }
    }
    std::vector<int32_t> held(kPages, 0);
    for (const PageTable& each : tables) {
      if (each.groups.empty()) continue;
      for (const PageId page : each.groups[0]) ++held[index(page)];
    }
    int32_t free = 0;
    for (int32_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(pool.references(PageId{page}), held[page]);
      free += held[page] == 0 ? 1 : 0;
    }
    ASSERT_EQ(pool.pages_free(), free);
  }
  for (PageTable& table : tables) pool.release(table);
  EXPECT_EQ(pool.pages_free(), kPages);
}

TEST_F(PagePoolTest, TooMuchMemoryIsAnErrorWithTheBytes) {
  backend_.bytes_max = 1 << 20;
  const auto pool = PagePool::create(backend_, two_groups(), 1'000'000);
  ASSERT_FALSE(pool.has_value());
  EXPECT_EQ(pool.error().code, Code::kOutOfMemory);
  EXPECT_NE(pool.error().message.find("2048000000 bytes"), std::string::npos) << pool.error().message;
}

}  // namespace
}  // namespace cairn
