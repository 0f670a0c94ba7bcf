// F32, F16 and BF16 rows. The importance of columns changes nothing: each element is rounded for itself.
#include "quant/blocks.h"
#include "quant/encode.h"

namespace cairn::quant {

void encode_f32(std::span<const float> in, const float* /*importance*/, std::byte* blocks) {
  if (!in.empty()) std::memcpy(blocks, in.data(), in.size_bytes());
}

void encode_f16(std::span<const float> in, const float* /*importance*/, std::byte* blocks) {
  for (size_t i = 0; i < in.size(); ++i) {
    const uint16_t half = float_to_half(in[i]);
    std::memcpy(blocks + 2 * i, &half, 2);
  }
}

void encode_bf16(std::span<const float> in, const float* /*importance*/, std::byte* blocks) {
  for (size_t i = 0; i < in.size(); ++i) {
    const uint16_t bf16 = float_to_bf16(in[i]);
    std::memcpy(blocks + 2 * i, &bf16, 2);
  }
}

}  // namespace cairn::quant
