/// How a quantised matrix lies on the device: in panels of 16 rows, so that lanes which read the same columns of
/// neighbouring rows read contiguous, aligned memory.
///
/// A matrix [experts, rows, cols] is for each expert ceil(rows / 16) panels of 16 rows' bytes, one after the other; the
/// last one's missing rows are zeros. A type's block is cut into sections, contiguous parts of it in the file's order,
/// and a section into pieces, which lie together. In a panel with `blocks` blocks to a row, byte o of section S of
/// block b of row r is at
///   16 * blocks * S.offset + ((b * (S.bytes / S.piece) + o / S.piece) * 16 + r) * S.piece + o % S.piece.
/// So every section begins at a multiple of 16, and a piece is as aligned as its size's largest power of two says.
///
/// Types of floats lie as in the file, row after row.
#pragma once

#include <cstdint>

#include "kernels/cuda/words.cuh"

namespace cairn::cuda {

inline constexpr int kPanelRows = 16;

/// Bytes [offset, offset + bytes) of a block; `piece` divides `bytes`.
struct Section {
  int offset = 0;
  int bytes = 0;
  int piece = 1;
};

/// A group of columns of a row: its block, and which of the block's groups it is. Offsets are below 4 GiB.
struct GroupPlace {
  const uint8_t* panel = nullptr;
  uint32_t blocks = 0;  ///< of a row
  uint32_t block = 0;
  uint32_t row = 0;  ///< of the panel
  int group = 0;

  /// Byte `offset` of a section of the block. What follows it in its piece lies behind it.
  template <Section kSection>
  CAIRN_HOST_DEVICE const uint8_t* at(int offset) const {
    static_assert(kSection.bytes % kSection.piece == 0);
    constexpr auto kPiece = static_cast<uint32_t>(kSection.piece);
    constexpr uint32_t kPieces = static_cast<uint32_t>(kSection.bytes) / kPiece;
    constexpr auto kBegin = static_cast<uint32_t>(kPanelRows * kSection.offset);
    const auto byte = static_cast<uint32_t>(offset);
    const uint32_t piece = (block * kPieces + byte / kPiece) * kPanelRows + row;
    return panel + (kBegin * blocks + piece * kPiece + byte % kPiece);
  }

  // What is at `offset` of a section, a multiple of its size.
  template <Section kSection>
  CAIRN_HOST_DEVICE uint32_t byte(int offset) const {
    return load_byte(at<kSection>(offset));
  }
  template <Section kSection>
  CAIRN_HOST_DEVICE uint32_t half_word(int offset) const {
    static_assert(kSection.piece % 2 == 0);
    return load_half_word(at<kSection>(offset));
  }
  template <Section kSection>
  CAIRN_HOST_DEVICE uint32_t word(int offset) const {
    static_assert(kSection.piece % 4 == 0);
    return load_word(at<kSection>(offset));
  }
  template <Section kSection>
  CAIRN_HOST_DEVICE Octet octet(int offset) const {
    static_assert(kSection.piece % 8 == 0);
    return load_octet(at<kSection>(offset));
  }
};

/// Group `group` of row `row` of a panel.
template <class F>
CAIRN_HOST_DEVICE GroupPlace group_place(const uint8_t* panel, uint32_t blocks, uint32_t row, uint32_t group) {
  return {panel, blocks, group / F::kGroups, row, static_cast<int>(group % F::kGroups)};
}

}  // namespace cairn::cuda
