#include "kernels/cpu/panel.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/panel_blocks.h"

namespace cairn::cpu {
namespace {

PanelPlace place_of(const PanelFormat& format, std::byte* panel, int64_t cols, int64_t block, int64_t row) {
  std::byte* head = panel + block * format.head_bytes();
  const int64_t bodies = block * (format.block_cols / 32);
  return {head + 2 * row, head + format.head_halves * kPanelHalf + 4 * row,
          panel + format.body_begin(cols) + bodies * format.body_bytes() + 4 * row};
}

const PanelPacking& packing_of(TensorType type) {
  const PanelPacking* packing = panel_packing(type);
  CAIRN_CHECK(packing != nullptr);
  return *packing;
}

}  // namespace

bool has_panels(TensorType type) { return panel_packing(type) != nullptr; }

PanelFormat panel_format(TensorType type) { return packing_of(type).format; }

void pack_panels(TensorType type, const std::byte* from, int64_t rows, int64_t cols, int64_t begin, int64_t end,
                 std::byte* to) {
  const auto& [format, pack, unpack] = packing_of(type);
  const int64_t blocks = cols / format.block_cols;
  const int64_t row_bytes = blocks * format.block_bytes;
  for (int64_t p = begin; p < end; ++p) {
    std::byte* panel = to + p * format.panel_bytes(cols);
    const int64_t count = std::min(kPanelRows, rows - p * kPanelRows);
    if (count < kPanelRows) std::memset(panel, 0, static_cast<size_t>(format.panel_bytes(cols)));
    for (int64_t b = 0; b < blocks; ++b) {
      const std::byte* block = from + p * kPanelRows * row_bytes + b * format.block_bytes;
      for (int64_t r = 0; r < count; ++r) pack(block + r * row_bytes, place_of(format, panel, cols, b, r));
    }
  }
}

void unpack_block(TensorType type, const std::byte* panels, int64_t cols, int64_t row, int64_t block, std::byte* out) {
  const auto& [format, pack, unpack] = packing_of(type);
  // Only read from: a place serves both directions.
  auto* panel = const_cast<std::byte*>(panels) + row / kPanelRows * format.panel_bytes(cols);
  unpack(place_of(format, panel, cols, block, row % kPanelRows), out);
}

}  // namespace cairn::cpu
