// F32, F16 and BF16 rows.
#include "quant/blocks.h"
#include "quant/decode.h"

namespace cairn::quant {

void decode_f32(const std::byte* blocks, std::span<float> out) {
  if (!out.empty()) std::memcpy(out.data(), blocks, out.size_bytes());
}

void decode_f16(const std::byte* blocks, std::span<float> out) {
  each_block<uint16_t, 1>(blocks, out, [](uint16_t half, float* y) { *y = half_to_float(half); });
}

void decode_bf16(const std::byte* blocks, std::span<float> out) {
  each_block<uint16_t, 1>(blocks, out, [](uint16_t bf16, float* y) { *y = bf16_to_float(bf16); });
}

}  // namespace cairn::quant
