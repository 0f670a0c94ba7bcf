// Attention and norms of the best instruction set of the machine, or of CAIRN_ISA.
//   kernels_bench --benchmark_filter='Attention|RmsNorm'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace cairn::kernels {
namespace {

// Writes random numbers of any type: memory that was never written is a single zero page, which the L1 cache holds.
std::byte* filled(const Buffer& memory) {
  auto* words = static_cast<uint32_t*>(memory.data());
  std::fill_n(words, memory.bytes() / static_cast<int64_t>(sizeof(uint32_t)), 0x3a003a00);
  return static_cast<std::byte*>(memory.data());
}

// Arguments: rows, context (which ends with the rows), query heads per KV head, head dimension, KV type, threads.
void Attention(benchmark::State& state) {
  const auto rows = static_cast<int32_t>(state.range(0)), context = static_cast<int32_t>(state.range(1));
  const auto group = static_cast<int32_t>(state.range(2)), head_dim = static_cast<int32_t>(state.range(3));
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(5)), .isa = ""}).value();
  KvView kv{.type = backend->stored_kv_type(static_cast<KvType>(state.range(4))),
            .kv_heads = 4,
            .key_dim = head_dim,
            .value_dim = head_dim};
  // The memory layout is that of a model: after a head's part of a page follows the next head's, and the head's next
  // page is far away.
  constexpr int kLayers = 16;
  const int64_t layer = int64_t{2} * kPageTokens * kv.kv_heads * kv_row_bytes(kv.type, head_dim);
  kv.page_stride = layer * kLayers;
  std::vector<PageId> pages;
  for (int32_t page = 0; page * kPageTokens < context; ++page) pages.push_back(PageId{page});
  const Buffer memory = backend->allocate(kv.page_stride * static_cast<int64_t>(pages.size())).value();
  kv.base = filled(memory);
  const AttentionParams params{.heads = kv.kv_heads * group, .scale = 0.1f};
  const AttentionSlice slice{0, rows, context - rows, pages};
  std::vector<float> q(static_cast<size_t>(rows * params.heads * head_dim), 0.5f), out(q.size());
  int64_t step = 0;
  for (auto _ : state) {
    kv.layer_offset = step++ % kLayers * layer;
    backend->attention(params, kv, {&slice, 1}, q.data(), out.data());
  }
  const double seen = rows * (context - rows / 2.0);  // (query, position) pairs of a head
  state.counters["GMAC/s"] =
      benchmark::Counter(seen * params.heads * head_dim * 2 / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["KV GB/s"] = benchmark::Counter(static_cast<double>(memory.bytes()) / kLayers / 1e9,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(Attention)
    ->ArgNames({"rows", "context", "group", "dim", "type", "threads"})
    ->ArgsProduct({{1, 256}, {4096}, {1, 4, 8}, {64, 128}, {0, 1, 2, 5}, {1, 2}})
    ->UseRealTime();

// The attention of a step of several streams; the other part of such a step is Products (matmul_bench.cpp). Arguments:
// streams of one row each, their context, KV type, threads. The shape is that of a 1B Llama. "ns/row" is time per row
// of the batch.
void DecodeAttention(benchmark::State& state) {
  const auto streams = static_cast<int32_t>(state.range(0)), context = static_cast<int32_t>(state.range(1));
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(3)), .isa = ""}).value();
  constexpr int32_t kHeadDim = 64, kLayers = 16;
  KvView kv{.type = backend->stored_kv_type(static_cast<KvType>(state.range(2))),
            .kv_heads = 8,
            .key_dim = kHeadDim,
            .value_dim = kHeadDim};
  const int64_t layer = int64_t{2} * kPageTokens * kv.kv_heads * kv_row_bytes(kv.type, kHeadDim);
  kv.page_stride = layer * kLayers;
  const int32_t pages_each = (context + kPageTokens - 1) / kPageTokens;
  const Buffer memory = backend->allocate(kv.page_stride * pages_each * streams).value();
  kv.base = filled(memory);
  std::vector<std::vector<PageId>> pages(static_cast<size_t>(streams));
  std::vector<AttentionSlice> slices;
  for (int32_t s = 0; s < streams; ++s) {
    for (int32_t i = 0; i < pages_each; ++i) pages[s].push_back(PageId{i * streams + s});
    slices.push_back({s, 1, context - 1, pages[s]});
  }
  const AttentionParams params{.heads = 32, .scale = 0.125f};
  std::vector<float> q(static_cast<size_t>(streams) * 32 * kHeadDim, 0.5f), out(q.size());
  int64_t step = 0;
  for (auto _ : state) {
    kv.layer_offset = step++ % kLayers * layer;
    backend->attention(params, kv, slices, q.data(), out.data());
  }
  state.counters["ns/row"] =
      benchmark::Counter(streams / 1e9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["KV GB/s"] = benchmark::Counter(static_cast<double>(layer) * pages_each * streams / 1e9,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(DecodeAttention)
    ->ArgNames({"streams", "context", "type", "threads"})
    ->ArgsProduct({{1, 16}, {60, 600, 4000}, {0, 1, 2, 5}, {1, 2}})
    ->UseRealTime();

void RmsNorm(benchmark::State& state) {
  const auto backend = make_cpu_backend({.threads = 1, .isa = ""}).value();
  const int64_t cols = state.range(0);
  std::vector<float> x(static_cast<size_t>(cols), 0.5f), weight = x, out = x;
  for (auto _ : state) backend->rms_norm(x.data(), weight.data(), 1e-5f, 1, cols, out.data());
  state.counters["elements/s"] =
      benchmark::Counter(static_cast<double>(cols), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(RmsNorm)->Arg(2048)->Arg(4096);

void Gate(benchmark::State& state) {
  const auto backend = make_cpu_backend({.threads = 1, .isa = ""}).value();
  std::vector<float> x(8192, 0.5f), out = x;
  const auto activation = static_cast<Activation>(state.range(0));
  for (auto _ : state) backend->gate(activation, x.data(), x.data(), 1, 8192, out.data());
  state.counters["elements/s"] = benchmark::Counter(8192, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(Gate)->ArgName("activation")->DenseRange(0, 4);

}  // namespace
}  // namespace cairn::kernels
