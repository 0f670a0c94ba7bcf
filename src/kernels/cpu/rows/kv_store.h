/// Writes keys and values to their pages.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa/isa.h"
#include "kernels/kv.h"

namespace cairn::kernels::cpu {

/// Stores rows [begin, end) of the slice: k [all rows, kv_heads * key_dim], v [all rows, kv_heads * value_dim].
/// Different rows may be stored by different threads at once; it is fastest if they are on different pages.
void store_kv_rows(const Isa& isa, const KvView& kv, const AttentionSlice& slice, int32_t begin, int32_t end,
                   const float* k, const float* v);

}  // namespace cairn::kernels::cpu
