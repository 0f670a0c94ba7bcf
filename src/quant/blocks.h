/// Byte layout of every block type of a GGUF tensor (source: the ggml formats), and the scalar float formats in them.
///
/// "Low nibbles, then high": byte j has element j in bits 0-3 and element j + n/2 in bits 4-7. `d`, `dmin` and `m` are
/// halves unless said otherwise. ISA files include this header under their own flags, so it holds plain structs and
/// `static inline` functions only: no copy compiled for AVX-512 can win at link time. Structs are packed (alignment 1):
/// a file may place them at any address.
#pragma once

#include <cstdint>

#include "quant/float_formats.h"  // IWYU pragma: export

namespace cairn::quant {

#pragma pack(push, 1)

/// 32 elements (q - 8) * d; low nibbles, then high.
struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};

/// 32 elements q * d + m.
struct BlockQ4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};

/// 32 elements (q - 16) * d; bit j of qh is bit 4 of element j.
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};

/// 32 elements q * d + m.
struct BlockQ5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};

/// 32 elements q * d.
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};

/// 256 elements in 16 groups of 16: d * (scale & 15) * q - dmin * (scale >> 4). Per 128 elements 32 bytes of qs:
/// element 32 s + l in bits 2s, 2s+1 of byte l.
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};

/// 256 elements in 16 groups of 16: d * (scale - 32) * (q - 4), the third bit of q from hmask: bit g of byte l for
/// element 32 g + l. Scales of 6 bits: see q3_k_scale.
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};

/// 256 elements in 8 groups of 32: d * scale * q - dmin * min (k4_scale_min). Per 64: 32 bytes, low nibbles, then high.
struct BlockQ4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};

/// 256 elements in the form of Q4_K; bit g of qh[l] is bit 4 of element 32 g + l.
struct BlockQ5_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};

/// 256 elements in 16 groups of 16: d * scale * (q - 32). Per 128 elements 64 bytes of ql and 32 of qh; element 32 s +
/// l: low 4 bits in ql[32 (s & 1) + l], low nibble for s < 2, high above; high 2 bits in bits 2s, 2s+1 of qh[l].
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};

/// 256 elements in 8 groups of 32, each 8 bytes: 4 grid indices, then 4 sign sets of 7 bits and a scale of 4.
struct BlockIQ2_XXS {
  uint16_t d;
  uint8_t qs[64];
};

/// 256 elements in 32 groups of 8: grid index (9 bits) and sign set (7) in qs; a 4-bit scale per 16.
struct BlockIQ2_XS {
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};

/// 256 elements in 32 groups of 8: grid index of 10 bits in qs and qh, one byte of signs; a 4-bit scale per 16.
struct BlockIQ2_S {
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};

/// 256 elements in 64 groups of 4 with a grid index of 8 bits; per 32 elements 4 sign sets of 7 bits and a scale of 4.
struct BlockIQ3_XXS {
  uint16_t d;
  uint8_t qs[64];
  uint8_t scales_and_signs[32];
};

/// 256 elements in 64 groups of 4 with a grid index of 9 bits in qs and qh; a sign bit each; a 4-bit scale per 32.
struct BlockIQ3_S {
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};

/// 256 elements in 32 groups of 8 with an 11-bit grid index; qh of 32 elements: 4 x 3 index bits, a 3-bit scale, a
/// delta sign.
struct BlockIQ1_S {
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];
};

/// 256 elements in the form of IQ1_S, but with a 3-bit scale per 16 and a delta sign per 8. The half `d` is in the high
/// nibbles of the four scales.
struct BlockIQ1_M {
  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];
};

/// 32 elements d * kIq4Values[q]; low nibbles, then high.
struct BlockIQ4_NL {
  uint16_t d;
  uint8_t qs[16];
};

/// 256 elements in 8 groups of 32: d * (scale - 32) * kIq4Values[q].
struct BlockIQ4_XS {
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};

/// 256 elements d * (-1, 0, 1), five to a byte as a base 3 fraction (qs), the last 16 four to a byte (qh).
struct BlockTQ1_0 {
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;
};

/// 256 elements d * (q - 1), of 2 bits.
struct BlockTQ2_0 {
  uint8_t qs[64];
  uint16_t d;
};

/// 32 elements 2^(e - 128) * kFp4Values[q]; low nibbles, then high.
struct BlockMXFP4 {
  uint8_t e;
  uint8_t qs[16];
};

/// 64 elements in 4 groups of 16 with an unsigned E4M3 scale each; within a group low nibbles, then high.
struct BlockNVFP4 {
  uint8_t d[4];
  uint8_t qs[32];
};

/// 128 elements: bit 1 is d, bit 0 is -d; lowest bit first.
struct BlockQ1_0 {
  uint16_t d;
  uint8_t qs[16];
};

/// 64 elements d * (q - 1) of 2 bits, lowest first.
struct BlockQ2_0 {
  uint16_t d;
  uint8_t qs[16];
};

#pragma pack(pop)

}  // namespace cairn::quant
