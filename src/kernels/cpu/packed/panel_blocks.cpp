#include "kernels/cpu/packed/panel_blocks.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "quant/blocks.h"

namespace cairn::kernels::cpu {
namespace {

using Place = PanelPlace;

constexpr uint32_t kLow = 0x0f0f0f0fu, kHigh = 0xf0f0f0f0u, kTwo = 0x03030303u, kOne = 0x01010101u;
// Flips the signs of Q8_0's bytes.
constexpr uint32_t kSigns = 0x80808080u;

uint32_t load(const void* from) {
  uint32_t dword;
  std::memcpy(&dword, from, sizeof(dword));
  return dword;
}
void store(void* to, uint32_t dword) { std::memcpy(to, &dword, sizeof(dword)); }
void add_bits(void* to, uint32_t bits) { store(to, load(to) | bits); }

// -- Blocks of 32 columns, whose order "low nibbles, then high" is that of panels as well.

// Copies nibbles, to the body from dword kAt on.
template <int kFrom, int kAt = 0>
void pack_nibbles(const std::byte* block, const Place& to) {
  for (int k = 0; k < 4; ++k) store(to.body(kAt + k), load(block + kFrom + 4 * k));
}
template <int kFrom, int kAt = 0>
void unpack_nibbles(const Place& from, std::byte* block) {
  for (int k = 0; k < 4; ++k) store(block + kFrom + 4 * k, load(from.body(kAt + k)));
}

// For Q4_0 and IQ4_NL.
void pack_q4_0(const std::byte* block, const Place& to) {
  std::memcpy(to.half(0), block, 2);
  pack_nibbles<2>(block, to);
}
void unpack_q4_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.half(0), 2);
  unpack_nibbles<2>(from, block);
}

void pack_q4_1(const std::byte* block, const Place& to) {
  for (int i = 0; i < 2; ++i) std::memcpy(to.half(i), block + 2 * i, 2);
  pack_nibbles<4>(block, to);
}
void unpack_q4_1(const Place& from, std::byte* block) {
  for (int i = 0; i < 2; ++i) std::memcpy(block + 2 * i, from.half(i), 2);
  unpack_nibbles<4>(from, block);
}

// Bit e of `bits` belongs to element e; bit k of byte c of the result to element 4k + c.
uint32_t plane_of_bits(uint32_t bits) {
  uint32_t plane = 0;
  // The multiplication spreads four bits to the lowest bits of four bytes.
  for (int k = 0; k < 8; ++k) plane |= ((bits >> (4 * k) & 15) * 0x00204081u & kOne) << k;
  return plane;
}
uint32_t bits_of_plane(uint32_t plane) {
  uint32_t bits = 0;
  for (int k = 0; k < 8; ++k) bits |= ((plane >> k & kOne) * 0x01020408u >> 24) << (4 * k);
  return bits;
}

void pack_q5_0(const std::byte* block, const Place& to) {
  std::memcpy(to.half(0), block, 2);
  store(to.body(0), plane_of_bits(load(block + 2)));
  pack_nibbles<6, 1>(block, to);
}
void unpack_q5_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.half(0), 2);
  store(block + 2, bits_of_plane(load(from.body(0))));
  unpack_nibbles<6, 1>(from, block);
}

void pack_q5_1(const std::byte* block, const Place& to) {
  for (int i = 0; i < 2; ++i) std::memcpy(to.half(i), block + 2 * i, 2);
  store(to.body(0), plane_of_bits(load(block + 4)));
  pack_nibbles<8, 1>(block, to);
}
void unpack_q5_1(const Place& from, std::byte* block) {
  for (int i = 0; i < 2; ++i) std::memcpy(block + 2 * i, from.half(i), 2);
  store(block + 4, bits_of_plane(load(from.body(0))));
  unpack_nibbles<8, 1>(from, block);
}

void pack_q8_0(const std::byte* block, const Place& to) {
  std::memcpy(to.half(0), block, 2);
  for (int k = 0; k < 8; ++k) store(to.body(k), load(block + 2 + 4 * k) ^ kSigns);
}
void unpack_q8_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.half(0), 2);
  for (int k = 0; k < 8; ++k) store(block + 2 + 4 * k, load(from.body(k)) ^ kSigns);
}

