// The roofline of the machine: bytes read from DRAM and multiply-adds in registers, both per second. Kernels are
// compared with them (bench/kernels/run.mjs).
//   kernels_bench --benchmark_filter=Roof
#include <benchmark/benchmark.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "kernels/cpu/bench_support.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_team.h"

namespace cairn::kernels::cpu {
namespace {

// Work that a thread takes at a time: some 40 us of either kind.
constexpr int64_t kReadChunk = int64_t{1} << 20;
constexpr int64_t kPeakRounds = 20'000;

// Registers of the baseline instruction set: two such loads a cycle are far more than DRAM delivers. Several streams at
// once got a tenth more of it than one on Zen 3.
using Vector = uint64_t __attribute__((vector_size(16), may_alias));
constexpr int kStoresNonTemporally = 4;
constexpr int kLineVectors = 64 / sizeof(Vector);

uint64_t sum_of_chunk(const std::byte* data) {
  Vector sums[kStoresNonTemporally][2] = {};
  constexpr int64_t kStreamVectors = kReadChunk / kStoresNonTemporally / static_cast<int64_t>(sizeof(Vector));
  const auto* from = reinterpret_cast<const Vector*>(data);
  for (int64_t i = 0; i < kStreamVectors; i += kLineVectors) {
    for (int s = 0; s < kStoresNonTemporally; ++s) {
      for (int j = 0; j < kLineVectors; ++j) sums[s][j % 2] += from[s * kStreamVectors + i + j];
    }
  }
  uint64_t sum = 0;
  for (const auto& stream : sums) sum += stream[0][0] + stream[0][1] + stream[1][0] + stream[1][1];
  return sum;
}

void read(benchmark::State& state) {
  static const Buffer memory = [] {
    Buffer made = allocate(cold_bytes() / kReadChunk * kReadChunk).value();
    std::memset(made.data(), 1, made.bytes());  // pages that were never written all map to the same zero page
    return made;
  }();
  ThreadTeam team(static_cast<int>(state.range(0)));
  const auto* data = static_cast<const std::byte*>(memory.data());
  const auto bytes = static_cast<int64_t>(memory.bytes());
  for (auto _ : state) {
    team.run(bytes / kReadChunk, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) benchmark::DoNotOptimize(sum_of_chunk(data + i * kReadChunk));
    });
  }
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(bytes) / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

#if defined(__x86_64__)
// One loop over registers. Its sums are independent, so that throughput counts and not latency. They are written out,
// so that the compiler neither drops nor moves any.
struct Peak {
  const char* isa;
  const char* arithmetic;
  void (*run)(int64_t rounds);
  int64_t macs;  // multiply-adds per round
};

// Adds sums of two products to a sum of 16 bits. In groups of four: one by one, additions compete for the multipliers'
// ports on Zen 3, to a varying degree.
[[gnu::target("avx2")]] void int8_avx2(int64_t rounds) {
  const __m256i weights = _mm256_set1_epi8(11), x = _mm256_set1_epi8(3);
  __m256i sums[2][4] = {}, products[4];
  for (int64_t i = 0; i < rounds; ++i) {
    for (auto& four : sums) {
      for (__m256i& one : products) asm volatile("vpmaddubsw %2, %1, %0" : "=x"(one) : "x"(weights), "x"(x));
      for (int j = 0; j < 4; ++j) asm volatile("vpaddw %1, %0, %0" : "+x"(four[j]) : "x"(products[j]));
    }
  }
}

[[gnu::target("avx2,fma")]] void float_avx2(int64_t rounds) {
  const __m256 weights = _mm256_set1_ps(1e-3f);
  __m256 sums[12] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m256& sum : sums) asm volatile("vfmadd231ps %1, %1, %0" : "+x"(sum) : "x"(weights));
  }
}

[[gnu::target("avx2,avxvnni")]] void int8_avxvnni(int64_t rounds) {
  const __m256i weights = _mm256_set1_epi8(11), x = _mm256_set1_epi8(3);
  __m256i sums[12] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m256i& sum : sums) asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(weights), "x"(x));
  }
}

[[gnu::target("avx512f,avx512vnni")]] void int8_avx512(int64_t rounds) {
  const __m512i weights = _mm512_set1_epi32(0x0b0b0b0b), x = _mm512_set1_epi32(0x03030303);
  __m512i sums[16] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m512i& sum : sums) asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(x));
  }
}

[[gnu::target("avx512f")]] void float_avx512(int64_t rounds) {
  const __m512 weights = _mm512_set1_ps(1e-3f);
  __m512 sums[16] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m512& sum : sums) asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sum) : "v"(weights));
  }
}

[[gnu::target("avx512f,avx512bf16")]] void bf16_avx512(int64_t rounds) {
  const __m512i weights = _mm512_set1_epi32(0x3c003c00);
  __m512 sums[16] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (__m512& sum : sums) asm volatile("vdpbf16ps %1, %1, %0" : "+v"(sum) : "v"(weights));
  }
}

constexpr Peak kPeaks[] = {
    {"avx2", "int8", int8_avx2, 8 * 32},          {"avx2", "float32", float_avx2, 12 * 8},
    {"avxvnni", "int8", int8_avxvnni, 12 * 32},   {"avxvnni", "float32", float_avx2, 12 * 8},
    {"avx512", "int8", int8_avx512, 16 * 64},     {"avx512", "float32", float_avx512, 16 * 16},
    {"avx512bf16", "int8", int8_avx512, 16 * 64}, {"avx512bf16", "float32", float_avx512, 16 * 16},
    {"avx512bf16", "bf16", bf16_avx512, 16 * 32}};

// Reports the fastest run: how well additions and multiplications share the ports varies by a third between runs.
void multiply(benchmark::State& state, const Peak& peak) {
  using std::chrono::steady_clock;
  ThreadTeam team(static_cast<int>(state.range(0)));
  const int64_t chunks = 8 * state.range(0);
  auto least = steady_clock::duration::max();
  for (auto _ : state) {
    const auto begin = steady_clock::now();
    team.run(chunks, 1, [&](int64_t first, int64_t end, int) {
      for (int64_t i = first; i < end; ++i) peak.run(kPeakRounds);
    });
    least = std::min(least, steady_clock::now() - begin);
  }
  const double seconds = std::chrono::duration<double>(least).count();
  state.counters["GMAC/s"] = static_cast<double>(chunks * kPeakRounds * peak.macs) / 1e9 / seconds;
}
#endif

const bool kRegistered = [] {
  const auto add = [](const std::string& name, auto... arguments) {
    auto* bench = benchmark::RegisterBenchmark(("Roof/" + name).c_str(), arguments...)->ArgName("threads");
    for (const int64_t threads : bench_threads()) bench->Arg(threads);
    bench->UseRealTime();
  };
  add("read", read);
#if defined(__x86_64__)
  for (const Isa& isa : usable_isas()) {
    for (const Peak& one : kPeaks) {
      if (isa.name == one.isa) add(std::string(one.arithmetic) + "/" + one.isa, multiply, one);
    }
  }
#endif
  return true;
}();

}  // namespace
}  // namespace cairn::kernels::cpu
