// The GPU's kernels in comparison with its roofline, measured in the same run: copies within its memory (GpuCopy), and
// products of operands in registers (GpuBf16Peak). Shapes are those of an 8B Llama.
//   build/cuda/src/kernels/kernels_bench --benchmark_filter=Gpu
#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/matmul/peak.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/memory.h"
#include "quant/codec.h"

namespace cairn::kernels {
namespace {

// The emulated GPU only shows that the benchmarks run, with small sizes and few of them; its times mean nothing.
#if defined(CAIRN_EMULATED_GPU)
constexpr int64_t kScale = 64;  // divisor of all sizes
constexpr int32_t kCalls = 2;
constexpr std::pair<int64_t, int64_t> kMatrices[] = {{4'096, 4'096}};
constexpr int64_t kInputRows[] = {1, 8, 32};
constexpr int64_t kManyStreams = 3;
constexpr int64_t kManySamples = 3;
#else
constexpr int64_t kScale = 1;
constexpr int32_t kCalls = 64;
constexpr std::pair<int64_t, int64_t> kMatrices[] = {{4'096, 4'096}, {14'336, 4'096}, {4'096, 14'336}};
constexpr int64_t kInputRows[] = {1, 8, 32, 256, 512, 2'048};
constexpr int64_t kManyStreams = 32;
constexpr int64_t kManySamples = 64;
#endif
// More bytes than the second-level cache holds: between two reads of the same bytes as many others are read.
constexpr int64_t kColdBytes = (int64_t{256} << 20) / kScale;
constexpr int32_t kContext = 4096 / static_cast<int32_t>(kScale);
constexpr int64_t kVocabulary = 128'256 / kScale;

// Null if there is no GPU; then the benchmark reports why.
Backend* gpu(benchmark::State& state) {
  static const auto* made = new Result<std::unique_ptr<Backend>>(make_cuda_backend({}));
  if (!*made) {
    state.SkipWithError(made->error().text().c_str());
    return nullptr;
  }
  return (*made)->get();
}

// Normally distributed numbers, which repeat: real data takes other power, and so other time, than zeros or NaN.
std::vector<float> normals(int64_t count) {
  constexpr size_t kDifferent = 65'521;
  static const std::vector<float>* const table = [] {
    auto* made = new std::vector<float>(kDifferent);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& each : *made) each = normal(random);
    return made;
  }();
  std::vector<float> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) all[i] = (*table)[i % kDifferent];
  return all;
}

Buffer written(Backend& backend, const std::vector<float>& values) {
  const int64_t bytes = std::ssize(values) * 4;
  Buffer there = backend.allocate(bytes).value();
  backend.write(values.data(), bytes, there.data());
  return there;
}
Buffer normals_on(Backend& backend, int64_t count) { return written(backend, normals(count)); }

// 16-bit words that are finite as bfloat16 and as float16: the upper halves of numbers, twice.
Buffer halves_on(Backend& backend, int64_t bytes) {
  std::vector<float> values = normals(bytes / 4);
  for (float& each : values) {
    const uint32_t upper = std::bit_cast<uint32_t>(each) >> 16;
    each = std::bit_cast<float>(upper | upper << 16);
  }
  return written(backend, values);
}

// Weights of a matrix in the form of its file. Few rows differ, as encoding takes long.
std::vector<std::byte> encoded_normals(const HostMatrix& matrix) {
  constexpr int64_t kDifferent = 16;
  const auto row_size = static_cast<size_t>(row_bytes(matrix.type, matrix.cols));
  const std::vector<float> values = normals(kDifferent * matrix.cols);
  std::vector<std::byte> all(row_size * static_cast<size_t>(matrix.rows));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    const std::span<std::byte> row = std::span(all).subspan(static_cast<size_t>(r) * row_size, row_size);
    if (r >= kDifferent) {
      std::memcpy(row.data(), row.data() - kDifferent * row_size, row_size);
      continue;
    }
    quant::encode_row(matrix.type, std::span(values).subspan(static_cast<size_t>(r * matrix.cols)).first(matrix.cols),
                      {}, row);
  }
  return all;
}

