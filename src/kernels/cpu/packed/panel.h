/// Weights as the int8 products read them, made from the file's rows once at load (WeightStore::load): kPanelRows rows
/// side by side, so that a vector register is one dword of each row, memory is read from front to back and nothing is
/// ever summed across lanes. All instruction sets share the layout. Every weight keeps its exact value.
///
/// A matrix is its panels in order, the last one filled up with rows of zeros. A panel is sections of kPanelSectionCols
/// columns, so that memory is read from one place; the last one may have fewer. A section is
///  * heads, one per block of the type, in order: what scales it, its halves and then its dwords, each [row]. As many
///    bytes in each section, a multiple of 64;
///  * bodies, one per 32 columns, in order: dwords, each [row].
///
/// Heads: the file's halves d (Q4_0, Q5_0, Q8_0, IQ4_NL), d and m (Q4_1, Q5_1); for MXFP4 the scale as the upper half
/// of a float. Q1_0, Q2_0: d once for each 32 columns. NVFP4: half the scales of 16 columns, as halves. Q4_K, Q5_K: the
/// file's dwords of d, dmin and packed scales. Q2_K: the file's 4 dwords of scales, then the one of d and dmin. Q3_K,
/// Q6_K, IQ4_XS: the half d and the signed scales, a byte each. Types whose values come from a grid or are packed in
/// base 3 become codes ("Codes" below): the half d and a factor of a byte for each 16 columns.
///
/// Bodies: "group k" are columns 4k to 4k+3, one a byte. Dwords of four bits: dword k < 4 has group k in the low
/// nibbles and group k + 4 in the high ones. Of two bits: dword j has group 4j + i in bits 2i, 2i+1. Of one bit: group
/// k in bit k. Eight bits: dword k has group k, with 128 added to Q8_0's values. Weights of several such parts have
/// them in the order in which groups want them, so that lines are read in order: Q5 the one bit, then four; Q3 the one,
/// then two; Q6 the two bits of groups 0 to 3, four bits, the two of groups 4 to 7.
///
/// ISA files include this header under their own flags, hence `static` (see quant/blocks.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensor_type.h"

namespace cairn::kernels::cpu {

inline constexpr int64_t kPanelRows = 16;
/// Bytes of a binary16 and of a dword for all rows.
static constexpr int64_t kPanelHalf = kPanelRows * 2;
static constexpr int64_t kPanelDword = kPanelRows * 4;

/// Columns of a section.
static constexpr int64_t kPanelSectionCols = 256;
/// Bodies of a section, one per 32 columns.
static constexpr int64_t kPanelSectionBlocks = kPanelSectionCols / 32;

struct PanelFormat {
  int32_t block_cols;  ///< columns that share a head
  int32_t head_halves;
  int32_t head_dwords;
  int32_t body_dwords;  ///< dwords per 32 columns

  constexpr int64_t head_bytes() const { return head_halves * kPanelHalf + head_dwords * kPanelDword; }
  constexpr int64_t body_bytes() const { return body_dwords * kPanelDword; }
  /// Bytes of a section before its bodies.
  constexpr int64_t section_heads_bytes() const {
    return (kPanelSectionCols / block_cols * head_bytes() + 63) / 64 * 64;
  }
  constexpr int64_t section_bytes() const { return section_heads_bytes() + kPanelSectionBlocks * body_bytes(); }
  constexpr int64_t panel_bytes(int64_t cols) const {
    return (cols + kPanelSectionCols - 1) / kPanelSectionCols * section_heads_bytes() + cols / 32 * body_bytes();
  }
  /// The format with the same bytes described as heads of 32 columns, if it has no dwords in its heads.
  constexpr PanelFormat of_32_cols() const { return {32, head_halves * 32 / block_cols, 0, body_dwords}; }
};

static constexpr PanelFormat kPanelQ4_0{32, 1, 0, 4};
static constexpr PanelFormat kPanelQ4_1{32, 2, 0, 4};
static constexpr PanelFormat kPanelQ5_0{32, 1, 0, 5};
static constexpr PanelFormat kPanelQ5_1{32, 2, 0, 5};
static constexpr PanelFormat kPanelQ8_0{32, 1, 0, 8};
static constexpr PanelFormat kPanelQ2_K{256, 0, 5, 2};
static constexpr PanelFormat kPanelQ3_K{256, 1, 4, 3};
static constexpr PanelFormat kPanelQ4_K{256, 0, 4, 4};
static constexpr PanelFormat kPanelQ5_K{256, 0, 4, 5};
static constexpr PanelFormat kPanelQ6_K{256, 1, 4, 6};
static constexpr PanelFormat kPanelIQ4_NL{32, 1, 0, 4};
static constexpr PanelFormat kPanelIQ4_XS{256, 1, 2, 4};
static constexpr PanelFormat kPanelMXFP4{32, 1, 0, 4};
static constexpr PanelFormat kPanelNVFP4{64, 4, 0, 4};
static constexpr PanelFormat kPanelQ1_0{128, 4, 0, 1};
static constexpr PanelFormat kPanelQ2_0{64, 2, 0, 2};
static constexpr PanelFormat kPanelCodes{256, 1, 4, 4};
/// The largest block_cols of any format.
static constexpr int32_t kPanelBlockColsMax = 256;

/// The values of a type's nibbles: weight = scale * values[nibble]. For types of kPanelCodes the scale is the binary16
/// d times the factor times `multiplier`; for the others the values are the format's own and the multiplier is 1.
struct Codebook {
  int8_t values[16];
  float multiplier;
};

// -- Functions that are not inline, because files compiled for an instruction set call them.
/// Whether the type has panels.
bool has_panels(TensorType type);
/// The format of a type's panels; the type must have panels.
PanelFormat panel_format(TensorType type);
/// Whether panels of the type take much more memory than the file's rows.
bool panels_grow(TensorType type);
/// The codebook of a type that has one: IQ4_NL, IQ4_XS, MXFP4, NVFP4, and those of kPanelCodes.
const Codebook& codebook_of(TensorType type);
/// Packs panels [begin, end) of a matrix: `from` has the matrix's `rows` file rows, `to` is the start of all panels.
void pack_panels(TensorType type, const std::byte* from, int64_t rows, int64_t cols, int64_t begin, int64_t end,
                 std::byte* to);
/// Decodes block number `block` of row `row`: panel_format(type).block_cols weights.
void decode_panel_block(TensorType type, const std::byte* panels, int64_t cols, int64_t row, int64_t block, float* out);

}  // namespace cairn::kernels::cpu
