/// Layout of a quantised matrix on the device: panels of 16 rows, so that lanes which read the same columns of
/// neighbouring rows read contiguous, aligned memory.
///
/// A matrix [experts, rows, cols] is for each expert ceil(rows / 16) panels of 16 rows' bytes, one after the other; the
/// last one's missing rows are zeros. A type's block is cut into sections, contiguous parts of it in the file's order,
/// and a section into pieces, which stay contiguous. In a panel with `blocks` blocks to a row, byte o of section S of
/// block b of row r is at
/// 16 * blocks * S.offset + ((b * (S.bytes / S.piece) + o / S.piece) * 16 + r) * S.piece + o % S.piece. So every
/// section begins at a multiple of 16, and a piece is aligned to the largest power of two that divides its size.
///
/// A section of four-bit codes (Section::nibbles) is arranged by groups of 32 columns instead, so that a lane loads
/// its codes of four groups at once and unpacks two columns with each instruction. Groups 4 q to 4 q + n - 1 of a row,
/// n being 4 unless the row ends, are a quad. The word of columns [8 o, 8 o + 8) of group g of row r is at
/// 16 * blocks * S.offset + 1024 * q + ((4 r + o) * n + g % 4) * 4. Column c of these eight has its code in the four
/// bits from 4 * (c / 2) + 16 * (c % 2) on.
///
/// Float types are stored as in the file, row after row.
#pragma once

#include <cstdint>

#include "kernels/cuda/weights/bit_unpack.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kPanelRows = 16;

/// Bytes [offset, offset + bytes) of a block; `piece` divides `bytes`.
struct Section {
  int offset = 0;
  int bytes = 0;
  int piece = 1;
  bool nibbles = false;  ///< four-bit codes, which are arranged by groups of columns; a piece is a word
};

/// Groups whose four-bit codes are together.
inline constexpr int kNibbleGroups = 4;
/// Words that a group's four-bit codes have in a row.
inline constexpr int kNibbleWords = 4;
/// Bytes of a whole quad of a panel.
inline constexpr int kNibbleQuadBytes = kPanelRows * kNibbleWords * kNibbleGroups * 4;

/// The first of the bits that column `column` of eight has in its word.
CAIRN_HOST_DEVICE_INLINE constexpr int nibble_shift(int column) { return column / 2 * 4 + column % 2 * 16; }

/// A group of columns of a row: its block, and its index in the block. Offsets are below 4 GiB.
struct GroupPlace {
  const uint8_t* panel = nullptr;
  uint32_t blocks = 0;  ///< blocks per row
  uint32_t block = 0;
  uint64_t row = 0;  ///< index of the row in the panel; in 64 bits as addresses are
  int group = 0;

  /// Address of byte `offset` of a section of the block; the rest of its piece follows it.
  template <Section kSection>
  CAIRN_HOST_DEVICE_INLINE const uint8_t* at(int offset) const {
    static_assert(kSection.bytes % kSection.piece == 0);
    constexpr uint64_t kPiece = kSection.piece, kPieces = kSection.bytes / kPiece;
    // Offsets are computed in 64 bits, so that constants become immediate offsets of load instructions.
    const auto byte = static_cast<uint32_t>(offset);
    const uint64_t section = uint64_t{kPanelRows * kSection.offset} * blocks;
    const uint64_t of_block = uint64_t{block} * (kPieces * kPanelRows * kPiece);
    return panel + (section + of_block + row * kPiece) + byte / kPiece * (kPanelRows * kPiece) + byte % kPiece;
  }

  /// Address of the word of octet `octet` of the group, in a section of four-bit codes of `groups` groups to a block.
  template <Section kSection>
  CAIRN_HOST_DEVICE_INLINE const uint8_t* nibbles_at(uint32_t groups, int octet) const {
    static_assert(kSection.nibbles);
    const uint32_t of_row = blocks * groups, number = block * groups + static_cast<uint32_t>(group);
    const uint32_t quad = number / kNibbleGroups, step = number % kNibbleGroups;
    const uint32_t together = of_row / kNibbleGroups > quad ? uint32_t{kNibbleGroups} : of_row % kNibbleGroups;
    const uint64_t section = uint64_t{kPanelRows * kSection.offset} * blocks + uint64_t{quad} * kNibbleQuadBytes;
    const uint64_t word = (row * kNibbleWords + static_cast<uint32_t>(octet)) * together + step;
    return panel + section + word * sizeof(uint32_t);
  }

  // Loads a value at `offset` of a section, a multiple of the value's size.
  template <Section kSection>
  CAIRN_HOST_DEVICE_INLINE uint32_t byte(int offset) const {
    return load_byte(at<kSection>(offset));
  }
  template <Section kSection>
  CAIRN_HOST_DEVICE_INLINE uint32_t half_word(int offset) const {
    static_assert(kSection.piece % 2 == 0);
    return load_half_word(at<kSection>(offset));
  }
  template <Section kSection>
  CAIRN_HOST_DEVICE_INLINE uint32_t word(int offset) const {
    static_assert(kSection.piece % 4 == 0);
    return load_word(at<kSection>(offset));
  }
  template <Section kSection>
  CAIRN_HOST_DEVICE_INLINE Octet octet(int offset) const {
    static_assert(kSection.piece % 8 == 0);
    return load_octet(at<kSection>(offset));
  }
  template <Section kSection>
  CAIRN_HOST_DEVICE_INLINE Sixteen sixteen(int offset) const {
    static_assert(kSection.piece % 16 == 0);
    return load_sixteen(at<kSection>(offset));
  }
};

/// The place of group `group` of row `row` of a panel.
template <class F>
CAIRN_HOST_DEVICE_INLINE GroupPlace group_place(const uint8_t* panel, uint32_t blocks, uint32_t row, uint32_t group) {
  return {panel, blocks, group / F::kGroups, row, static_cast<int>(group % F::kGroups)};
}

}  // namespace cairn::kernels::cuda
