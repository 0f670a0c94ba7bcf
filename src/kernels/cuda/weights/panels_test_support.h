/// For tests: matrices in panels (panels.cuh), made on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/weights/formats.cuh"

namespace cairn::kernels::cuda {

/// Packs `rows` rows of `blocks` blocks, which are in `file_rows` as in a file, into panels; aligned for every load.
template <class F>
std::vector<uint8_t> panels_of(std::span<const uint8_t> file_rows, size_t rows, size_t blocks) {
  constexpr size_t kBytes = F::kBytes;
  const size_t panel_bytes = kPanelRows * blocks * kBytes;
  std::vector<uint8_t> panels((rows + kPanelRows - 1) / kPanelRows * panel_bytes);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t block = 0; block < blocks; ++block) {
      for (const Section& section : F::kSections) {
        if (section.nibbles) continue;
        const auto begin = static_cast<size_t>(section.offset), piece = static_cast<size_t>(section.piece);
        const size_t pieces = static_cast<size_t>(section.bytes) / piece;
        for (size_t o = 0; o < static_cast<size_t>(section.bytes); ++o) {
          const size_t number = (block * pieces + o / piece) * kPanelRows + row % kPanelRows;
          panels[row / kPanelRows * panel_bytes + kPanelRows * blocks * begin + number * piece + o % piece] =
              file_rows[(row * blocks + block) * kBytes + begin + o];
        }
      }
    }
  }
  if constexpr (F::kNibbles) {
    for (size_t row = 0; row < rows; ++row) {
      for (size_t block = 0; block < blocks; ++block) {
        const uint8_t* codes = file_rows.data() + (row * blocks + block) * kBytes + F::kQs.offset;
        for (int at = 0; at < F::kGroups * kGroupColumns; ++at) {
          const int group = at / kGroupColumns, column = at % kGroupColumns;
          const NibbleSource source = F::nibble_source(group, column);
          const uint32_t code = (codes[source.byte] >> (source.upper ? 4 : 0)) & 15u;
          const GroupPlace place = {panels.data() + row / kPanelRows * panel_bytes, static_cast<uint32_t>(blocks),
                                    static_cast<uint32_t>(block), row % kPanelRows, group};
          auto* word = const_cast<uint8_t*>(place.nibbles_at<F::kQs>(F::kGroups, column / 8));
          const int shift = nibble_shift(column % 8);
          word[shift / 8] = static_cast<uint8_t>(word[shift / 8] | code << (shift % 8));
        }
      }
    }
  }
  return panels;
}

}  // namespace cairn::kernels::cuda
