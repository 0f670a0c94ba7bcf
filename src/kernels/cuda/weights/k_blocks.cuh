/// Quantised types whose block is eight groups of 32 columns (blocks.cuh).
#pragma once

#include "kernels/cuda/weights/blocks.cuh"

namespace cairn::kernels::cuda {

/// Base of formats with eight groups per block.
template <class Block, TensorType kType, Factors kFactors, Minima kMinima>
struct SuperFormat : Format<Block, kType, kFactors, kMinima> {
  static constexpr int kGroups = 8;
};

struct FormatQ2_K : SuperFormat<quant::BlockQ2_K, TensorType::kQ2_K, Factors::kOf16Columns, Minima::kInteger> {
  static constexpr int kCentre = 2;
  static constexpr Section kScales = {0, sizeof(quant::BlockQ2_K::scales), 16};
  static constexpr Section kQs = {offsetof(quant::BlockQ2_K, qs), sizeof(quant::BlockQ2_K::qs), 32};
  static constexpr Section kD = {offsetof(quant::BlockQ2_K, d), 4, 4};  // d and dmin
  static constexpr Section kSections[] = {kScales, kQs, kD};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const Octet q = place.octet<kQs>(place.group / 4 * 32 + 8 * octet);
    const int shift = place.group % 4 * 2;
    return {{(q.words[0] >> shift) & 0x03030303u, (q.words[1] >> shift) & 0x03030303u}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const uint32_t both = place.word<kD>(0);
    const uint32_t pair = place.half_word<kScales>(2 * place.group);
    return {.scale = float_of_half(both & 0xffffu),
            .minimum = float_of_half(both >> 16),
            .factors = {static_cast<int32_t>(pair & 15u), static_cast<int32_t>((pair >> 8) & 15u)},
            .minima = {static_cast<int32_t>((pair >> 4) & 15u), static_cast<int32_t>(pair >> 12)}};
  }
};

struct FormatQ3_K : SuperFormat<quant::BlockQ3_K, TensorType::kQ3_K, Factors::kOf16Columns, Minima::kNone> {
  static constexpr Section kHmask = {0, sizeof(quant::BlockQ3_K::hmask), 32};
  static constexpr Section kQs = {offsetof(quant::BlockQ3_K, qs), sizeof(quant::BlockQ3_K::qs), 32};
  static constexpr Section kScales = {offsetof(quant::BlockQ3_K, scales), sizeof(quant::BlockQ3_K::scales), 12};
  static constexpr Section kD = {offsetof(quant::BlockQ3_K, d), 2, 2};
  static constexpr Section kSections[] = {kHmask, kQs, kScales, kD};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const Octet low = place.octet<kQs>(place.group / 4 * 32 + 8 * octet);
    const Octet high = place.octet<kHmask>(8 * octet);
    const int shift = place.group % 4 * 2;
    Octet codes = {};
    for (int i = 0; i < 2; ++i) {
      const uint32_t two_bits = (low.words[i] >> shift) & 0x03030303u;
      const uint32_t third = (high.words[i] >> place.group) & 0x01010101u;
      codes.words[i] = ((two_bits << 5) | (third << 7)) ^ 0x80808080u;
    }
    return codes;
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const int group = place.group;
    const uint32_t low = place.half_word<kScales>(group % 4 * 2) >> (group / 4 * 4);
    const uint32_t high = place.half_word<kScales>(8 + group % 2 * 2) >> (group / 2 * 2);
    return {.scale = float_of_half(place.half_word<kD>(0)) * (1.0f / 32),
            .factors = {static_cast<int32_t>((low & 15u) | (high & 3u) << 4) - 32,
                        static_cast<int32_t>(((low >> 8) & 15u) | ((high >> 8) & 3u) << 4) - 32}};
  }
};

/// Section of d, dmin and scales of Q4_K and Q5_K.
inline constexpr Section kK4Head = {0, offsetof(quant::BlockQ4_K, qs), 16};

/// Scale and minimum of a group of Q4_K and Q5_K (k4_scale_min in quant/float_formats.h).
CAIRN_HOST_DEVICE_INLINE GroupScales k4_scales(const GroupPlace& place) {
  static_assert(offsetof(quant::BlockQ4_K, scales) == 4 && offsetof(quant::BlockQ5_K, scales) == 4);
  const Sixteen head = place.sixteen<kK4Head>(0);
  const int shift = place.group % 4 * 8;
  const uint32_t a = head.words[1] >> shift, b = head.words[2] >> shift, c = head.words[3] >> shift;
  // For groups from 4 on, four bits are in the last word and two in the first groups' bytes. Computed without branches,
  // so that threads do not diverge.
  const bool first = place.group < 4;
  const uint32_t scale = first ? a & 63u : (c & 15u) | ((a >> 2) & 0x30u);
  const uint32_t minimum = first ? b & 63u : ((c >> 4) & 15u) | ((b >> 2) & 0x30u);
  return {.scale = float_of_half(head.words[0] & 0xffffu) * static_cast<float>(scale),
          .minimum = float_of_half(head.words[0] >> 16) * static_cast<float>(minimum)};
}

