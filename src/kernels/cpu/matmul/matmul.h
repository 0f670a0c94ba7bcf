/// Matrix products of the CPU dispatch table.
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

namespace cairn::kernels::cpu {

/// Columns that share one activation scale.
inline constexpr int32_t kActivationBlock = 32;

/// From this number of tokens on, outputs of int8 products are stored non-temporally with some instruction sets; other
/// threads see them when the product has returned. A caller that reads them at once passes fewer tokens.
inline constexpr int32_t kNonTemporalTokensMin = 64;
/// Number of tokens with which products with panels are fastest: that many share unpacked weights. A multiple of tiles'
/// tokens, so that no tile is padded.
inline constexpr int32_t kTokensAtOnce = 132;
/// Number of rows with which such products are fastest.
inline constexpr int64_t kRowsAtOnce = 128;

/// Whether there is a product for the type.
bool has_matmul(TensorType type);

/// Bytes of one int8 row of `cols` (a multiple of kActivationBlock) columns, a multiple of 64. The layout (int8_row.h)
/// and the bytes that quantize_row writes are the same for all instruction sets.
size_t int8_row_bytes(int64_t cols);

/// Bytes of one row of `cols` columns rounded to bfloat16, a multiple of 64.
size_t bf16_row_bytes(int64_t cols);

using MatmulFunction = void (*)(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin,
                                int64_t row_end, const std::byte* const* inputs, int32_t tokens, float* const* outputs);

struct MatmulKernels {
  const char* isa;
  /// Quantises x [cols] to an int8 row at `out`, 64-byte aligned. A block with an infinite or NaN element becomes NaN
  /// as a whole, so that products show it.
  void (*quantize_row)(const float* x, int64_t cols, std::byte* out);
  /// outputs[t][r] = row r of the weights times inputs[t], for r in [row_begin, row_end) and t in [0, tokens).
  /// `weights` points to the file's row 0. inputs[t] is float [cols], or, for BF16 if there is a round_row, the result
  /// of that. Reads no byte outside these rows. Callable on any thread; allocates nothing.
  MatmulFunction matmul_rows;
  /// The product of matmul_rows for a type that has_panels: `weights` are all rows' panels, row_begin is a multiple of
  /// kPanelRows and inputs[t] is an int8 row.
  MatmulFunction matmul_panels;
  /// Rounds x [cols] to a row of bfloat16 (to nearest, ties to even; numbers below 2^-126 become zeros) at `out`,
  /// 64-byte aligned and padded with zeros. Null: the products do not use such rows.
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

// -- For the kernels. The functions are not inline, because files compiled for an instruction set call them.
/// How many bytes ahead memory is prefetched when one panel is read at a time, and into which cache, if at all.
struct PrefetchPolicy {
  int64_t bytes;
  enum To { kNowhere, kL2, kL1 } to;
};
/// The fastest policy of this processor for that many tokens.
PrefetchPolicy read_ahead(int32_t tokens);
/// Bytes from one weight row to the next.
int64_t weight_row_bytes(TensorType type, int64_t cols);
/// Calls quant's decode_row for `cols` elements, a multiple of the type's block.
void decode_weights(TensorType type, const std::byte* blocks, int64_t cols, float* out);

}  // namespace cairn::kernels::cpu
