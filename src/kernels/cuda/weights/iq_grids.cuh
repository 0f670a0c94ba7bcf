/// The grids of iq_blocks.cuh: rows of vectors whose elements are levels, and the values of levels.
///
/// The grids are packed, two or four bits a weight: 512 bytes to 4 KiB of global memory, which stay in the first-level
/// cache. Constant memory would serve the lanes of a warp one after the other, since each reads another row.
#pragma once

#include "kernels/cuda/weights/bit_unpack.cuh"
#include "quant/iq_grid_codes.h"

namespace cairn::kernels::cuda {

#if defined(__CUDACC__)
namespace device_grids {
__device__ constexpr quant::GridCodes<2048> kIq1Codes = quant::kIq1Codes;
__device__ constexpr quant::GridCodes<256> kIq2XxsCodes = quant::kIq2XxsCodes;
__device__ constexpr quant::GridCodes<512> kIq2XsCodes = quant::kIq2XsCodes;
__device__ constexpr quant::GridCodes<1024> kIq2SCodes = quant::kIq2SCodes;
__device__ constexpr quant::GridCodes<256> kIq3XxsCodes = quant::kIq3XxsCodes;
__device__ constexpr quant::GridCodes<512> kIq3SCodes = quant::kIq3SCodes;
}  // namespace device_grids
#endif
// The host's or the device's copy of a grid, whichever is being compiled.
#if defined(__CUDA_ARCH__)
#define CAIRN_GRID(name) device_grids::name.rows
#else
#define CAIRN_GRID(name) quant::name.rows
#endif

CAIRN_HOST_DEVICE_INLINE uint32_t grid_row(const uint16_t* grid, uint32_t index) {
  return load_half_word(reinterpret_cast<const uint8_t*>(grid + index));
}

/// Bytes [from, from + 4) of a table of levels.
template <int kLevels>
CAIRN_HOST_DEVICE_INLINE constexpr uint32_t level_word(const int8_t (&levels)[kLevels], int from) {
  uint32_t word = 0;
  for (int i = from; i < kLevels && i < from + 4; ++i) {
    word |= static_cast<uint32_t>(static_cast<uint8_t>(levels[i])) << (i % 4 * 8);
  }
  return word;
}

/// Decodes a row of eight two-bit levels.
CAIRN_HOST_DEVICE_INLINE Octet levels_of_pairs(uint32_t table, uint32_t row) {
  return {{look_up_pairs(table, row & 255u), look_up_pairs(table, row >> 8)}};
}

/// The levels, negated where a bit of `signs` is set. No level is 0, so there is no carry between bytes.
CAIRN_HOST_DEVICE_INLINE Octet with_signs(const Octet& levels, uint32_t signs) {
  Octet signed_levels = {};
  for (int i = 0; i < 2; ++i) {
    const uint32_t ones = spread_bits(signs >> (4 * i), 0);
    signed_levels.words[i] = (levels.words[i] ^ (ones * 255u)) + ones;
  }
  return signed_levels;
}

}  // namespace cairn::kernels::cuda