void pack_mxfp4(const std::byte* block, const Place& to) {
  const uint32_t scale = __builtin_bit_cast(uint32_t, quant::e8m0_half_to_float(static_cast<uint8_t>(block[0])));
  const auto upper = static_cast<uint16_t>(scale >> 16);
  std::memcpy(to.half(0), &upper, 2);
  pack_nibbles<1>(block, to);
}
void unpack_mxfp4(const Place& from, std::byte* block) {
  uint16_t upper;
  std::memcpy(&upper, from.half(0), 2);
  // Two scales are too small for an exponent of their own.
  block[0] = static_cast<std::byte>(upper == 0x20 ? 0 : upper == 0x40 ? 1 : (upper >> 7) + 1);
  unpack_nibbles<1>(from, block);
}

// -- Blocks of 64 and 128 columns, with a head for each 32 columns.

void pack_q1_0(const std::byte* block, const Place& to) {
  for (int b = 0; b < 4; ++b) {
    std::memcpy(to.half(b), block, 2);
    store(to.body(b), plane_of_bits(load(block + 2 + 4 * b)));
  }
}
void unpack_q1_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.half(0), 2);
  for (int b = 0; b < 4; ++b) store(block + 2 + 4 * b, bits_of_plane(load(from.body(b))));
}

// Each byte of the file is a group, with its columns in bits 0-1, 2-3, 4-5, 6-7.
void pack_q2_0(const std::byte* block, const Place& to) {
  for (int b = 0; b < 2; ++b) {
    std::memcpy(to.half(b), block, 2);
    uint32_t pairs[2] = {};
    for (int k = 0; k < 8; ++k) {
      const auto group = static_cast<uint32_t>(block[2 + 8 * b + k]);
      const uint32_t spread = (group | group << 6 | group << 12 | group << 18) & kTwo;
      pairs[k / 4] |= spread << (k % 4 * 2);
    }
    for (int j = 0; j < 2; ++j) store(to.body(2 * b + j), pairs[j]);
  }
}
void unpack_q2_0(const Place& from, std::byte* block) {
  std::memcpy(block, from.half(0), 2);
  for (int b = 0; b < 2; ++b) {
    for (int k = 0; k < 8; ++k) {
      const uint32_t spread = load(from.body(2 * b + k / 4)) >> (k % 4 * 2) & kTwo;
      block[2 + 8 * b + k] = static_cast<std::byte>(spread | spread >> 6 | spread >> 12 | spread >> 18);
    }
  }
}

// The code of a scale of which `half` is one half: half of an unsigned E4M3 number is exact as a binary16. Two codes
// mean zero, and which of them it was is the only thing that is lost.
uint8_t scale_code(uint16_t half) {
  for (uint8_t code = 0; code < 8; ++code) {
    if (half == quant::float_to_half(quant::ue4m3_half_to_float(code))) return code;
  }
  return static_cast<uint8_t>((half >> 7) - 56);
}

// In a group of 16 columns, the first eight are in the low nibbles.
void pack_nvfp4(const std::byte* block, const Place& to) {
  for (int i = 0; i < 4; ++i) {
    const uint16_t half = quant::float_to_half(quant::ue4m3_half_to_float(static_cast<uint8_t>(block[i])));
    std::memcpy(to.half(i), &half, 2);
  }
  for (int b = 0; b < 2; ++b) {
    for (int k = 0; k < 4; ++k) {
      const std::byte* at = block + 4 + 16 * b + k % 2 * 4;
      const uint32_t first = load(at) >> (k / 2 * 4) & kLow, second = load(at + 8) >> (k / 2 * 4) & kLow;
      store(to.body(4 * b + k), first | second << 4);
    }
  }
}
void unpack_nvfp4(const Place& from, std::byte* block) {
  for (int i = 0; i < 4; ++i) {
    uint16_t half;
    std::memcpy(&half, from.half(i), 2);
    block[i] = static_cast<std::byte>(scale_code(half));
  }
  for (int b = 0; b < 2; ++b) {
    for (int k = 0; k < 2; ++k) {
      const uint32_t low = load(from.body(4 * b + k)), high = load(from.body(4 * b + k + 2));
      std::byte* at = block + 4 + 16 * b + 4 * k;
      store(at, (low & kLow) | (high & kLow) << 4);
      store(at + 8, (low & kHigh) >> 4 | (high & kHigh));
    }
  }
}

