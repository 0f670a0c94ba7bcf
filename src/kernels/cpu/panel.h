/// Weights as the int8 products read them, made from the file's rows once at load (Backend::load). The same bits in
/// another order: kPanelRows rows side by side, so that a vector register is one dword of each row, memory is read from
/// front to back and nothing is ever summed across lanes. All instruction sets share the layout.
///
/// A matrix is its panels in order, the last one filled up with rows of zeros. A panel is
///  * heads, one per block of the type, in order: what scales it. Each part is [row]: the file's half d (Q4_0, Q8_0);
///    its 4 dwords of d, dmin and packed scales (Q4_K); its 4 dwords of scales and then the half d (Q6_K);
///  * from a multiple of 64 bytes on bodies, one per 32 columns, in order: [dword][row]. "Group k" are columns 4k to
///    4k+3, one a byte. Four bits: dword k < 4 has group k in the low nibbles and group k + 4 in the high ones. Six
///    bits: the low four as before; then dword 4 + j has the high two of group 4j + i in bits 2i, 2i+1. Eight bits:
///    dword k has group k, with 128 added to Q8_0's values.
///
/// ISA files include this header under their own flags, hence `static inline` (see quant/blocks.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensor_type.h"

namespace cairn::cpu {

inline constexpr int64_t kPanelRows = 16;
/// Bytes of a half and of a dword of all rows.
static constexpr int64_t kPanelHalf = kPanelRows * 2;
static constexpr int64_t kPanelDword = kPanelRows * 4;

struct PanelFormat {
  int32_t block_bytes;  ///< of one row's block in the file
  int32_t block_cols;   ///< its columns
  int32_t head_bytes;   ///< of all rows
  int32_t body_dwords;  ///< of each row, per 32 columns

  constexpr int64_t body_bytes() const { return body_dwords * kPanelDword; }
  /// Where the bodies begin in a panel of `cols` columns.
  constexpr int64_t body_begin(int64_t cols) const { return (cols / block_cols * head_bytes + 63) / 64 * 64; }
  constexpr int64_t panel_bytes(int64_t cols) const { return body_begin(cols) + cols / 32 * body_bytes(); }
};

static constexpr PanelFormat kPanelQ8_0{34, 32, kPanelHalf, 8};
static constexpr PanelFormat kPanelQ4_0{18, 32, kPanelHalf, 4};
static constexpr PanelFormat kPanelQ4_K{144, 256, 4 * kPanelDword, 4};
static constexpr PanelFormat kPanelQ6_K{210, 256, 4 * kPanelDword + kPanelHalf, 6};
/// The largest block_bytes.
static constexpr int32_t kPanelBlockBytesMax = 210;

// -- Functions, not inline ones: files compiled for an instruction set call them (design 6).
/// Whether the type has panels.
bool has_panels(TensorType type);
/// Of a type that has.
PanelFormat panel_format(TensorType type);
/// Panels [begin, end) of a matrix: `rows` file rows at `from`, all panels at `to`.
void pack_panels(TensorType type, const std::byte* from, int64_t rows, int64_t cols, int64_t begin, int64_t end,
                 std::byte* to);
/// The file's block number `block` of row `row`, format.block_bytes bytes.
void unpack_block(TensorType type, const std::byte* panels, int64_t cols, int64_t row, int64_t block, std::byte* out);

}  // namespace cairn::cpu
