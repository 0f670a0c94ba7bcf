/// One row's block of a type, between the file's order of bits and the panel's (panel.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed/panel.h"

namespace cairn::cpu {

/// Where one row of one block of a panel is: the row's first half and dword of the head, and first dword of the bodies.
struct PanelPlace {
  std::byte* half_0;
  std::byte* head_0;
  std::byte* body_0;

  std::byte* half(int i) const { return half_0 + i * kPanelHalf; }
  std::byte* head(int i) const { return head_0 + i * kPanelDword; }
  std::byte* body(int i) const { return body_0 + i * kPanelDword; }
};

/// How a type gets into its panels.
struct PanelPacking {
  TensorType type;
  PanelFormat format;
  void (*pack)(const std::byte* block, const PanelPlace& to);
  /// Back to the file's bytes; nullptr for a type of kPanelCodes, which are decoded by codebook.
  void (*unpack)(const PanelPlace& from, std::byte* block);
  const Codebook* codebook = nullptr;
};

/// nullptr if the type has no panels.
const PanelPacking* panel_packing(TensorType type);

/// Those of kPanelCodes (panel_codes.cpp); nullptr if the type is none.
const PanelPacking* panel_codes_packing(TensorType type);
/// The weights of such a block, 256.
void decode_codes(const PanelPlace& from, const Codebook& codebook, float* out);

}  // namespace cairn::cpu