// -- Blocks of 256 columns.

// 64 columns in 32 bytes: the first 32 columns in the low nibbles, the others in the high ones. They become dwords from
// kAt on of kBody.
template <int kFrom, int kBody, int kAt = 0>
void pack_nibble_pairs(const std::byte* block, const Place& to) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int k = 0; k < 4; ++k) {
      const std::byte* at = block + kFrom + 32 * pair + 4 * k;
      const uint32_t a = load(at), b = load(at + 16);
      store(to.body(2 * kBody * pair + kAt + k), (a & kLow) | (b & kLow) << 4);
      store(to.body(2 * kBody * pair + kBody + kAt + k), (a & kHigh) >> 4 | (b & kHigh));
    }
  }
}
template <int kFrom, int kBody, int kAt = 0>
void unpack_nibble_pairs(const Place& from, std::byte* block) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int k = 0; k < 4; ++k) {
      const uint32_t even = load(from.body(2 * kBody * pair + kAt + k)),
                     odd = load(from.body(2 * kBody * pair + kBody + kAt + k));
      std::byte* at = block + kFrom + 32 * pair + 4 * k;
      store(at, (even & kLow) | (odd & kLow) << 4);
      store(at + 16, (even & kHigh) >> 4 | (odd & kHigh));
    }
  }
}

// Bit b of each of 32 bytes belongs to a column of body b, and becomes dword kAt of kBody.
template <int kFrom, int kBody, int kAt>
void pack_bit_planes(const std::byte* block, const Place& to) {
  for (int b = 0; b < 8; ++b) {
    uint32_t plane = 0;
    for (int k = 0; k < 8; ++k) plane |= (load(block + kFrom + 4 * k) >> b & kOne) << k;
    store(to.body(kBody * b + kAt), plane);
  }
}
template <int kFrom, int kBody, int kAt>
void unpack_bit_planes(const Place& from, std::byte* block) {
  for (int k = 0; k < 8; ++k) {
    uint32_t bytes = 0;
    for (int b = 0; b < 8; ++b) bytes |= (load(from.body(kBody * b + kAt)) >> k & kOne) << b;
    store(block + kFrom + 4 * k, bytes);
  }
}

// 128 columns in 32 bytes, two bits each: those of body 4p + s in bits 2s, 2s+1. They become dwords kFirst and kSecond
// of kBody.
template <int kFrom, int kBody, int kFirst, int kSecond>
void pack_two_bits(const std::byte* block, const Place& to) {
  for (int b = 0; b < 8; ++b) {
    uint32_t pairs[2] = {};
    for (int k = 0; k < 8; ++k) {
      pairs[k / 4] |= (load(block + kFrom + b / 4 * 32 + 4 * k) >> (b % 4 * 2) & kTwo) << (k % 4 * 2);
    }
    store(to.body(kBody * b + kFirst), pairs[0]);
    store(to.body(kBody * b + kSecond), pairs[1]);
  }
}
template <int kFrom, int kBody, int kFirst, int kSecond>
void unpack_two_bits(const Place& from, std::byte* block) {
  std::memset(block + kFrom, 0, 64);
  for (int b = 0; b < 8; ++b) {
    for (int k = 0; k < 8; ++k) {
      const uint32_t pair = load(from.body(kBody * b + (k < 4 ? kFirst : kSecond))) >> (k % 4 * 2) & kTwo;
      add_bits(block + kFrom + b / 4 * 32 + 4 * k, pair << (b % 4 * 2));
    }
  }
}

