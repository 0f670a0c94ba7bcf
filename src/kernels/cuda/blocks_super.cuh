/// The quantised types whose block is eight groups of 32 columns (blocks.cuh).
#pragma once

#include "kernels/cuda/blocks.cuh"

namespace cairn::cuda {

/// Blocks of eight groups.
template <class Block, TensorType kType, Factors kFactors, Minima kMinima>
struct SuperFormat : Format<Block, kType, kFactors, kMinima> {
  static constexpr int kGroups = 8;
};

struct FormatQ2_K : SuperFormat<BlockQ2_K, TensorType::kQ2_K, Factors::kSmall, Minima::kInteger> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const Octet q = bytes(block, static_cast<int>(offsetof(BlockQ2_K, qs)) + group / 4 * 32 + 8 * octet);
    const int shift = group % 4 * 2;
    return {{(q.words[0] >> shift) & 0x03030303u, (q.words[1] >> shift) & 0x03030303u}};
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const uint32_t both = load_word(block + offsetof(BlockQ2_K, d));
    const uint32_t pair = load_half_word(block + offsetof(BlockQ2_K, scales) + 2 * group);
    return {.scale = float_of_half(both & 0xffffu),
            .minimum = float_of_half(both >> 16),
            .factors = {static_cast<int32_t>(pair & 15u), static_cast<int32_t>((pair >> 8) & 15u)},
            .minima = {static_cast<int32_t>((pair >> 4) & 15u), static_cast<int32_t>(pair >> 12)}};
  }
};

struct FormatQ3_K : SuperFormat<BlockQ3_K, TensorType::kQ3_K, Factors::kSmall, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const Octet low = bytes(block, static_cast<int>(offsetof(BlockQ3_K, qs)) + group / 4 * 32 + 8 * octet);
    const Octet high = bytes(block, static_cast<int>(offsetof(BlockQ3_K, hmask)) + 8 * octet);
    const int shift = group % 4 * 2;
    Octet codes = {};
    for (int i = 0; i < 2; ++i) {
      const uint32_t two_bits = (low.words[i] >> shift) & 0x03030303u;
      const uint32_t third = (high.words[i] >> group) & 0x01010101u;
      codes.words[i] = ((two_bits << 5) | (third << 7)) ^ 0x80808080u;
    }
    return codes;
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const uint8_t* packed = block + offsetof(BlockQ3_K, scales);
    const uint32_t low = load_half_word(packed + group % 4 * 2) >> (group / 4 * 4);
    const uint32_t high = load_half_word(packed + 8 + group % 2 * 2) >> (group / 2 * 2);
    return {.scale = float_of_half(load_half_word(block + offsetof(BlockQ3_K, d))) * (1.0f / 32),
            .factors = {static_cast<int32_t>((low & 15u) | (high & 3u) << 4) - 32,
                        static_cast<int32_t>(((low >> 8) & 15u) | ((high >> 8) & 3u) << 4) - 32}};
  }
};

/// Scale and minimum of a group of Q4_K and Q5_K (k4_scale_min in quant/float_formats.h).
CAIRN_HOST_DEVICE GroupScales k4_scales(const uint8_t* block, int group) {
  static_assert(offsetof(BlockQ4_K, scales) == 4 && offsetof(BlockQ5_K, scales) == 4);
  const Octet first = load_octet(block);
  const Octet second = load_octet(block + 8);
  const int shift = group % 4 * 8;
  const uint32_t a = first.words[1] >> shift, b = second.words[0] >> shift, c = second.words[1] >> shift;
  const uint32_t scale = group < 4 ? a & 63u : (c & 15u) | ((a >> 6) & 3u) << 4;
  const uint32_t minimum = group < 4 ? b & 63u : ((c >> 4) & 15u) | ((b >> 6) & 3u) << 4;
  return {.scale = float_of_half(first.words[0] & 0xffffu) * static_cast<float>(scale),
          .minimum = float_of_half(first.words[0] >> 16) * static_cast<float>(minimum)};
}

struct FormatQ4_K : SuperFormat<BlockQ4_K, TensorType::kQ4_K, Factors::kNone, Minima::kFloat> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const Octet q = bytes(block, static_cast<int>(offsetof(BlockQ4_K, qs)) + group / 2 * 32 + 8 * octet);
    const int shift = group % 2 * 4;
    return {{(q.words[0] >> shift) & 0x0f0f0f0fu, (q.words[1] >> shift) & 0x0f0f0f0fu}};
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) { return k4_scales(block, group); }
};

struct FormatQ5_K : SuperFormat<BlockQ5_K, TensorType::kQ5_K, Factors::kNone, Minima::kFloat> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const Octet low = bytes(block, static_cast<int>(offsetof(BlockQ5_K, qs)) + group / 2 * 32 + 8 * octet);
    const Octet high = bytes(block, static_cast<int>(offsetof(BlockQ5_K, qh)) + 8 * octet);
    const int shift = group % 2 * 4;
    Octet codes = {};
    for (int i = 0; i < 2; ++i) {
      codes.words[i] = ((low.words[i] >> shift) & 0x0f0f0f0fu) | ((high.words[i] >> group) & 0x01010101u) << 4;
    }
    return codes;
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) { return k4_scales(block, group); }
};

struct FormatQ6_K : SuperFormat<BlockQ6_K, TensorType::kQ6_K, Factors::kSmall, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const int half = group / 4, set = group % 4;
    const Octet low = bytes(block, static_cast<int>(offsetof(BlockQ6_K, ql)) + half * 64 + set % 2 * 32 + 8 * octet);
    const Octet high = bytes(block, static_cast<int>(offsetof(BlockQ6_K, qh)) + half * 32 + 8 * octet);
    Octet codes = {};
    for (int i = 0; i < 2; ++i) {
      const uint32_t four_bits = (low.words[i] >> (set / 2 * 4)) & 0x0f0f0f0fu;
      const uint32_t two_bits = (high.words[i] >> (set * 2)) & 0x03030303u;
      codes.words[i] = ((four_bits << 2) | (two_bits << 6)) ^ 0x80808080u;
    }
    return codes;
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const uint32_t pair = load_half_word(block + offsetof(BlockQ6_K, scales) + 2 * group);
    return {.scale = float_of_half(load_half_word(block + offsetof(BlockQ6_K, d))) * (1.0f / 4),
            .factors = {static_cast<int8_t>(pair & 255u), static_cast<int8_t>(pair >> 8)}};
  }
};

struct FormatIQ4_XS : SuperFormat<BlockIQ4_XS, TensorType::kIQ4_XS, Factors::kNone, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    constexpr ByteTable kTable = byte_table(kIq4Values);
    const Octet q = bytes(block, static_cast<int>(offsetof(BlockIQ4_XS, qs)) + group * 16 + octet % 2 * 8);
    return {{look_up(kTable, q.words[0], octet >= 2), look_up(kTable, q.words[1], octet >= 2)}};
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    static_assert(offsetof(BlockIQ4_XS, scales_h) == 2 && offsetof(BlockIQ4_XS, scales_l) == 4);
    const Octet head = load_octet(block);
    const uint32_t low = (head.words[1] >> (4 * group)) & 15u;
    const uint32_t high = (head.words[0] >> (16 + 2 * group)) & 3u;
    return {.scale = float_of_half(head.words[0] & 0xffffu) *
                     static_cast<float>(static_cast<int32_t>(low | high << 4) - 32)};
  }
};

}  // namespace cairn::cuda
