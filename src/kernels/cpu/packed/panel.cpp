#include "kernels/cpu/packed/panel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/packed/panel_blocks.h"

namespace cairn::kernels::cpu {
namespace {

// Maximum bytes of a row's block in a file.
constexpr int64_t kBlockBytesMax = 256;

PanelPlace place_of(const PanelFormat& format, std::byte* panel, int64_t block, int64_t row) {
  const int64_t blocks = kPanelSectionCols / format.block_cols;  // blocks of a section
  std::byte* section = panel + block / blocks * format.section_bytes();
  std::byte* head = section + block % blocks * format.head_bytes();
  const int64_t bodies = block % blocks * (format.block_cols / 32);
  return {head + 2 * row, head + format.head_halves * kPanelHalf + 4 * row,
          section + format.section_heads_bytes() + bodies * format.body_bytes() + 4 * row};
}

const PanelPacking& packing_of(TensorType type) {
  const PanelPacking* packing = panel_packing(type);
  CAIRN_CHECK(packing != nullptr);
  return *packing;
}

}  // namespace

bool has_panels(TensorType type) { return panel_packing(type) != nullptr; }

PanelFormat panel_format(TensorType type) { return packing_of(type).format; }

bool panels_grow(TensorType type) { return panel_codes_packing(type) != nullptr; }

const Codebook& codebook_of(TensorType type) {
  const PanelPacking& packing = packing_of(type);
  CAIRN_CHECK(packing.codebook != nullptr);
  return *packing.codebook;
}

void pack_panels(TensorType type, const std::byte* from, int64_t rows, int64_t cols, int64_t begin, int64_t end,
                 std::byte* to) {
  const PanelPacking& packing = packing_of(type);
  const PanelFormat& format = packing.format;
  const int64_t block_bytes = row_bytes(type, format.block_cols);
  const int64_t blocks = cols / format.block_cols;
  for (int64_t p = begin; p < end; ++p) {
    std::byte* panel = to + p * format.panel_bytes(cols);
    const int64_t count = std::min(kPanelRows, rows - p * kPanelRows);
    if (count < kPanelRows) std::memset(panel, 0, static_cast<size_t>(format.panel_bytes(cols)));
    for (int64_t b = 0; b < blocks; ++b) {
      const std::byte* block = from + p * kPanelRows * blocks * block_bytes + b * block_bytes;
      for (int64_t r = 0; r < count; ++r) {
        packing.pack(block + r * blocks * block_bytes, place_of(format, panel, b, r));
      }
    }
  }
}

void decode_panel_block(TensorType type, const std::byte* panels, int64_t cols, int64_t row, int64_t block,
                        float* out) {
  const PanelPacking& packing = packing_of(type);
  const PanelFormat& format = packing.format;
  // The panel is only read: PanelPlace serves both directions.
  auto* panel = const_cast<std::byte*>(panels) + row / kPanelRows * format.panel_bytes(cols);
  const PanelPlace place = place_of(format, panel, block, row % kPanelRows);
  if (packing.unpack == nullptr) return decode_codes(place, *packing.codebook, out);
  std::array<std::byte, kBlockBytesMax> bytes;
  packing.unpack(place, bytes.data());
  decode_weights(type, bytes.data(), format.block_cols, out);
}

}  // namespace cairn::kernels::cpu