void pack_q4_k(const std::byte* block, const Place& to) {
  for (int i = 0; i < 4; ++i) store(to.head(i), load(block + 4 * i));
  pack_nibble_pairs<16, 4>(block, to);
}
void unpack_q4_k(const Place& from, std::byte* block) {
  for (int i = 0; i < 4; ++i) store(block + 4 * i, load(from.head(i)));
  unpack_nibble_pairs<16, 4>(from, block);
}

void pack_q5_k(const std::byte* block, const Place& to) {
  for (int i = 0; i < 4; ++i) store(to.head(i), load(block + 4 * i));
  pack_bit_planes<16, 5, 0>(block, to);
  pack_nibble_pairs<48, 5, 1>(block, to);
}
void unpack_q5_k(const Place& from, std::byte* block) {
  for (int i = 0; i < 4; ++i) store(block + 4 * i, load(from.head(i)));
  unpack_bit_planes<16, 5, 0>(from, block);
  unpack_nibble_pairs<48, 5, 1>(from, block);
}

// Offset in the file's block of the low bits of group k of body b (see BlockQ6_K).
constexpr int q6_low(int b, int k) { return b / 4 * 64 + b % 2 * 32 + 4 * k; }
constexpr int q6_shift(int b) { return b % 4 / 2 * 4; }

void pack_q6_k(const std::byte* block, const Place& to) {
  std::memcpy(to.half(0), block + 208, 2);
  for (int i = 0; i < 4; ++i) store(to.head(i), load(block + 192 + 4 * i));
  for (int b = 0; b < 8; ++b) {
    for (int k = 0; k < 4; ++k) {
      const auto low = [&](int group) { return load(block + q6_low(b, group)) >> q6_shift(b) & kLow; };
      store(to.body(6 * b + 1 + k), low(k) | low(k + 4) << 4);
    }
  }
  pack_two_bits<128, 6, 0, 5>(block, to);
}
void unpack_q6_k(const Place& from, std::byte* block) {
  std::memset(block, 0, 128);
  std::memcpy(block + 208, from.half(0), 2);
  for (int i = 0; i < 4; ++i) store(block + 192 + 4 * i, load(from.head(i)));
  for (int b = 0; b < 8; ++b) {
    for (int k = 0; k < 8; ++k) {
      const uint32_t low = load(from.body(6 * b + 1 + k % 4)) >> (k / 4 * 4) & kLow;
      add_bits(block + q6_low(b, k), low << q6_shift(b));
    }
  }
  unpack_two_bits<128, 6, 0, 5>(from, block);
}

void pack_q2_k(const std::byte* block, const Place& to) {
  for (int i = 0; i < 4; ++i) store(to.head(i), load(block + 4 * i));
  store(to.head(4), load(block + 80));
  pack_two_bits<16, 2, 0, 1>(block, to);
}
void unpack_q2_k(const Place& from, std::byte* block) {
  for (int i = 0; i < 4; ++i) store(block + 4 * i, load(from.head(i)));
  store(block + 80, load(from.head(4)));
  unpack_two_bits<16, 2, 0, 1>(from, block);
}

void pack_q3_k(const std::byte* block, const Place& to) {
  std::memcpy(to.half(0), block + 108, 2);
  const auto* scales = reinterpret_cast<const uint8_t*>(block + 96);
  for (int i = 0; i < 16; ++i) to.head(i / 4)[i % 4] = static_cast<std::byte>(quant::q3_k_scale(scales, i));
  pack_two_bits<32, 3, 1, 2>(block, to);
  pack_bit_planes<0, 3, 0>(block, to);
}
void unpack_q3_k(const Place& from, std::byte* block) {
  std::memcpy(block + 108, from.half(0), 2);
  uint8_t scales[12] = {};
  for (int i = 0; i < 16; ++i) {
    const int scale = static_cast<int8_t>(from.head(i / 4)[i % 4]) + 32;
    scales[i % 8] = static_cast<uint8_t>(scales[i % 8] | (scale & 15) << (i / 8 * 4));
    scales[8 + i % 4] = static_cast<uint8_t>(scales[8 + i % 4] | scale >> 4 << (i / 4 * 2));
  }
  std::memcpy(block + 96, scales, sizeof(scales));
  unpack_two_bits<32, 3, 1, 2>(from, block);
  unpack_bit_planes<0, 3, 0>(from, block);
}

