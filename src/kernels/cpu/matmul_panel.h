/// Weights of the int8 products on their way from file blocks to vectors: V::kRows rows side by side, transposed to
/// [column / 4][row][4 columns], written once over an ISA's Int8Vector (see matmul_int8_body.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/blocks.h"

namespace cairn::cpu {
namespace {

using RowPointers = const std::byte* const*;

/// Weights are what the types' block_sums expect: unsigned but for Q8_0.
enum class Int8Type { kQ8_0, kQ4_0, kQ4_K, kQ6_K };

/// Bytes of a weight block, and how many blocks of 32 columns it is.
constexpr int64_t weight_block_bytes(Int8Type type) {
  return type == Int8Type::kQ8_0   ? sizeof(BlockQ8_0)
         : type == Int8Type::kQ4_0 ? sizeof(BlockQ4_0)
         : type == Int8Type::kQ4_K ? sizeof(BlockQ4_K)
                                   : sizeof(BlockQ6_K);
}
constexpr int32_t weight_block_step(Int8Type type) {
  return type == Int8Type::kQ8_0 || type == Int8Type::kQ4_0 ? 1 : 8;
}

/// A block of kRows rows, transposed. What a type does not need stays unset.
template <class V>
struct alignas(64) PanelBlock {
  uint8_t values[8][V::kRows][4];
  float scales[V::kRows];
  float minima[V::kRows];        // Q4_K: what to subtract per column
  int32_t factors[2][V::kRows];  // Q6_K: scales of 16 columns, as V::factor makes them
};

template <class V>
struct PanelDecoder {
  using I = typename V::I;
  using F = typename V::F;
  using Quad = typename V::Quad;
  using Block = PanelBlock<V>;
  static constexpr int kRows = V::kRows;

  static void decode_q8_0(RowPointers rows, int64_t at, Block* out) {
    V::store(out->scales, V::load_halves(rows, at));
    for (int half = 0; half < 2; ++half) {
      const Quad quad = V::transpose16(rows, at + 2 + 16 * half);
      for (int k = 0; k < 4; ++k) V::store(out->values[4 * half + k], V::q8_0_values(quad.v[k]));
    }
  }

  static void decode_q4_0(RowPointers rows, int64_t at, Block* out) {
    V::store(out->scales, V::load_halves(rows, at));
    const Quad quad = V::transpose16(rows, at + 2);
    for (int k = 0; k < 4; ++k) {
      V::store(out->values[k], low_nibbles(quad.v[k]));
      V::store(out->values[4 + k], high_nibbles(quad.v[k]));
    }
  }

  /// One super-block's scales and minima.
  static void decode_q4_k_scales(RowPointers rows, int64_t at, Block* out) {
    // The header is 16 bytes: d and dmin, then three times four bytes of packed scales (see k4_scale_min).
    const Quad head = V::transpose16(rows, at);
    const F d = V::low_halves(head.v[0]);
    const F dmin = V::low_halves(V::template shift_dwords_right<16>(head.v[0]));
    const I scales[2] = {V::masked(head.v[1], 63),
                         V::either(low_nibbles(head.v[3]), V::masked(V::template shift_right<2>(head.v[1]), 48))};
    const I minima[2] = {V::masked(head.v[2], 63),
                         V::either(high_nibbles(head.v[3]), V::masked(V::template shift_right<2>(head.v[2]), 48))};
    store_bytes<0, &Block::scales>(d, scales, out);
    store_bytes<0, &Block::minima>(dmin, minima, out);
  }

  /// kMember of out[group] = d times byte group % 4 of the dwords of packed[group / 4].
  template <int kGroup, float (Block::*kMember)[kRows]>
  static void store_bytes(F d, const I* packed, Block* out) {
    if constexpr (kGroup < 8) {
      const I byte = V::low_bytes(V::template shift_dwords_right<8 * (kGroup % 4)>(packed[kGroup / 4]));
      V::store(out[kGroup].*kMember, V::multiply(d, V::to_float(byte)));
      store_bytes<kGroup + 1, kMember>(d, packed, out);
    }
  }

  static void decode_q4_k(RowPointers rows, int64_t at, Block* out) {
    decode_q4_k_scales(rows, at, out);
    for (int pair = 0; pair < 4; ++pair) {
      for (int half = 0; half < 2; ++half) {
        const Quad quad = V::transpose16(rows, at + 16 + 32 * pair + 16 * half);
        for (int k = 0; k < 4; ++k) {
          V::store(out[2 * pair].values[4 * half + k], low_nibbles(quad.v[k]));
          V::store(out[2 * pair + 1].values[4 * half + k], high_nibbles(quad.v[k]));
        }
      }
    }
  }

  /// Of the 4 blocks of 128 columns, 16 columns each.
  static void decode_q6_k_part(RowPointers rows, int64_t ql, int64_t qh, int half, Block* out) {
    const Quad low = V::transpose16(rows, ql + 16 * half);
    const Quad low2 = V::transpose16(rows, ql + 32 + 16 * half);
    const Quad high = V::transpose16(rows, qh + 16 * half);
    for (int k = 0; k < 4; ++k) {
      const I h = high.v[k];
      const int at = 4 * half + k;
      V::store(out[0].values[at], V::either(low_nibbles(low.v[k]), V::masked(V::template shift_left<4>(h), 48)));
      V::store(out[1].values[at], V::either(low_nibbles(low2.v[k]), V::masked(V::template shift_left<2>(h), 48)));
      V::store(out[2].values[at], V::either(high_nibbles(low.v[k]), V::masked(h, 48)));
      V::store(out[3].values[at], V::either(high_nibbles(low2.v[k]), V::masked(V::template shift_right<2>(h), 48)));
    }
  }

  static void decode_q6_k(RowPointers rows, int64_t at, Block* out) {
    const F d = V::load_halves(rows, at + 208);
    for (int i = 0; i < 8; ++i) V::store(out[i].scales, d);
    const Quad scales = V::transpose16(rows, at + 192);
    for (int i = 0; i < 16; ++i) V::store(out[i / 2].factors[i % 2], V::factor(scales.v[i / 4], i % 4));
    for (int part = 0; part < 2; ++part) {
      for (int half = 0; half < 2; ++half) {
        decode_q6_k_part(rows, at + 64 * part, at + 128 + 32 * part, half, out + 4 * part);
      }
    }
  }

  static I low_nibbles(I v) { return V::masked(v, 15); }
  static I high_nibbles(I v) { return V::masked(V::template shift_right<4>(v), 15); }

  /// The weight block that has `block`, which is its first one.
  template <Int8Type kType>
  static void decode(RowPointers rows, int64_t block, Block* out) {
    const int64_t at = block / weight_block_step(kType) * weight_block_bytes(kType);
    if constexpr (kType == Int8Type::kQ8_0) return decode_q8_0(rows, at, out);
    if constexpr (kType == Int8Type::kQ4_0) return decode_q4_0(rows, at, out);
    if constexpr (kType == Int8Type::kQ4_K) return decode_q4_k(rows, at, out);
    if constexpr (kType == Int8Type::kQ6_K) return decode_q6_k(rows, at, out);
  }
};

}  // namespace
}  // namespace cairn::cpu
