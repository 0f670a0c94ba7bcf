/// Random numbers as the bytes of tensors, fast: blocks are generated directly, not quantised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/tensor_type.h"

namespace cairn::synth {

/// SplitMix64: 64 random bits per call, the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
  }
  /// A random number in [0, count); count below 2^32.
  uint32_t below(uint32_t count) { return static_cast<uint32_t>((next() >> 32) * count >> 32); }

 private:
  uint64_t state_;
};

/// Fills tensors of one type with numbers of a given deviation around `mean` (which is 0 except for floats). Immutable;
/// thread-safe.
class WeightMaker {
 public:
  /// `type` must be one that can be decoded.
  WeightMaker(TensorType type, float deviation, float mean = 0);
  /// `out` is whole blocks. The number of random bits used depends on the number of bytes alone.
  void fill(std::span<std::byte> out, Random& random) const;

 private:
  // Indexed by a random byte: a block's scale as binary16, its minimum if the format has one, and the same for one-byte
  // scales.
  struct Scales {
    std::array<uint16_t, 256> d{};
    std::array<uint16_t, 256> offset{};
    std::array<uint8_t, 256> code{};
  };
  static Scales scales_for(TensorType type, float scale, float spread);
  static float deviation_of_one(TensorType type);
  static void finish(TensorType type, const Scales& scales, std::span<std::byte> blocks);
  void fill_floats(std::span<std::byte> out, Random& random) const;

  TensorType type_;
  float deviation_;
  float mean_;
  Scales scales_;
};

/// Fills in `used` different ids of `experts` experts for each token.
void fill_expert_ids(std::span<std::byte> out, int64_t used, int64_t experts, Random& random);

/// Fills whole rows of E4M3 numbers of a given deviation and, behind those of a row, one E8M0 scale for each
/// kScaleBlock of them. `row_bytes` is both.
void fill_fp8_rows(std::span<std::byte> out, int64_t row_bytes, float deviation, Random& random);

}  // namespace cairn::synth