void pack_iq4_xs(const std::byte* block, const Place& to) {
  quant::BlockIQ4_XS from;
  std::memcpy(&from, block, sizeof(from));
  std::memcpy(to.half(0), &from.d, 2);
  for (int i = 0; i < 8; ++i) {
    const int low = from.scales_l[i / 2] >> (i % 2 * 4) & 15, high = from.scales_h >> (2 * i) & 3;
    to.head(i / 4)[i % 4] = static_cast<std::byte>((low | high << 4) - 32);
    for (int k = 0; k < 4; ++k) store(to.body(4 * i + k), load(from.qs + 16 * i + 4 * k));
  }
}
void unpack_iq4_xs(const Place& from, std::byte* block) {
  quant::BlockIQ4_XS to{};
  std::memcpy(&to.d, from.half(0), 2);
  for (int i = 0; i < 8; ++i) {
    const int scale = static_cast<int8_t>(from.head(i / 4)[i % 4]) + 32;
    to.scales_l[i / 2] = static_cast<uint8_t>(to.scales_l[i / 2] | (scale & 15) << (i % 2 * 4));
    to.scales_h = static_cast<uint16_t>(to.scales_h | scale >> 4 << (2 * i));
    for (int k = 0; k < 4; ++k) store(to.qs + 16 * i + 4 * k, load(from.body(4 * i + k)));
  }
  std::memcpy(block, &to, sizeof(to));
}

constexpr Codebook kIq4Codebook = {{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, 1};
constexpr Codebook kFp4Codebook = {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, 1};
static_assert(std::ranges::equal(kIq4Codebook.values, quant::kIq4Values));
static_assert(std::ranges::equal(kFp4Codebook.values, quant::kFp4Values));

constexpr PanelPacking kPackings[] = {{TensorType::kQ4_0, kPanelQ4_0, pack_q4_0, unpack_q4_0},
                                      {TensorType::kQ4_1, kPanelQ4_1, pack_q4_1, unpack_q4_1},
                                      {TensorType::kQ5_0, kPanelQ5_0, pack_q5_0, unpack_q5_0},
                                      {TensorType::kQ5_1, kPanelQ5_1, pack_q5_1, unpack_q5_1},
                                      {TensorType::kQ8_0, kPanelQ8_0, pack_q8_0, unpack_q8_0},
                                      {TensorType::kQ2_K, kPanelQ2_K, pack_q2_k, unpack_q2_k},
                                      {TensorType::kQ3_K, kPanelQ3_K, pack_q3_k, unpack_q3_k},
                                      {TensorType::kQ4_K, kPanelQ4_K, pack_q4_k, unpack_q4_k},
                                      {TensorType::kQ5_K, kPanelQ5_K, pack_q5_k, unpack_q5_k},
                                      {TensorType::kQ6_K, kPanelQ6_K, pack_q6_k, unpack_q6_k},
                                      {TensorType::kIQ4_NL, kPanelIQ4_NL, pack_q4_0, unpack_q4_0, &kIq4Codebook},
                                      {TensorType::kIQ4_XS, kPanelIQ4_XS, pack_iq4_xs, unpack_iq4_xs, &kIq4Codebook},
                                      {TensorType::kMXFP4, kPanelMXFP4, pack_mxfp4, unpack_mxfp4, &kFp4Codebook},
                                      {TensorType::kNVFP4, kPanelNVFP4, pack_nvfp4, unpack_nvfp4, &kFp4Codebook},
                                      {TensorType::kQ1_0, kPanelQ1_0, pack_q1_0, unpack_q1_0},
                                      {TensorType::kQ2_0, kPanelQ2_0, pack_q2_0, unpack_q2_0}};

}  // namespace

const PanelPacking* panel_packing(TensorType type) {
  const auto* found = std::ranges::find(kPackings, type, &PanelPacking::type);
  return found != std::end(kPackings) ? found : panel_codes_packing(type);
}

}  // namespace cairn::kernels::cpu
