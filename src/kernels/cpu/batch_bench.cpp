// Products and attention of decode batches through the backend: what a step of several streams is made of. "ns/row" is
// time per row of the batch.
//   kernels_bench --benchmark_filter='DecodeProducts|DecodeAttention'
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "quant/codec.h"

namespace cairn {
namespace {

// Together larger than the L3 cache: a step finds no layer's weights in it.
constexpr int64_t kWeightBytes = int64_t{80} << 20;

// Arguments: rows of the batch, threads.
void decode_products(benchmark::State& state, TensorType type, int64_t rows, int64_t cols) {
  const auto batch = static_cast<int32_t>(state.range(0));
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(1)), .isa = ""}).value();
  const int64_t bytes = rows * row_bytes(type, cols);
  const int64_t copies = std::max<int64_t>(1, kWeightBytes / bytes);
  const Buffer memory = backend->allocate(bytes * copies).value();
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(batch * cols));
  for (float& value : x) value = normal(random);
  std::vector<float> row(static_cast<size_t>(cols));
  for (float& value : row) value = normal(random);
  auto* data = static_cast<std::byte*>(memory.data());
  const auto stride = static_cast<size_t>(row_bytes(type, cols));
  encode_row(type, row, {data, stride});
  for (int64_t r = 1; r < rows * copies; ++r) std::copy_n(data, stride, data + static_cast<size_t>(r) * stride);
  std::vector<Weight> weights;
  for (int64_t copy = 0; copy < copies; ++copy)
    weights.push_back(backend->load({type, rows, cols, 1, data + copy * bytes}).value());
  std::vector<float> out(static_cast<size_t>(batch * rows));
  size_t next = 0;
  for (auto _ : state) {
    const Projection projection{&weights[next++ % weights.size()], nullptr, out.data()};
    backend->matmul({&projection, 1}, x.data(), batch);
  }
  state.counters["ns/row"] =
      benchmark::Counter(batch / 1e9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["weights GB/s"] =
      benchmark::Counter(static_cast<double>(bytes) / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

// Arguments: streams of one row each, their context, KV type, threads. The shape of a 1B Llama.
void DecodeAttention(benchmark::State& state) {
  const auto streams = static_cast<int32_t>(state.range(0)), context = static_cast<int32_t>(state.range(1));
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(3)), .isa = ""}).value();
  constexpr int32_t kHeadDim = 64, kLayers = 16;
  KvView kv{.type = static_cast<KvType>(state.range(2)), .kv_heads = 8, .key_dim = kHeadDim, .value_dim = kHeadDim};
  const int64_t layer = int64_t{2} * kPageTokens * kv.kv_heads * kv_row_bytes(kv.type, kHeadDim);
  kv.page_stride = layer * kLayers;
  const int32_t pages_each = (context + kPageTokens - 1) / kPageTokens;
  const Buffer memory = backend->allocate(kv.page_stride * pages_each * streams).value();
  kv.base = static_cast<std::byte*>(memory.data());
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
    ->ArgsProduct({{1, 16}, {60, 600, 4000}, {0, 1, 2}, {1, 2}})
    ->UseRealTime();

const bool kRegistered = [] {
  struct Shape {
    TensorType type;
    int64_t rows;
    int64_t cols;
  };
  for (const Shape& shape : {Shape{TensorType::kQ4_0, 2048, 2048},
                             {TensorType::kQ4_0, 2048, 8192},
                             {TensorType::kQ4_0, 8192, 2048},
                             {TensorType::kQ4_K, 2048, 2048},
                             {TensorType::kQ4_K, 2048, 8192},
                             {TensorType::kQ4_K, 8192, 2048},
                             {TensorType::kQ6_K, 32064, 2048}}) {
    const std::string name = "DecodeProducts/" + std::string(tensor_type_name(shape.type)) + "/" +
                             std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
    benchmark::RegisterBenchmark(name.c_str(), decode_products, shape.type, shape.rows, shape.cols)
        ->ArgNames({"rows", "threads"})
        ->ArgsProduct({{1, 2, 4, 8, 16, 32}, {1, 2}})
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace cairn
