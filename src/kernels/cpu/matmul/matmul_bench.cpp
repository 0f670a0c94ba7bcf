// Matrix products per type and instruction set, through the backend.
//   Gemv            one row of activations, weights that come from DRAM: what decoding is made of (compare GB/s of
//                   weights, as they lie in memory, with Roof/read)
//   Gemm1 to 128    so many rows, weights of 2048 x 2048 that stay in the cache as far as they fit (compare GMAC/s with
//                   the Roof that the label names)
//   Gemm512         a prompt: the gate or up matrix of a 1B Llama, 8192 x 2048
//   Few4 to 32      so many rows, weights of 4096 x 2048 from DRAM: a step of several streams
//   Products        shapes of a 1B Llama, weights from DRAM: a step of several streams, a long prompt. "ns/row" is time
//                   per row
// Weights are the backend's, in huge pages; a server's float types are read from the mapped file instead.
//   kernels_bench --benchmark_filter='Gemv/.*/avx2'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/system/machine.h"
#include "kernels/cpu/bench_support.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/memory.h"
#include "quant/codec.h"

namespace cairn::kernels::cpu {
namespace {

struct Shape {
  TensorType type;
  int64_t rows;
  int64_t cols;
  int64_t copies;  // matrices used in turn, so that none is in the cache when it is used