struct FormatQ4_K : SuperFormat<quant::BlockQ4_K, TensorType::kQ4_K, Factors::kNone, Minima::kFloat> {
  static constexpr int kCentre = 8;
  static constexpr bool kNibbles = true;
  static constexpr int kNibbleOffset = 0;
  static constexpr Section kQs = {offsetof(quant::BlockQ4_K, qs), sizeof(quant::BlockQ4_K::qs), 4, true};
  static constexpr Section kSections[] = {kK4Head, kQs};
  static CAIRN_HOST_DEVICE_INLINE constexpr NibbleSource nibble_source(int group, int column) {
    return {group / 2 * 32 + column, group % 2 != 0};
  }
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    return codes_of_nibbles(load_word(place.nibbles_at<kQs>(kGroups, octet)), kNibbleOffset);
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) { return k4_scales(place); }
};

struct FormatQ5_K : SuperFormat<quant::BlockQ5_K, TensorType::kQ5_K, Factors::kNone, Minima::kFloat> {
  static constexpr int kCentre = 16;
  static constexpr Section kQh = {offsetof(quant::BlockQ5_K, qh), sizeof(quant::BlockQ5_K::qh), 32};
  static constexpr Section kQs = {offsetof(quant::BlockQ5_K, qs), sizeof(quant::BlockQ5_K::qs), 32};
  static constexpr Section kSections[] = {kK4Head, kQh, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const Octet low = place.octet<kQs>(place.group / 2 * 32 + 8 * octet);
    const Octet high = place.octet<kQh>(8 * octet);
    const int shift = place.group % 2 * 4;
    Octet codes = {};
    for (int i = 0; i < 2; ++i) {
      codes.words[i] = ((low.words[i] >> shift) & 0x0f0f0f0fu) | ((high.words[i] >> place.group) & 0x01010101u) << 4;
    }
    return codes;
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) { return k4_scales(place); }
};

struct FormatQ6_K : SuperFormat<quant::BlockQ6_K, TensorType::kQ6_K, Factors::kOf16Columns, Minima::kNone> {
  static constexpr Section kQl = {0, sizeof(quant::BlockQ6_K::ql), 32};
  static constexpr Section kQh = {offsetof(quant::BlockQ6_K, qh), sizeof(quant::BlockQ6_K::qh), 32};
  static constexpr Section kScales = {offsetof(quant::BlockQ6_K, scales), sizeof(quant::BlockQ6_K::scales), 16};
  static constexpr Section kD = {offsetof(quant::BlockQ6_K, d), 2, 2};
  static constexpr Section kSections[] = {kQl, kQh, kScales, kD};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const int half = place.group / 4, set = place.group % 4;
    const Octet low = place.octet<kQl>(half * 64 + set % 2 * 32 + 8 * octet);
    const Octet high = place.octet<kQh>(half * 32 + 8 * octet);
    Octet codes = {};
    for (int i = 0; i < 2; ++i) {
      const uint32_t four_bits = (low.words[i] >> (set / 2 * 4)) & 0x0f0f0f0fu;
      const uint32_t two_bits = (high.words[i] >> (set * 2)) & 0x03030303u;
      codes.words[i] = ((four_bits << 2) | (two_bits << 6)) ^ 0x80808080u;
    }
    return codes;
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const uint32_t pair = place.half_word<kScales>(2 * place.group);
    return {.scale = float_of_half(place.half_word<kD>(0)) * (1.0f / 4),
            .factors = {static_cast<int8_t>(pair & 255u), static_cast<int8_t>(pair >> 8)}};
  }
};

struct FormatIQ4_XS : SuperFormat<quant::BlockIQ4_XS, TensorType::kIQ4_XS, Factors::kNone, Minima::kNone> {
  static constexpr Section kHead = {0, offsetof(quant::BlockIQ4_XS, qs), 8};
  static constexpr Section kQs = {offsetof(quant::BlockIQ4_XS, qs), sizeof(quant::BlockIQ4_XS::qs), 16};
  static constexpr Section kSections[] = {kHead, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    constexpr ByteTable kTable = byte_table(quant::kIq4Values);
    const Octet q = place.octet<kQs>(place.group * 16 + octet % 2 * 8);
    return {{look_up(kTable, q.words[0], octet >= 2), look_up(kTable, q.words[1], octet >= 2)}};
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    static_assert(offsetof(quant::BlockIQ4_XS, scales_h) == 2 && offsetof(quant::BlockIQ4_XS, scales_l) == 4);
    const Octet head = place.octet<kHead>(0);
    const uint32_t low = (head.words[1] >> (4 * place.group)) & 15u;
    const uint32_t high = (head.words[0] >> (16 + 2 * place.group)) & 3u;
    return {.scale = float_of_half(head.words[0] & 0xffffu) *
                     static_cast<float>(static_cast<int32_t>(low | high << 4) - 32)};
  }
};

}  // namespace cairn::kernels::cuda
