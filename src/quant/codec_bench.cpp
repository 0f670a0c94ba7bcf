// Elements per second of encode_row and decode_row on one thread.
#include "quant/codec.h"

#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

namespace cairn::quant {
namespace {

constexpr int64_t kElements = 1 << 18;

std::vector<float> weights() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> values(kElements);
  for (float& value : values) value = normal(random);
  return values;
}

void encode(benchmark::State& state, TensorType type) {
  const std::vector<float> in = weights();
  std::vector<std::byte> blocks(row_bytes(type, kElements));
  for (auto _ : state) {
    encode_row(type, in, {}, blocks);
    benchmark::DoNotOptimize(blocks.data());
  }
  state.SetItemsProcessed(state.iterations() * kElements);
}

void decode(benchmark::State& state, TensorType type) {
  const std::vector<std::byte> blocks(row_bytes(type, kElements), std::byte{0x35});
  std::vector<float> out(kElements);
  for (auto _ : state) {
    decode_row(type, blocks, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * kElements);
}

const bool kRegistered = [] {
  for (const auto& info : tensor_types()) {
    const std::string name(info.name);
    if (can_encode(info.type)) benchmark::RegisterBenchmark(("encode/" + name).c_str(), encode, info.type);
    if (can_decode(info.type)) benchmark::RegisterBenchmark(("decode/" + name).c_str(), decode, info.type);
  }
  return true;
}();

}  // namespace
}  // namespace cairn::quant
