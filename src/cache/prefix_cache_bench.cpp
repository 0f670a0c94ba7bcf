// Benchmark of the prefix cache: lookup, insertion and eviction of prompts, without any model.
//   cache_bench --benchmark_filter=Lookup
#include <benchmark/benchmark.h>

#include <algorithm>

#include "cache/lab_sequence.h"
#include "cache/prefix_cache.h"
#include "cache/testing/limited_memory.h"

namespace cairn::cache {
namespace {

struct Bench {
  explicit Bench(int32_t pages, std::vector<KvGroup> groups)
      : pool(PagePool::create(memory, {kernels::KvType::kF32, groups}, std::vector(groups.size(), pages)).value()),
        index(pool) {}

  /// Inserts a prompt as if it had been computed and its sequence had ended.
  void insert(const std::vector<TokenId>& tokens) {
    PrefixCursor cursor = PrefixCache::root(0);
    PageTable table;
    const auto count = static_cast<int32_t>(tokens.size());
    for (int32_t g = 0; g < pool.groups(); ++g) index.make_room(g, pool.missing(table, g, count));
    pool.extend(table, count);
    index.leave(cursor, tokens, count, table);
  }

  LimitedMemory memory;
  PagePool pool;
  PrefixCache index;
};

std::vector<KvGroup> groups_of(int64_t windows) {
  std::vector<KvGroup> groups = {full_group()};
  if (windows != 0) groups.push_back(window_group(1024));
  return groups;
}

/// Arguments: tokens of the prompt; whether there is a window group.
void lookup(benchmark::State& state) {
  const auto tokens = counting(0, static_cast<int32_t>(state.range(0)));
  Bench bench(2 * pages_for(state.range(0)), groups_of(state.range(1)));
  bench.insert(tokens);
  for (auto _ : state) {
    PrefixCursor cursor = PrefixCache::root(0);
    PageTable table;
    const PrefixHit hit = bench.index.resume(cursor, tokens, static_cast<int32_t>(tokens.size()) - 1, table);
    benchmark::DoNotOptimize(hit.tokens);
    bench.index.leave(cursor, tokens, hit.tokens, table);
  }
}
BENCHMARK(lookup)
    ->Name("LookupAndLeave")
    ->ArgsProduct({{1'000, 10'000, 100'000}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

void insert(benchmark::State& state) {
  const auto tokens = counting(0, static_cast<int32_t>(state.range(0)));
  Bench bench(2 * pages_for(state.range(0)), groups_of(state.range(1)));
  for (auto _ : state) {
    bench.insert(tokens);
    state.PauseTiming();
    bench.index.clear();
    state.ResumeTiming();
  }
}
BENCHMARK(insert)->Name("Insert")->ArgsProduct({{1'000, 100'000}, {0, 1}})->Unit(benchmark::kMicrosecond);

/// Prompts that evict each other from a pool of the given number of pages: time per page evicted and inserted.
void evict(benchmark::State& state) {
  constexpr int32_t kPromptTokens = 64 * kernels::kPageTokens;
  Bench bench(static_cast<int32_t>(state.range(0)), groups_of(state.range(1)));
  int32_t next = 0;
  const auto insert_another = [&] {
    bench.insert(counting(next, kPromptTokens));
    next = (next + kPromptTokens) % (1 << 30);
  };
  while (bench.index.evicted() == 0) insert_another();
  for (auto _ : state) insert_another();
  state.SetItemsProcessed(state.iterations() * pages_for(kPromptTokens));
}
BENCHMARK(evict)->Name("EvictAndInsert")->ArgsProduct({{1'000, 30'000}, {0, 1}})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace cairn::cache
