/// Reads bytes of blocks as words and unpacks their bits, on the device and (for tests) on the host.
#pragma once

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/float_formats.h"

#if defined(__CUDACC__)
#define CAIRN_HOST_DEVICE_INLINE __host__ __device__ __forceinline__
#else
#define CAIRN_HOST_DEVICE_INLINE inline
#endif

namespace cairn::kernels::cuda {

/// Eight bytes: the first in the lowest bits of the first word.
struct Octet {
  uint32_t words[2];
};

/// Sixteen bytes in the same order.
struct Sixteen {
  uint32_t words[4];
};

// -- Loads from memory that is constant while the kernel runs; `at` is aligned to the size of the load.

template <class T>
CAIRN_HOST_DEVICE_INLINE T load_as(const uint8_t* at) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const T*>(at);
#else
  T value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
#endif
}
CAIRN_HOST_DEVICE_INLINE uint32_t load_byte(const uint8_t* at) { return load_as<uint8_t>(at); }
CAIRN_HOST_DEVICE_INLINE uint32_t load_half_word(const uint8_t* at) { return load_as<uint16_t>(at); }
CAIRN_HOST_DEVICE_INLINE uint32_t load_word(const uint8_t* at) { return load_as<uint32_t>(at); }

CAIRN_HOST_DEVICE_INLINE Octet load_octet(const uint8_t* at) {
#if defined(__CUDA_ARCH__)
  const uint2 value = *reinterpret_cast<const uint2*>(at);
  return {{value.x, value.y}};
#else
  Octet value = {};
  std::memcpy(&value, at, sizeof(value));
  return value;
#endif
}

CAIRN_HOST_DEVICE_INLINE Sixteen load_sixteen(const uint8_t* at) {
#if defined(__CUDA_ARCH__)
  const uint4 value = *reinterpret_cast<const uint4*>(at);
  return {{value.x, value.y, value.z, value.w}};
#else
  Sixteen value = {};
  std::memcpy(&value, at, sizeof(value));
  return value;
#endif
}

// -- Conversion of numbers.

CAIRN_HOST_DEVICE_INLINE float float_of_bits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

CAIRN_HOST_DEVICE_INLINE float float_of_half(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
#else
  return quant::half_to_float(static_cast<uint16_t>(bits));
#endif
}

/// Same as e8m0_half_to_float (quant/float_formats.h).
CAIRN_HOST_DEVICE_INLINE float float_of_e8m0_half(uint32_t e) {
  return float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/// Same as ue4m3_half_to_float (quant/float_formats.h), in units of 2^-10: below 2^18.
CAIRN_HOST_DEVICE_INLINE int32_t units_of_ue4m3(uint32_t code) {
  const uint32_t exponent = (code >> 3) & 15u, fraction = code & 7u;
  if ((code & 127u) == 127u) return 0;
  return static_cast<int32_t>(exponent == 0 ? fraction : (8 + fraction) << (exponent - 1));
}

// -- Operations on four bytes of a word at once.

/// Moves bits 0 to 3 of `bits` to bit `to` of bytes 0 to 3.
CAIRN_HOST_DEVICE_INLINE uint32_t spread_bits(uint32_t bits, int to) {
  // The copies at 0, 7, 14 and 21 move bit i to 8 i; they do not overlap.
  return (((bits & 15u) * 0x00204081u) & 0x01010101u) << to;
}

/// Seven signs and the eighth, which makes the number of negative ones even.
CAIRN_HOST_DEVICE_INLINE uint32_t even_signs_of(uint32_t set) {
#if defined(__CUDA_ARCH__)
  return set | (static_cast<uint32_t>(__popc(set)) & 1u) << 7;
#else
  return quant::even_signs(set);
#endif
}

/// Byte i of the result is byte s of (high, low), where s is the low three bits of nibble i of `selector`.
CAIRN_HOST_DEVICE_INLINE uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(low, high, selector);
#else
  const uint64_t bytes = (static_cast<uint64_t>(high) << 32) | low;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t from = (selector >> (4 * i)) & 7u;
    result |= static_cast<uint32_t>((bytes >> (8 * from)) & 255u) << (8 * i);
  }
  return result;
#endif
}

/// The bytes of `table` selected by four pairs of bits, the lowest first; `pairs` is below 256.
CAIRN_HOST_DEVICE_INLINE uint32_t look_up_pairs(uint32_t table, uint32_t pairs) {
  const uint32_t nibbles = (pairs | pairs << 4) & 0x0f0fu;
  return permute_bytes(table, table, (nibbles | nibbles << 2) & 0x3333u);
}

/// Sixteen int8 values, four to a word.
struct ByteTable {
  uint32_t words[4];
};
CAIRN_HOST_DEVICE_INLINE constexpr ByteTable byte_table(const int8_t (&values)[16]) {
  ByteTable table = {};
  for (int i = 0; i < 16; ++i) {
    table.words[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(values[i])) << (i % 4 * 8);
  }
  return table;
}

/// The table's values for nibbles 0 to 3.
CAIRN_HOST_DEVICE_INLINE uint32_t look_up_nibbles(const ByteTable& table, uint32_t nibbles) {
  // Both halves of the table are indexed by three bits of each nibble; the fourth bit then selects one of the two, by
  // turning byte i of the first into byte i + 4, which is of the second.
  const uint32_t low = permute_bytes(table.words[0], table.words[1], nibbles & 0x7777u);
  const uint32_t high = permute_bytes(table.words[2], table.words[3], nibbles & 0x7777u);
  return permute_bytes(low, high, 0x3210u | ((nibbles & 0x8888u) >> 1));
}

/// The table's values for the low nibbles of four bytes, or for the high ones.
CAIRN_HOST_DEVICE_INLINE uint32_t look_up(const ByteTable& table, uint32_t bytes, bool high) {
  const uint32_t first = look_up_nibbles(table, bytes & 0xffffu);
  const uint32_t second = look_up_nibbles(table, bytes >> 16);
  return permute_bytes(first, second, high ? 0x7531u : 0x6420u);
}

}  // namespace cairn::kernels::cuda
