/// The quantised types whose block is one group of 32 columns, or two (blocks.cuh).
#pragma once

#include "kernels/cuda/blocks.cuh"

namespace cairn::cuda {

/// Blocks of one group, with nibbles: octets 0 and 1 are the low ones, 2 and 3 the high ones.
template <class Block, TensorType kType, Minima kMinima>
struct SmallFormat : Format<Block, kType, Factors::kNone, kMinima> {
  static constexpr int kGroups = 1;

  static CAIRN_HOST_DEVICE Octet packed(const uint8_t* block, int octet) {
    return Format<Block, kType, Factors::kNone, kMinima>::bytes(block,
                                                                static_cast<int>(offsetof(Block, qs)) + octet % 2 * 8);
  }
  static CAIRN_HOST_DEVICE Octet nibbles(const uint8_t* block, int octet) {
    const Octet q = packed(block, octet);
    const int shift = octet / 2 * 4;
    return {{(q.words[0] >> shift) & 0x0f0f0f0fu, (q.words[1] >> shift) & 0x0f0f0f0fu}};
  }
  static CAIRN_HOST_DEVICE Octet levels(const uint8_t* block, int octet, const ByteTable& table) {
    const Octet q = packed(block, octet);
    return {{look_up(table, q.words[0], octet >= 2), look_up(table, q.words[1], octet >= 2)}};
  }
};

struct FormatQ4_0 : SmallFormat<BlockQ4_0, TensorType::kQ4_0, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int, int octet) {
    const Octet q = nibbles(block, octet);
    return {{(q.words[0] << 4) ^ 0x80808080u, (q.words[1] << 4) ^ 0x80808080u}};
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int) {
    return {.scale = float_of_half(load_half_word(block)) * (1.0f / 16)};
  }
};

struct FormatQ4_1 : SmallFormat<BlockQ4_1, TensorType::kQ4_1, Minima::kFloat> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int, int octet) { return nibbles(block, octet); }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int) {
    const uint32_t d_and_m = load_word(block);
    return {.scale = float_of_half(d_and_m & 0xffffu), .minimum = -float_of_half(d_and_m >> 16)};
  }
};

struct FormatQ5_0 : SmallFormat<BlockQ5_0, TensorType::kQ5_0, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int, int octet) {
    const uint32_t fifth = load_unaligned_word(block, offsetof(BlockQ5_0, qh)) >> (8 * octet);
    const Octet q = nibbles(block, octet);
    return {{((q.words[0] << 3) | spread_bits(fifth, 7)) ^ 0x80808080u,
             ((q.words[1] << 3) | spread_bits(fifth >> 4, 7)) ^ 0x80808080u}};
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int) {
    return {.scale = float_of_half(load_half_word(block)) * (1.0f / 8)};
  }
};

struct FormatQ5_1 : SmallFormat<BlockQ5_1, TensorType::kQ5_1, Minima::kFloat> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int, int octet) {
    const uint32_t fifth = load_word(block + offsetof(BlockQ5_1, qh)) >> (8 * octet);
    const Octet q = nibbles(block, octet);
    return {{q.words[0] | spread_bits(fifth, 4), q.words[1] | spread_bits(fifth >> 4, 4)}};
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    return FormatQ4_1::scales(block, group);
  }
};

struct FormatQ8_0 : SmallFormat<BlockQ8_0, TensorType::kQ8_0, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int, int octet) {
    return bytes(block, static_cast<int>(offsetof(BlockQ8_0, qs)) + 8 * octet);
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int) {
    return {.scale = float_of_half(load_half_word(block))};
  }
};

struct FormatIQ4_NL : SmallFormat<BlockIQ4_NL, TensorType::kIQ4_NL, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int, int octet) {
    constexpr ByteTable kTable = byte_table(kIq4Values);
    return levels(block, octet, kTable);
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int) {
    return {.scale = float_of_half(load_half_word(block))};
  }
};

struct FormatMXFP4 : SmallFormat<BlockMXFP4, TensorType::kMXFP4, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int, int octet) {
    constexpr ByteTable kTable = byte_table(kFp4Values);
    return levels(block, octet, kTable);
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int) {
    return {.scale = float_of_e8m0_half(load_byte(block))};
  }
};

/// Two groups, of two halves each with eight low nibbles, then eight high ones.
struct FormatNVFP4 : Format<BlockNVFP4, TensorType::kNVFP4, Factors::kLarge, Minima::kNone> {
  static constexpr int kGroups = 2;
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    constexpr ByteTable kTable = byte_table(kFp4Values);
    const Octet q = bytes(block, static_cast<int>(offsetof(BlockNVFP4, qs)) + 16 * group + octet / 2 * 8);
    return {{look_up(kTable, q.words[0], octet % 2 != 0), look_up(kTable, q.words[1], octet % 2 != 0)}};
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const uint32_t pair = load_half_word(block + 2 * group);
    return {.scale = 1.0f / 1024, .factors = {units_of_ue4m3(pair & 255u), units_of_ue4m3(pair >> 8)}};
  }
};

}  // namespace cairn::cuda
