// Matrix products per type and instruction set, one thread. Gemv: bytes of weights per second over a matrix larger than
// the caches (compare with what the machine's DRAM gives). Gemm: multiply-adds per second ("items") of a prompt's
// batch.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/machine.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/panel.h"
#include "quant/codec.h"

namespace cairn::cpu {
namespace {

std::vector<const MatmulKernels*> isas() {
  std::vector<const MatmulKernels*> list = {&kGenericMatmul};
#if defined(__x86_64__)
  if (cpu_features().avx2_fma_f16c) list.push_back(&kAvx2Matmul);
  if (cpu_features().avx512_vnni) list.push_back(&kAvx512Matmul);
#endif
  return list;
}

// Rows of normal numbers, a few of them repeated; zeros where there is no encoder.
std::vector<std::byte> make_weights(TensorType type, int64_t rows, int64_t cols) {
  const auto stride = static_cast<size_t>(row_bytes(type, cols));
  std::vector<std::byte> bytes(static_cast<size_t>(rows) * stride);
  if (!can_encode(type)) return bytes;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<size_t>(cols));
  constexpr size_t kDifferent = 16;
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    const auto to = std::span(bytes).subspan(r * stride, stride);
    if (r >= kDifferent) {
      std::memcpy(to.data(), bytes.data() + r % kDifferent * stride, stride);
      continue;
    }
    for (auto& v : row) v = normal(random);
    encode_row(type, row, to);
  }
  return bytes;
}

void run(benchmark::State& state, const MatmulKernels* kernels, TensorType type, int64_t rows, int64_t cols,
         int32_t tokens) {
  std::vector<std::byte> file = make_weights(type, rows, cols);
  const auto file_bytes = static_cast<int64_t>(file.size());
  const Buffer weights = allocate(file_bytes + kPanelRows * row_bytes(type, cols) + 64).value();
  auto* weight_data = static_cast<std::byte*>(weights.data());
  if (uses_int8(type)) {
    pack_panels(type, file.data(), rows, cols, 0, (rows + kPanelRows - 1) / kPanelRows, weight_data);
  } else {
    std::ranges::copy(file, weight_data);
  }
  const size_t stride = uses_int8(type) ? int8_row_bytes(cols) : static_cast<size_t>(cols) * 4;
  std::vector<std::byte> memory(stride * static_cast<size_t>(tokens) + 64);
  std::byte* base = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(cols));
  std::vector<float> out(static_cast<size_t>(rows * tokens));
  std::vector<const std::byte*> inputs;
  std::vector<float*> outputs;
  for (int32_t t = 0; t < tokens; ++t) {
    std::byte* input = base + static_cast<size_t>(t) * stride;
    for (auto& v : x) v = normal(random);
    if (uses_int8(type)) {
      kernels->quantize_row(x.data(), cols, input);
    } else {
      std::memcpy(input, x.data(), x.size() * sizeof(float));
    }
    inputs.push_back(input);
    outputs.push_back(out.data() + t * rows);
  }
  for (auto _ : state) {
    kernels->matmul_rows(type, weight_data, cols, 0, rows, inputs.data(), tokens, outputs.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * file_bytes);
  state.SetItemsProcessed(state.iterations() * rows * cols * tokens);
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

// Larger than a server's share of L3.
constexpr int64_t kGemvBytes = int64_t{96} << 20;

const bool kRegistered = [] {
  for (const MatmulKernels* isa : isas()) {
    const std::string name = isa->isa;
    benchmark::RegisterBenchmark(("Quantize/" + name).c_str(), quantize, isa);
    for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ6_K, TensorType::kQ8_0,
                                  TensorType::kF16, TensorType::kBF16, TensorType::kF32, TensorType::kQ5_K}) {
      const std::string suffix = std::string(tensor_type_name(type)) + "/" + name;
      const int64_t rows = kGemvBytes / row_bytes(type, 2048);
      benchmark::RegisterBenchmark(("Gemv/" + suffix).c_str(), run, isa, type, rows, 2048, 1);
      for (const int32_t tokens : {1, 4, 16, 128}) {
        benchmark::RegisterBenchmark(("Gemm" + std::to_string(tokens) + "/" + suffix).c_str(), run, isa, type, 2048,
                                     2048, tokens);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace cairn::cpu