  bool operator==(const Shape&) const = default;
};

// Fills rows with normal numbers, repeating a few rows; with zeros if there is no encoder.
void fill(TensorType type, int64_t rows, int64_t cols, std::byte* to) {
  const auto stride = static_cast<size_t>(row_bytes(type, cols));
  const auto count = static_cast<size_t>(rows);
  if (!quant::can_encode(type)) {
    std::memset(to, 0, count * stride);  // also commits the pages
    return;
  }
  constexpr size_t kDifferent = 16;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<size_t>(cols));
  for (size_t r = 0; r < count; ++r) {
    if (r >= kDifferent) {
      std::memcpy(to + r * stride, to + r % kDifferent * stride, stride);
      continue;
    }
    for (auto& v : row) v = normal(random);
    quant::encode_row(type, row, {}, {to + r * stride, stride});
  }
}

// Weights of the last benchmark are kept: the next one often needs the same, and the library calls each several times.
const std::vector<Weight>& weights_of(const Shape& shape) {
  static Shape last{};
  static Buffer file;
  static std::vector<Weight> weights;
  if (last == shape) return weights;
  weights.clear();
  file = {};
  const int64_t bytes = shape.rows * row_bytes(shape.type, shape.cols);
  file = allocate(bytes * shape.copies).value();
  const auto backend = make_cpu_backend({.threads = usable_cores(), .isa = ""}).value();
  auto* data = static_cast<std::byte*>(file.data());
  fill(shape.type, shape.rows * shape.copies, shape.cols, data);
  for (int64_t copy = 0; copy < shape.copies; ++copy) {
    HostMatrix matrix;
    matrix.type = shape.type;
    matrix.rows = shape.rows;
    matrix.cols = shape.cols;
    matrix.data = data + copy * bytes;
    weights.push_back(backend->load(matrix).value());
  }
  if (weights[0].memory != nullptr) file = {};  // the backend has copies
  last = shape;
  return weights;
}

void run(benchmark::State& state, const std::string& isa, const Shape& shape, int32_t tokens, int threads) {
  const std::vector<Weight>& weights = weights_of(shape);
  const auto backend = make_cpu_backend({.threads = threads, .isa = isa}).value();
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  // Aligned as a model's activations, so that outputs of many tokens are stored non-temporally.
  const auto floats = [](int64_t count) { return allocate(count * static_cast<int64_t>(sizeof(float))).value(); };
  const Buffer input = floats(tokens * shape.cols);
  const Buffer output = floats(tokens * shape.rows);
  auto* x = static_cast<float*>(input.data());
  std::generate_n(x, tokens * shape.cols, [&] { return normal(random); });
  size_t next = 0;
  const auto multiply = [&] {
    const MatmulTarget projection{&weights[next++ % weights.size()], nullptr, static_cast<float*>(output.data())};
    backend->matmul({&projection, 1}, x, tokens);
    benchmark::ClobberMemory();
  };
  multiply();  // commits memory
  for (auto _ : state) multiply();
  const auto per_second = [&](double amount) {
    return benchmark::Counter(amount / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  };
  const auto weight_count = static_cast<double>(shape.rows * shape.cols);
  // The backend's own copy is what int8 products read; it may be larger than the file's rows.
  const bool copied = weights[0].memory != nullptr;
  const auto file_bytes = static_cast<double>(shape.rows * row_bytes(shape.type, shape.cols));
  state.counters["GB/s"] = per_second(copied ? static_cast<double>(weights[0].memory->bytes()) : file_bytes);
  state.counters["GMAC/s"] = per_second(weight_count * tokens);
  state.counters["ns/row"] =
      benchmark::Counter(tokens / 1e9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  const bool rounded = shape.type == TensorType::kBF16 && choose_isa(isa).value().matmul->round_row != nullptr;
  state.SetLabel(copied ? "int8" : rounded ? "bf16" : "float32");
}

void quantize(benchmark::State& state, const MatmulKernels* kernels) {
  constexpr int64_t kCols = 2048;
  std::vector<float> x(kCols, 0.5f);
  alignas(64) static std::byte row[2 * kCols];
  for (auto _ : state) {
    kernels->quantize_row(x.data(), kCols, row);
    benchmark::DoNotOptimize(row);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kCols);
}

// Registers every type that the backend multiplies, with `threads` threads.
void register_types(const std::string& isa) {
  constexpr int64_t kCols = 2048;
  const auto add = [&](const std::string& name, const Shape& shape, int32_t tokens) {
    auto* bench = benchmark::RegisterBenchmark(
        (name + "/" + std::string(tensor_type_name(shape.type)) + "/" + isa).c_str(),
        [=](benchmark::State& state) { run(state, isa, shape, tokens, static_cast<int>(state.range(0))); });
    bench->ArgName("threads")->UseRealTime();
    for (const int64_t threads : bench_threads()) bench->Arg(threads);
  };
  for (const TensorTypeInfo& info : tensor_types()) {
    if (!has_matmul(info.type)) continue;
    add("Gemv", {info.type, cold_bytes() / row_bytes(info.type, kCols) / 16 * 16, kCols, 1}, 1);
    for (const int32_t tokens : {1, 4, 16, 128}) {
      add("Gemm" + std::to_string(tokens), {info.type, kCols, kCols, 1}, tokens);
    }
    add("Gemm512", {info.type, 4 * kCols, kCols, 1}, 512);
    const int64_t bytes = 2 * kCols * row_bytes(info.type, kCols);
    for (const int32_t tokens : {4, 8, 16, 32}) {
      add("Few" + std::to_string(tokens), {info.type, 2 * kCols, kCols, cold_bytes() / bytes + 1}, tokens);
    }
  }
}

void register_products() {
  using enum TensorType;
  for (Shape shape : {Shape{kQ4_0, 2048, 2048, 0},
                      {kQ4_0, 2048, 8192, 0},
                      {kQ4_0, 8192, 2048, 0},
                      {kQ4_K, 2048, 2048, 0},
                      {kQ4_K, 2048, 8192, 0},
                      {kQ4_K, 8192, 2048, 0},
                      {kQ6_K, 32064, 2048, 0}}) {
    shape.copies = cold_bytes() / (shape.rows * row_bytes(shape.type, shape.cols)) + 1;
    const std::string name = "Products/" + std::string(tensor_type_name(shape.type)) + "/" +
                             std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=](benchmark::State& state) {
                                   run(state, "", shape, static_cast<int32_t>(state.range(0)),
                                       static_cast<int>(state.range(1)));
                                 })
        ->ArgNames({"rows", "threads"})
        ->ArgsProduct({{1, 2, 4, 8, 16, 32, 512}, bench_threads()})
        ->UseRealTime();
  }
}

const bool kRegistered = [] {
  set_log_level(LogLevel::kWarning);  // avoids a line for every backend
  for (const Isa& isa : usable_isas()) {
    benchmark::RegisterBenchmark(("Quantize/" + std::string(isa.name)).c_str(), quantize, isa.matmul);
    register_types(std::string(isa.name));
  }
  register_products();
  return true;
}();

}  // namespace
}  // namespace cairn::kernels::cpu
