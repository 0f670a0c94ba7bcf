/// Quantised types whose weights are a scale times -1, 0 or 1, or times -1, 0, 1 or 2, or a sign (blocks.cuh).
#pragma once

#include "kernels/cuda/weights/k_blocks.cuh"

namespace cairn::kernels::cuda {

/// Subtracts one from each of four bytes of 0 to 3.
CAIRN_HOST_DEVICE_INLINE uint32_t less_one(uint32_t bytes) {
  return ((bytes | 0x80808080u) - 0x01010101u) ^ 0x80808080u;
}

/// Digit n, 0 to 4 from the highest, of four base-3 fractions of a byte each (quant/decode_tern_fp4.cpp), less one.
CAIRN_HOST_DEVICE_INLINE uint32_t digits(uint32_t fractions, int n) {
  const uint32_t power = n == 4 ? 81u : (0x1b090301u >> (8 * n)) & 255u;  // power of 3
  uint32_t both[2] = {fractions & 0x00ff00ffu, (fractions >> 8) & 0x00ff00ffu};
  for (uint32_t& two : both) two = (((two * power) & 0x00ff00ffu) * 3 >> 8) & 0x00030003u;
  return less_one(both[0] | both[1] << 8);
}

struct FormatTQ1_0 : SuperFormat<quant::BlockTQ1_0, TensorType::kTQ1_0, Factors::kNone, Minima::kNone> {
  static constexpr Section kQs = {0, sizeof(quant::BlockTQ1_0::qs), 16};
  static constexpr Section kQh = {offsetof(quant::BlockTQ1_0, qh), sizeof(quant::BlockTQ1_0::qh), 4};
  static constexpr Section kD = {offsetof(quant::BlockTQ1_0, d), 2, 2};
  static constexpr Section kSections[] = {kQs, kQh, kD};
  /// Five digits each of 32 bytes, then of 16 bytes, then four digits each of 4 bytes.
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    if (place.group < 5) return digits_of(place.octet<kQs>(8 * octet), place.group);
    const int number = 4 * (place.group - 5) + octet;  // index of the octet after the first 32 bytes
    if (number < 10) return digits_of(place.octet<kQs>(32 + number % 2 * 8), number / 2);
    const uint32_t last = place.word<kQh>(0);
    const int n = 2 * (number - 10);
    return {{digits(last, n), digits(last, n + 1)}};
  }
  static CAIRN_HOST_DEVICE_INLINE Octet digits_of(const Octet& q, int n) {
    return {{digits(q.words[0], n), digits(q.words[1], n)}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    return {.scale = float_of_half(place.half_word<kD>(0))};
  }
};

struct FormatTQ2_0 : SuperFormat<quant::BlockTQ2_0, TensorType::kTQ2_0, Factors::kNone, Minima::kNone> {
  static constexpr Section kQs = {0, sizeof(quant::BlockTQ2_0::qs), 32};
  static constexpr Section kD = {offsetof(quant::BlockTQ2_0, d), 2, 2};
  static constexpr Section kSections[] = {kQs, kD};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const Octet q = place.octet<kQs>(place.group / 4 * 32 + 8 * octet);
    const int shift = place.group % 4 * 2;
    return {{less_one((q.words[0] >> shift) & 0x03030303u), less_one((q.words[1] >> shift) & 0x03030303u)}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    return {.scale = float_of_half(place.half_word<kD>(0))};
  }
};

struct FormatQ1_0 : Format<quant::BlockQ1_0, TensorType::kQ1_0, Factors::kNone, Minima::kNone> {
  static constexpr int kGroups = 4;
  static constexpr Section kQs = {offsetof(quant::BlockQ1_0, qs), sizeof(quant::BlockQ1_0::qs), 4};
  static constexpr Section kSections[] = {kFirstHalf, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const uint32_t bits = place.byte<kQs>(4 * place.group + octet);
    // A byte of ones is -1; with all bits but the last flipped it is 1.
    return {{~(spread_bits(bits, 0) * 0xfeu), ~(spread_bits(bits >> 4, 0) * 0xfeu)}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) { return {.scale = first_half(place)}; }
};

struct FormatQ2_0 : Format<quant::BlockQ2_0, TensorType::kQ2_0, Factors::kNone, Minima::kNone> {
  static constexpr int kGroups = 2;
  static constexpr Section kQs = {offsetof(quant::BlockQ2_0, qs), sizeof(quant::BlockQ2_0::qs), 8};
  static constexpr Section kSections[] = {kFirstHalf, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    constexpr uint32_t kLevels = 0x020100ffu;  // -1, 0, 1, 2
    const uint32_t q = place.half_word<kQs>(8 * place.group + 2 * octet);
    return {{look_up_pairs(kLevels, q & 255u), look_up_pairs(kLevels, q >> 8)}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) { return {.scale = first_half(place)}; }
};

}  // namespace cairn::kernels::cuda
