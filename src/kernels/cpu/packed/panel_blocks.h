/// Converts one row's block of a type between the file's order of bits and the panel's (panel.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed/panel.h"

namespace cairn::kernels::cpu {

/// Addresses of one row of one block of a panel: its first binary16 and dword of the head, and the first dword of the
/// bodies.
struct PanelPlace {
  std::byte* half_0;
  std::byte* head_0;
  std::byte* body_0;

  std::byte* half(int i) const { return half_0 + i * kPanelHalf; }
  std::byte* head(int i) const { return head_0 + i * kPanelDword; }
  std::byte* body(int i) const { return body_0 + i * kPanelDword; }
};

/// How a type is packed into panels.
struct PanelPacking {
  TensorType type;
  PanelFormat format;
  void (*pack)(const std::byte* block, const PanelPlace& to);
  /// Restores the file's bytes; nullptr for types of kPanelCodes, which are decoded by codebook.
  void (*unpack)(const PanelPlace& from, std::byte* block);
  const Codebook* codebook = nullptr;
};

/// The packing of a type; nullptr if the type has no panels.
const PanelPacking* panel_packing(TensorType type);

/// The packing of a type of kPanelCodes (panel_codes.cpp); nullptr for other types.
const PanelPacking* panel_codes_packing(TensorType type);
/// Decodes the 256 weights of a block of such a type.
void decode_codes(const PanelPlace& from, const Codebook& codebook, float* out);

}  // namespace cairn::kernels::cpu
