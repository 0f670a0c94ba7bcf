#include "sampling/block_loops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace cairn::sampling {
namespace {

// Independent maxima and sums, so that loops over them are vectorised.
constexpr size_t kLanes = 16;

// e^kLeastExponent is below the smallest normal float: exp_above_least gives 0.
constexpr float kLeastExponent = -90.0f;

// e^x for kLeastExponent <= x <= 0 in float, written so that compilers vectorise a loop over it: no calls, and no
// selection between floats, which they would turn into branches. x = n ln2 + r with |r| <= ln2 / 2, then the Taylor
// polynomial of degree 7 (error r^8 / 8! < 6e-9). Results that would be subnormal are 0.
[[gnu::always_inline]] inline float exp_above_least(float x) {
  constexpr float kShift = 12582912.0f;     // 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits
  constexpr float kLn2High = 0.693145752f;  // 16 bits, so that n * kLn2High is exact
  constexpr float kLn2Low = 1.42860677e-6f;  // ln2 - kLn2High
  const float shifted = x * 1.44269504f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float power = 1.0f / 5040.0f;
  power = power * r + 1.0f / 720.0f;
  power = power * r + 1.0f / 120.0f;
  power = power * r + 1.0f / 24.0f;
  power = power * r + 1.0f / 6.0f;
  power = power * r + 0.5f;
  power = power * r + 1.0f;
  power = power * r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kShift) + 127;
  return power * std::bit_cast<float>((exponent > 0 ? exponent : 0) << 23);
}

[[gnu::always_inline]] inline float largest_of(const float* logits, size_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
  }
  for (; i < n; ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  for (size_t lane = 1; lane < kLanes; ++lane) lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
  return lanes[0];
}

// Three loops, as a single one would not be vectorised.
[[gnu::always_inline]] inline double weights_of(const float* logits, size_t n, float largest, float temperature,
                                                float* weights) {
  for (size_t i = 0; i < n; ++i) {
    const float x = (logits[i] - largest) / temperature;
    weights[i] = x > kLeastExponent ? x : kLeastExponent;
  }
  for (size_t i = 0; i < n; ++i) weights[i] = exp_above_least(weights[i]);
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += weights[i + lane];
  }
  for (; i < n; ++i) lanes[0] += weights[i];
  for (size_t step = kLanes / 2; step > 0; step /= 2) {
    for (size_t lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
  }
  return lanes[0];
}

float largest_plain(const float* logits, size_t n) { return largest_of(logits, n); }
double weigh_plain(const float* logits, size_t n, float largest, float temperature, float* weights) {
  return weights_of(logits, n, largest, temperature, weights);
}
constexpr BlockLoops kPlain{"plain", largest_plain, weigh_plain};

#if defined(__x86_64__)
[[gnu::target("avx2")]] float largest_avx2(const float* logits, size_t n) { return largest_of(logits, n); }
[[gnu::target("avx2")]] double weigh_avx2(const float* logits, size_t n, float largest, float temperature,
                                          float* weights) {
  return weights_of(logits, n, largest, temperature, weights);
}

[[gnu::target("avx512f,avx512dq,prefer-vector-width=512")]] float largest_avx512(const float* logits, size_t n) {
  return largest_of(logits, n);
}
[[gnu::target("avx512f,avx512dq,prefer-vector-width=512")]] double weigh_avx512(const float* logits, size_t n,
                                                                                float largest, float temperature,
                                                                                float* weights) {
  return weights_of(logits, n, largest, temperature, weights);
}

constexpr std::array kLoops{BlockLoops{"avx512", largest_avx512, weigh_avx512},
                            BlockLoops{"avx2", largest_avx2, weigh_avx2}, kPlain};

size_t first_usable() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return 0;
  return __builtin_cpu_supports("avx2") ? 1 : 2;
}
#else
constexpr std::array kLoops{kPlain};

size_t first_usable() { return 0; }
#endif

}  // namespace

std::span<const BlockLoops> usable_block_loops() {
  static const std::span<const BlockLoops> usable = std::span(kLoops).subspan(first_usable());
  return usable;
}

}  // namespace cairn::sampling
