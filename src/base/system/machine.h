/// Resources of the machine that this process may use.
#pragma once

#include <cstdint>

namespace cairn {

/// Instruction sets that both the processor and the operating system support.
struct CpuFeatures {
  bool avx2_fma_f16c = false;
  bool avx_vnni = false;      ///< AVX-VNNI: the int8 dot products in AVX2 registers
  bool avx512_vnni = false;   ///< AVX-512 F, BW, DQ, VL and VNNI together
  bool avx512_bf16 = false;   ///< AVX512_BF16: products of bfloat16 pairs
  bool neon_dotprod = false;  ///< NEON with the dot products of Armv8.2
};
const CpuFeatures& cpu_features();

/// Physical cores in this process's affinity mask, limited by the cgroup's CPU quota; at least 1.
int usable_cores();

/// Bytes that could be allocated now without swapping: the smaller of MemAvailable and what the cgroup has left.
int64_t available_memory_bytes();

/// Bytes of memory that this process has in RAM, those of mapped files as well; 0 where the system does not say.
int64_t resident_bytes();

/// Bytes of addresses that this process may still map (`ulimit -v`); the largest number without a limit.
int64_t address_space_left_bytes();

}  // namespace cairn