// All benchmarks have the same counters, as a table of them must: 0 where one means nothing.
void set_counters(benchmark::State& state, double bytes, double operations, double calls) {
  const auto rate = [&](double each) {
    return benchmark::Counter(each * calls, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["GB/s"] = rate(bytes / 1e9);
  state.counters["TFLOP/s"] = rate(operations / 1e12);
  state.counters["us each"] =
      benchmark::Counter(calls / 1e6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// Repeats kCalls calls as one step, so that they become a graph as a decode step does. Bytes and operations are those
// of one call.
template <class Call>
void run(benchmark::State& state, Backend& backend, double bytes, double operations, Call call) {
  for (auto _ : state) {
    backend.begin_step();
    for (int32_t i = 0; i < kCalls; ++i) call(i);
    if (const auto finished = backend.finish(); !finished) {
      state.SkipWithError(finished.error().text().c_str());
      return;
    }
  }
  set_counters(state, bytes, operations, kCalls);
}

void GpuCopy(benchmark::State& state) {
  Backend* const backend = gpu(state);
  if (backend == nullptr) return;
  const Buffer from = normals_on(*backend, kColdBytes / 4), to = backend->allocate(kColdBytes).value();
  run(state, *backend, 2.0 * kColdBytes, 0, [&](int32_t) { backend->copy(from.data(), kColdBytes, to.data()); });
}
BENCHMARK(GpuCopy)->UseRealTime();

void GpuBf16Peak(benchmark::State& state) {
  if (gpu(state) == nullptr) return;
  const auto stream = cuda::open_device(0).value();
  const cuda::PeakWork work{.blocks = static_cast<int32_t>(4'096 / kScale / kScale),
                            .rounds = static_cast<int32_t>(4'096 / kScale / kScale)};
  const Buffer out = cuda::allocate(*stream, int64_t{work.blocks} * cuda::kPeakThreads * 4).value();
  for (auto _ : state) {
    cuda::multiply_registers(stream->launches(), work, static_cast<float*>(out.data()));
    if (!stream->finish()) state.SkipWithError("the kernel failed");
  }
  set_counters(state, 0, static_cast<double>(cuda::peak_operations(work)), 1);
}
BENCHMARK(GpuBf16Peak)->UseRealTime();

// Arguments: type, rows and columns of the matrix, rows of the input.
void GpuProduct(benchmark::State& state) {
  Backend* const backend = gpu(state);
  if (backend == nullptr) return;
  HostMatrix matrix{.type = static_cast<TensorType>(state.range(0)),
                    .rows = state.range(1) / kScale,
                    .cols = std::max<int64_t>(state.range(2) / kScale, 256)};
  const auto tokens = static_cast<int32_t>(state.range(3));
  const int64_t bytes = matrix.rows * row_bytes(matrix.type, matrix.cols);
  const std::vector<std::byte> data = encoded_normals(matrix);
  matrix.data = data.data();
  std::vector<Weight> weights;
  for (int64_t total = 0; total < kColdBytes && std::ssize(weights) < kCalls; total += bytes)
    weights.push_back(backend->load(matrix).value());
  WorkspaceSizes sizes;
  sizes.inputs.push_back({tokens, matrix.cols});
  if (!backend->reserve(sizes)) return state.SkipWithError("no memory");
  const Buffer x = normals_on(*backend, tokens * matrix.cols);
  const Buffer out = backend->allocate(tokens * matrix.rows * 4).value();
  const double operations = 2.0 * tokens * static_cast<double>(matrix.rows * matrix.cols);
  run(state, *backend, static_cast<double>(bytes), operations, [&](int32_t i) {
    const MatmulTarget projection{&weights[static_cast<size_t>(i) % weights.size()], nullptr, out.floats()};
    backend->matmul({&projection, 1}, x.floats(), tokens);
  });
}
void products(benchmark::internal::Benchmark* benchmark) {
  for (const TensorType type :
       {TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ6_K}) {
    for (const auto& [rows, cols] : kMatrices) {
      for (const int64_t tokens : kInputRows) {
        benchmark->Args({static_cast<int64_t>(type), rows, cols, tokens});
      }
    }
  }
}
BENCHMARK(GpuProduct)->ArgNames({"type", "rows", "cols", "tokens"})->Apply(products)->UseRealTime();

// Keys and values of several streams, each with its own pages.
struct Streams {
  Streams(Backend& backend, KvType type, int32_t count, int32_t rows) : kv{.type = type, .kv_heads = 8} {
    kv.key_dim = kv.value_dim = 128;
    const int32_t pages_of_each = (kContext + kPageTokens - 1) / kPageTokens;
    kv.page_stride = int64_t{2} * kPageTokens * kv.kv_heads * kv_row_bytes(type, kv.key_dim);
    memory = halves_on(backend, kv.page_stride * pages_of_each * count);
    kv.base = static_cast<std::byte*>(memory.data());
    for (int32_t i = 0; i < count * pages_of_each; ++i) pages.push_back(PageId{i});
    for (int32_t i = 0; i < count; ++i) {
      slices.push_back({i * rows, rows, kContext - rows,
                        std::span(pages).subspan(static_cast<size_t>(i) * pages_of_each, pages_of_each)});
    }
  }
  KvView kv;
  Buffer memory;
  std::vector<PageId> pages;
  std::vector<AttentionSlice> slices;
};

// Arguments: KV type, streams, rows of each stream, which are the last ones of its context.
void GpuAttention(benchmark::State& state) {
  Backend* const backend = gpu(state);
  if (backend == nullptr) return;
  const auto count = static_cast<int32_t>(state.range(1)), rows = static_cast<int32_t>(state.range(2));
  Streams streams(*backend, static_cast<KvType>(state.range(0)), count, rows);
  const AttentionParams params{.heads = 32, .scale = 0.1f};
  WorkspaceSizes sizes;
  sizes.attention_rows = int64_t{count} * rows;
  sizes.attention_heads = params.heads;
  sizes.head_dim = streams.kv.key_dim;
  sizes.attention_tokens = kContext;
  if (!backend->reserve(sizes)) return state.SkipWithError("no memory");
  const int64_t elements = sizes.attention_rows * params.heads * streams.kv.key_dim;
  const Buffer q = normals_on(*backend, elements), out = backend->allocate(elements * 4).value();
  const double seen = static_cast<double>(sizes.attention_rows) * (kContext - rows / 2.0);
  run(state, *backend, static_cast<double>(streams.memory.bytes()), seen * params.heads * streams.kv.key_dim * 4,
      [&](int32_t) { backend->attention(params, streams.kv, streams.slices, q.floats(), out.floats()); });
}
BENCHMARK(GpuAttention)
    ->ArgNames({"type", "streams", "rows"})
    ->ArgsProduct({{static_cast<int64_t>(KvType::kF16), static_cast<int64_t>(KvType::kQ8_0),
                    static_cast<int64_t>(KvType::kBF16)},
                   {1, kManyStreams},
                   {1}})
    ->Args({static_cast<int64_t>(KvType::kF16), 1, 512 / kScale})
    ->Args({static_cast<int64_t>(KvType::kBF16), 1, 512 / kScale})
    ->UseRealTime();

// Arguments: rows, top_k, whether log-probabilities are wanted.
void GpuSample(benchmark::State& state) {
  Backend* const backend = gpu(state);
  if (backend == nullptr) return;
  const int64_t rows = state.range(0);
  WorkspaceSizes sizes;
  sizes.sample_rows = rows;
  if (!backend->reserve(sizes)) return state.SkipWithError("no memory");
  std::vector<float> logits(static_cast<size_t>(rows * kVocabulary));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  for (float& logit : logits) logit = normal(random);
  const Buffer there = backend->allocate(std::ssize(logits) * 4).value();
  backend->write(logits.data(), std::ssize(logits) * 4, there.data());
  std::vector<SampleRequest> samples(static_cast<size_t>(rows));
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].row = static_cast<int32_t>(i);
    samples[i].random = 0.5;
    samples[i].top_k = static_cast<int32_t>(state.range(1));
    samples[i].top_logprobs = state.range(2) != 0 ? 5 : -1;
  }
  std::vector<SampleResult> sampled(samples.size());
  run(state, *backend, static_cast<double>(logits.size()) * 4, 0,
      [&](int32_t) { backend->sampler()->sample(there.floats(), kVocabulary, samples, {}, sampled); });
}
BENCHMARK(GpuSample)
    ->ArgNames({"rows", "top_k", "logprobs"})
    ->ArgsProduct({{1, kManySamples}, {0, 40}, {0, 1}})
    ->UseRealTime();

}  // namespace
}  // namespace cairn::kernels
