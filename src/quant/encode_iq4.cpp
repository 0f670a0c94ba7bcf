// IQ4_NL and IQ4_XS: 16 levels of a codebook.
#include <algorithm>

#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/encode.h"
#include "quant/encode_scaled.h"

namespace cairn::quant {
namespace {

uint8_t iq4_code(float level) {
  int code = 0;
  for (int i = 1; i < 16; ++i) code += static_cast<float>(kIq4Values[i]) <= level ? 1 : 0;
  return static_cast<uint8_t>(code);
}

// Low nibbles, then high.
void write_iq4(const float* levels, uint8_t* qs) {
  for (int j = 0; j < 16; ++j) qs[j] = static_cast<uint8_t>(iq4_code(levels[j]) | iq4_code(levels[j + 16]) << 4);
}

}  // namespace

void encode_iq4_nl(std::span<const float> in, const float* importance, std::byte* blocks) {
  each_block_of<BlockIQ4_NL, 32>(in, importance, blocks, encodable_max(TensorType::kIQ4_NL),
                                 [](const float(&x)[32], const float(&w)[32], BlockIQ4_NL& b) {
                                   b.d = search_half<Iq4Levels, 32>(x, w);
                                   float levels[32];
                                   write_levels<Iq4Levels, 32>(x, half_to_float(b.d), levels);
                                   write_iq4(levels, b.qs);
                                 });
}

void encode_iq4_xs(std::span<const float> in, const float* importance, std::byte* blocks) {
  each_block_of<BlockIQ4_XS, 256>(in, importance, blocks, encodable_max(TensorType::kIQ4_XS),
                                  [](const float(&x)[256], const float(&w)[256], BlockIQ4_XS& b) {
                                    const ScaledBlock<Iq4Levels, 32, -32, 31> fitted(x, w);
                                    b.d = fitted.d();
                                    b.scales_h = 0;
                                    std::fill_n(b.scales_l, 4, uint8_t{0});
                                    float levels[256];
                                    fitted.levels(x, levels);
                                    for (int g = 0; g < 8; ++g) {
                                      const int code = fitted.code(g) + 32;
                                      b.scales_l[g / 2] =
                                          static_cast<uint8_t>(b.scales_l[g / 2] | (code & 15) << (g % 2 * 4));
                                      b.scales_h = static_cast<uint16_t>(b.scales_h | (code >> 4) << (2 * g));
                                      write_iq4(levels + 32 * g, b.qs + 16 * g);
                                    }
                                  });
}

}  // namespace cairn::quant
