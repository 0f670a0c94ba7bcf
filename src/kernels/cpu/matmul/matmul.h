/// Matrix products: the part of the CPU dispatch table that is worth the most.
///
/// Two kinds. Float: rows as the file has them, of any type, decoded to float32 and multiplied by the float32
/// activations; with some instruction sets those of BF16 by activations rounded to bfloat16. Int8: panels (panel.h)
/// against activations quantised per 32 columns (the scale is absmax / 127, values round to nearest). In both, one
/// (weight row, token) pair's arithmetic has a fixed order that depends on the column count alone, so neither the tile
/// it falls in nor its neighbours change a bit of the result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensor_type.h"

namespace cairn::cpu {

/// Columns that share one activation scale.
inline constexpr int32_t kActivationBlock = 32;

/// Outputs of so many tokens, of int8 products, are written past the caches with some instruction sets; other threads
/// see them when the product has returned. Whoever reads them at once asks for fewer tokens.
inline constexpr int32_t kNonTemporalTokensMin = 64;
/// Tokens that products with panels do best with at once: that many share weights that have been unpacked. A multiple
/// of tiles' tokens, or else some of them would be multiplied for nothing.
inline constexpr int32_t kTokensAtOnce = 132;
/// Rows that such products do best with at once.
inline constexpr int64_t kRowsAtOnce = 128;

/// Whether there is any product for the type.
bool has_matmul(TensorType type);

/// Bytes of one int8 row of `cols` (a multiple of kActivationBlock) columns, a multiple of 64. The layout is in
/// int8_row.h and the same for all instruction sets, as are the bytes that quantize_row writes.
size_t int8_row_bytes(int64_t cols);

/// Bytes of one row of `cols` columns rounded to bfloat16, a multiple of 64.
size_t bf16_row_bytes(int64_t cols);

using MatmulFunction = void (*)(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin,
                                int64_t row_end, const std::byte* const* inputs, int32_t tokens, float* const* outputs);

struct MatmulKernels {
  const char* isa;
  /// x [cols] -> an int8 row at `out`, 64-byte aligned. A block with an infinite or NaN element becomes NaN as a whole,
  /// so that products show it.
  void (*quantize_row)(const float* x, int64_t cols, std::byte* out);
  /// outputs[t][r] = row r of the weights times inputs[t], for r in [row_begin, row_end) and t in [0, tokens).
  /// `weights` points to the file's row 0 and inputs[t] is float [cols]; or, for BF16 where there is round_row, what
  /// that wrote. Reads no byte outside these rows. Any thread; allocates nothing.
  MatmulFunction matmul_rows;
  /// The same for a type that has_panels: `weights` are all rows' panels, row_begin is a multiple of kPanelRows and
  /// inputs[t] is an int8 row.
  MatmulFunction matmul_panels;
  /// x [cols] -> a row of bfloat16 (to nearest, ties to even; numbers below 2^-126 are zeros) at `out`, 64-byte aligned
  /// and filled up with zeros. Null: nobody asks for such rows.
  void (*round_row)(const float* x, int64_t cols, std::byte* out);
};

extern const MatmulKernels kGenericMatmul;
#if defined(__x86_64__)
extern const MatmulKernels kAvx2Matmul;
extern const MatmulKernels kAvxVnniMatmul;
extern const MatmulKernels kAvx512Matmul;
extern const MatmulKernels kAvx512Bf16Matmul;
#elif defined(__aarch64__)
extern const MatmulKernels kNeonMatmul;
#endif

// -- Within an instruction set: matmul_panels of the types with heads of 32 columns (nullptr for others), and of 256.
#if defined(__x86_64__)
MatmulFunction avx2_product_of_32(TensorType type);
MatmulFunction avx2_product_of_256(TensorType type);
MatmulFunction avxvnni_product_of_32(TensorType type);
MatmulFunction avxvnni_product_of_256(TensorType type);
MatmulFunction avx512_product_of_32(TensorType type);
MatmulFunction avx512_product_of_256(TensorType type);
#elif defined(__aarch64__)
MatmulFunction neon_product_of_32(TensorType type);
MatmulFunction neon_product_of_256(TensorType type);
#endif

// -- For the kernels. Functions, not inline ones: files compiled for an instruction set call them.
/// How long before its use memory is asked for where one panel is read at a time, and for which cache, if at all.
struct PrefetchPolicy {
  int64_t bytes;
  enum To { kNowhere, kL2, kL1 } to;
};
/// What this processor multiplies so many tokens fastest with.
PrefetchPolicy read_ahead(int32_t tokens);
/// Bytes from one weight row to the next.
int64_t weight_row_bytes(TensorType type, int64_t cols);
/// quant's decode_row of `cols` elements, a multiple of the type's block.
void decode_weights(TensorType type, const std::byte* blocks, int64_t cols, float* out);

}  // namespace cairn::cpu
