/// Quantised types whose block is one group of 32 columns, or two (blocks.cuh).
#pragma once

#include "kernels/cuda/weights/blocks.cuh"

namespace cairn::kernels::cuda {

/// Base of formats with one group of nibbles per block: octets 0 and 1 are the low nibbles, 2 and 3 the high ones. A
/// piece of codes is all of the block's.
template <class Block, TensorType kType, Minima kMinima>
struct SmallFormat : Format<Block, kType, Factors::kNone, kMinima> {
  static constexpr int kGroups = 1;
  static constexpr Section kQs = {offsetof(Block, qs), sizeof(Block::qs), sizeof(Block::qs)};

  static CAIRN_HOST_DEVICE_INLINE Octet nibbles(const GroupPlace& place, int octet) {
    const Octet q = place.octet<kQs>(octet % 2 * 8);
    const int shift = octet / 2 * 4;
    return {{(q.words[0] >> shift) & 0x0f0f0f0fu, (q.words[1] >> shift) & 0x0f0f0f0fu}};
  }
  static CAIRN_HOST_DEVICE_INLINE Octet levels(const GroupPlace& place, int octet, const ByteTable& table) {
    const Octet q = place.octet<kQs>(octet % 2 * 8);
    return {{look_up(table, q.words[0], octet >= 2), look_up(table, q.words[1], octet >= 2)}};
  }
};

/// Base of Q4_0 and Q4_1, whose codes are arranged as a section of four-bit codes.
template <class Block, TensorType kType, Minima kMinima, int kOffset>
struct NibbleFormat : Format<Block, kType, Factors::kNone, kMinima> {
  static constexpr int kGroups = 1;
  static constexpr bool kNibbles = true;
  static constexpr int kNibbleOffset = kOffset;
  static constexpr Section kQs = {offsetof(Block, qs), sizeof(Block::qs), 4, true};

  static CAIRN_HOST_DEVICE_INLINE constexpr NibbleSource nibble_source(int, int column) {
    return {column % 16, column >= 16};
  }
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    return codes_of_nibbles(load_word(place.nibbles_at<kQs>(kGroups, octet)), kNibbleOffset);
  }
};

struct FormatQ4_0 : NibbleFormat<quant::BlockQ4_0, TensorType::kQ4_0, Minima::kNone, 8> {
  static constexpr Section kSections[] = {kFirstHalf, kQs};
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) { return {.scale = first_half(place)}; }
};

struct FormatQ4_1 : NibbleFormat<quant::BlockQ4_1, TensorType::kQ4_1, Minima::kFloat, 0> {
  static constexpr int kCentre = 8;
  static constexpr Section kScales = {0, offsetof(quant::BlockQ4_1, qs), 4};
  static constexpr Section kSections[] = {kScales, kQs};
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const uint32_t d_and_m = place.word<kScales>(0);
    return {.scale = float_of_half(d_and_m & 0xffffu), .minimum = -float_of_half(d_and_m >> 16)};
  }
};

struct FormatQ5_0 : SmallFormat<quant::BlockQ5_0, TensorType::kQ5_0, Minima::kNone> {
  static constexpr Section kQh = {offsetof(quant::BlockQ5_0, qh), sizeof(quant::BlockQ5_0::qh), 4};
  static constexpr Section kSections[] = {kFirstHalf, kQh, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const uint32_t fifth = place.word<kQh>(0) >> (8 * octet);
    const Octet q = nibbles(place, octet);
    return {{((q.words[0] << 3) | spread_bits(fifth, 7)) ^ 0x80808080u,
             ((q.words[1] << 3) | spread_bits(fifth >> 4, 7)) ^ 0x80808080u}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    return {.scale = first_half(place) * (1.0f / 8)};
  }
};

struct FormatQ5_1 : SmallFormat<quant::BlockQ5_1, TensorType::kQ5_1, Minima::kFloat> {
  static constexpr int kCentre = 16;
  static constexpr Section kScales = FormatQ4_1::kScales;
  static constexpr Section kQh = {offsetof(quant::BlockQ5_1, qh), sizeof(quant::BlockQ5_1::qh), 4};
  static constexpr Section kSections[] = {kScales, kQh, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const uint32_t fifth = place.word<kQh>(0) >> (8 * octet);
    const Octet q = nibbles(place, octet);
    return {{q.words[0] | spread_bits(fifth, 4), q.words[1] | spread_bits(fifth >> 4, 4)}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) { return FormatQ4_1::scales(place); }
};

struct FormatQ8_0 : SmallFormat<quant::BlockQ8_0, TensorType::kQ8_0, Minima::kNone> {
  static constexpr Section kSections[] = {kFirstHalf, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    return place.octet<kQs>(8 * octet);
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) { return {.scale = first_half(place)}; }
};

struct FormatIQ4_NL : SmallFormat<quant::BlockIQ4_NL, TensorType::kIQ4_NL, Minima::kNone> {
  static constexpr Section kSections[] = {kFirstHalf, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    constexpr ByteTable kTable = byte_table(quant::kIq4Values);
    return levels(place, octet, kTable);
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) { return {.scale = first_half(place)}; }
};

struct FormatMXFP4 : SmallFormat<quant::BlockMXFP4, TensorType::kMXFP4, Minima::kNone> {
  static constexpr Section kE = {0, 1, 1};
  static constexpr Section kSections[] = {kE, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    constexpr ByteTable kTable = byte_table(quant::kFp4Values);
    return levels(place, octet, kTable);
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    return {.scale = float_of_e8m0_half(place.byte<kE>(0))};
  }
};

/// Two groups of two halves, each with eight low nibbles followed by eight high ones.
struct FormatNVFP4 : Format<quant::BlockNVFP4, TensorType::kNVFP4, Factors::kOf16Columns, Minima::kNone> {
  static constexpr int kGroups = 2;
  static constexpr Section kD = {0, sizeof(quant::BlockNVFP4::d), 2};
  static constexpr Section kQs = {offsetof(quant::BlockNVFP4, qs), sizeof(quant::BlockNVFP4::qs), 16};
  static constexpr Section kSections[] = {kD, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    constexpr ByteTable kTable = byte_table(quant::kFp4Values);
    const Octet q = place.octet<kQs>(16 * place.group + octet / 2 * 8);
    return {{look_up(kTable, q.words[0], octet % 2 != 0), look_up(kTable, q.words[1], octet % 2 != 0)}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const uint32_t pair = place.half_word<kD>(2 * place.group);
    return {.scale = 1.0f / 1024, .factors = {units_of_ue4m3(pair & 255u), units_of_ue4m3(pair >> 8)}};
  }
};

}  // namespace cairn::kernels::cuda
