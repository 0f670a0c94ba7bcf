/// Counter-based random numbers: the i-th of a seed, without computing the ones before it.
#pragma once

#include <cstdint>

namespace cairn::sampling {

/// A bijection of 64 bits whose every output bit depends on every input bit (the finaliser of SplitMix64, Steele, Lea
/// and Flood 2014).
constexpr uint64_t mix_bits(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
  value = (value ^ value >> 27) * 0x94D049BB133111EBu;
  return value ^ value >> 31;
}

/// Uniform in [0, 1), 53 bits. Numbers of one seed are the SplitMix64 sequence that begins at a state mixed from it.
constexpr double uniform(uint64_t seed, uint64_t i) {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio, odd: states of one seed never repeat
  const uint64_t state = mix_bits(seed + kStep) + (i + 1) * kStep;
  return static_cast<double>(mix_bits(state) >> 11) * 0x1p-53;
}

}  // namespace cairn::sampling
