// Packs quantised matrices into panels (panels.cuh), once, when they are loaded: one thread for one or two neighbouring
// bytes of a panel. It reads single bytes, since the file's rows may begin at any address.
#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/weights/formats.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kBlocksMax = 2048;  // about as many as a large GPU runs at a time
constexpr int kSectionsMax = 5;

struct LayOut {
  const uint8_t* file_rows = nullptr;
  uint8_t* panels = nullptr;
  uint32_t rows = 0;
  uint32_t blocks = 0;  ///< blocks per row
  uint32_t block_bytes = 0;
  uint32_t bytes = 0;  ///< bytes of all panels
  int section_count = 0;
  Section sections[kSectionsMax] = {};
};

// The source of a byte of a panel, which is not of four-bit codes.
struct Source {
  uint32_t row;
  uint32_t block;
  uint32_t byte;
  bool nibbles;
};

__device__ __forceinline__ Source source_of(const LayOut& call, uint32_t at) {
  Section section = call.sections[0];
  for (int i = 1; i < call.section_count; ++i) {
    const Section next = call.sections[i];
    if (at >= kPanelRows * call.blocks * static_cast<uint32_t>(next.offset)) section = next;
  }
  const auto offset = static_cast<uint32_t>(section.offset), piece = static_cast<uint32_t>(section.piece);
  const uint32_t pieces = static_cast<uint32_t>(section.bytes) / piece;
  const uint32_t in_section = at - kPanelRows * call.blocks * offset;
  const uint32_t number = in_section / piece;
  const uint32_t of_row = number / kPanelRows;
  return {number % kPanelRows, of_row / pieces, offset + of_row % pieces * piece + in_section % piece, section.nibbles};
}

template <class Unit>
__global__ __launch_bounds__(kBlock) void lay_out_kernel(const __grid_constant__ LayOut call) {
  constexpr uint32_t kUnit = sizeof(Unit);
  const uint32_t panel_bytes = kPanelRows * call.blocks * call.block_bytes;
  for (uint32_t i = blockIdx.x * kBlock + threadIdx.x; i < call.bytes / kUnit; i += gridDim.x * kBlock) {
    const uint32_t panel = i * kUnit / panel_bytes;
    const Source source = source_of(call, i * kUnit % panel_bytes);
    if (source.nibbles) continue;
    const uint32_t row = panel * kPanelRows + source.row;
    uint32_t value = 0;
    if (row < call.rows) {
      const uint64_t block = uint64_t{row} * call.blocks + source.block;
      const uint8_t* from = call.file_rows + block * call.block_bytes + source.byte;
#pragma unroll
      for (uint32_t k = 0; k < kUnit; ++k) value |= load_byte(from + k) << (8 * k);
    }
    reinterpret_cast<Unit*>(call.panels)[i] = static_cast<Unit>(value);
  }
}

// Arranges the four-bit codes of F: one thread for a word.
template <class F>
__global__ __launch_bounds__(kBlock) void lay_out_nibbles(const __grid_constant__ LayOut call) {
  const uint32_t groups = call.blocks * F::kGroups, words_of_panel = kPanelRows * groups * kNibbleWords;
  const uint32_t panel_bytes = kPanelRows * call.blocks * call.block_bytes;
  for (uint32_t i = blockIdx.x * kBlock + threadIdx.x; i < call.bytes / panel_bytes * words_of_panel;
       i += gridDim.x * kBlock) {
    const uint32_t panel = i / words_of_panel, octet = i % kNibbleWords, group = i / kNibbleWords % groups;
    const uint32_t panel_row = i % words_of_panel / kNibbleWords / groups, row = panel * kPanelRows + panel_row;
    const GroupPlace place = group_place<F>(call.panels + uint64_t{panel} * panel_bytes, call.blocks, panel_row, group);
    uint32_t word = 0;
    if (row < call.rows) {
      const uint8_t* block = call.file_rows + (uint64_t{row} * call.blocks + place.block) * call.block_bytes;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const NibbleSource source = F::nibble_source(place.group, static_cast<int>(octet) * 8 + c);
        const uint32_t byte = load_byte(block + F::kQs.offset + source.byte);
        word |= ((source.upper ? byte >> 4 : byte) & 15u) << nibble_shift(c);
      }
    }
    const uint8_t* at = place.nibbles_at<F::kQs>(F::kGroups, static_cast<int>(octet));
    *reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(at)) = word;
  }
}

}  // namespace

bool has_panels(TensorType type) { return has_format(AllFormats(), type); }

int64_t device_bytes(TensorType type, int64_t rows, int64_t cols) {
  return (has_panels(type) ? (rows + kPanelRows - 1) / kPanelRows * kPanelRows : rows) * row_bytes(type, cols);
}

void pack_panels(LaunchQueue& stream, TensorType type, const void* file_rows, int64_t rows, int64_t cols,
                 void* panels) {
  const int64_t bytes = device_bytes(type, rows, cols);
  CAIRN_DCHECK(rows > 0 && bytes <= INT32_MAX && aligned16(panels));
  const TensorTypeInfo& info = tensor_type_info(type);
  LayOut call{.file_rows = static_cast<const uint8_t*>(file_rows),
              .panels = static_cast<uint8_t*>(panels),
              .rows = static_cast<uint32_t>(rows),
              .blocks = static_cast<uint32_t>(cols / info.block_elements),
              .block_bytes = static_cast<uint32_t>(info.block_bytes),
              .bytes = static_cast<uint32_t>(bytes)};
  const bool known = visit_format(AllFormats(), type, [&]<class F>() {
    static_assert(std::size(F::kSections) <= kSectionsMax);
    std::ranges::copy(F::kSections, call.sections);
    call.section_count = static_cast<int>(std::size(F::kSections));
    if constexpr (F::kNibbles) {
      const int64_t words = bytes / F::kBytes * F::kGroups * kNibbleWords;
      launch(lay_out_nibbles<F>, blocks_of(words, kBlock, kBlocksMax), kBlock, 0, stream, call);
    }
  });
  CAIRN_DCHECK(known);
  const std::span<const Section> sections(call.sections, static_cast<size_t>(call.section_count));
  const bool pairs = std::ranges::all_of(sections, [](const Section& each) { return each.piece % 2 == 0; });
  if (pairs) {
    launch(lay_out_kernel<uint16_t>, blocks_of(bytes / 2, kBlock, kBlocksMax), kBlock, 0, stream, call);
  } else {
    launch(lay_out_kernel<uint8_t>, blocks_of(bytes, kBlock, kBlocksMax), kBlock, 0, stream, call);
  }
}

}  // namespace cairn::kernels::cuda
