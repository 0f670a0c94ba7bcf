/// Sizes of grids, blocks and warps for all kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;
/// Maximum blocks in the second and third dimension of a grid.
inline constexpr int64_t kGridMax = 65535;

/// Number of blocks for `count` items, `per_block` per block; at most `most`, in which case each block loops over the
/// rest.
inline unsigned blocks_of(int64_t count, int64_t per_block, int64_t most) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + per_block - 1) / per_block, 1, most));
}

/// Whether all pointers are at multiples of 16 bytes.
template <class... T>
bool aligned16(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace cairn::kernels::cuda
