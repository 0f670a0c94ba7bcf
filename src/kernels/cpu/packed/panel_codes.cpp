// Packs types whose weights come from a grid of vectors, or are stored in base 3, as 4-bit codes: a vector register
// looks up sixteen values at once. Every one of these formats has at most sixteen different values apart from scales,
// which are integers times powers of two. A block of 2 or 3 bits per weight grows to 4.6.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "base/check.h"
#include "kernels/cpu/packed/panel_blocks.h"
#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/iq_grids.h"

namespace cairn::kernels::cpu {
namespace {

// weight = d * factor * multiplier * value, exactly: d has 11 bits, factor 5 and value 6.
constexpr Codebook kIq1 = {{-9, -7, -1, 1, 7, 9}, 0.125f};  // (-1, 0, 1) + or - 1/8
constexpr Codebook kIq2 = {{-43, -25, -8, 8, 25, 43}, 0.125f};
constexpr Codebook kIq3Xxs = {{-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62}, 0.25f};
constexpr Codebook kIq3S = {{-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}, 1};
constexpr Codebook kTernary = {{-1, 0, 1, 2}, 1};

constexpr uint16_t kOneBinary16 = 0x3c00;  // 1 as a binary16

// Factors of columns 16 i to 16 i + 15.
int odd(int code) { return 2 * code + 1; }
int nibble(const uint8_t* bytes, int i) { return bytes[i / 2] >> (i % 2 * 4) & 15; }

int factor(const quant::BlockIQ1_S& b, int i) { return odd(b.qh[i / 2] >> 12 & 7); }
int factor(const quant::BlockIQ1_M& b, int i) { return odd(b.scales[i / 4] >> (3 * (i % 4)) & 7); }
int factor(const quant::BlockIQ2_XS& b, int i) { return odd(nibble(b.scales, i)); }
int factor(const quant::BlockIQ2_S& b, int i) { return odd(nibble(b.scales, i)); }
int factor(const quant::BlockIQ3_XXS& b, int i) { return odd(b.scales_and_signs[4 * (i / 2) + 3] >> 4); }
int factor(const quant::BlockIQ3_S& b, int i) { return odd(nibble(b.scales, i / 2)); }
int factor(const quant::BlockTQ1_0&, int) { return 1; }
int factor(const quant::BlockTQ2_0&, int) { return 1; }

template <class Block>
uint16_t exchange_d(Block& block, uint16_t d) {
  return std::exchange(block.d, d);
}
// The binary16 is in the high nibbles of the four scales.
uint16_t exchange_d(quant::BlockIQ1_M& block, uint16_t d) {
  uint32_t before = 0;
  for (int i = 0; i < 4; ++i) {
    before |= static_cast<uint32_t>(block.scales[i] >> 12) << (4 * i);
    block.scales[i] = static_cast<uint16_t>((block.scales[i] & 0xfff) | (d >> (4 * i) & 15) << 12);
  }
  return static_cast<uint16_t>(before);
}

// The format's own decoder, with d = 1, gives factor * multiplier * value.
template <TensorType kType, class Block, const Codebook& kCodebook>
void pack(const std::byte* from, const PanelPlace& to) {
  Block block;
  std::memcpy(&block, from, sizeof(block));
  const uint16_t d = exchange_d(block, kOneBinary16);
  std::memcpy(to.half(0), &d, 2);
  float weights[256];
  quant::decode_row(kType, std::as_bytes(std::span(&block, 1)), weights);
  uint8_t codes[256];
  for (int i = 0; i < 16; ++i) {
    const int of_16 = factor(block, i);
    to.head(i / 4)[i % 4] = static_cast<std::byte>(of_16);
    const float inverse = 1 / (static_cast<float>(of_16) * kCodebook.multiplier);
    for (int c = 16 * i; c < 16 * i + 16; ++c) {
      // The inverse may be rounded, so the product is only close to the integer.
      const auto value = static_cast<int8_t>(std::lrint(weights[c] * inverse));
      const auto* code = std::ranges::find(kCodebook.values, value);
      CAIRN_DCHECK(code != std::end(kCodebook.values));
      codes[c] = static_cast<uint8_t>(code - kCodebook.values);
    }
  }
  for (int b = 0; b < 8; ++b) {
    for (int k = 0; k < 16; ++k) {
      to.body(4 * b + k / 4)[k % 4] = static_cast<std::byte>(codes[32 * b + k] | codes[32 * b + 16 + k] << 4);
    }
  }
}

// IQ2_XXS has a packing of its own, many times faster than pack(), since its rows are packed while they are multiplied
// if there is no room for panels. Eight weights are the bytes of a word.
constexpr uint64_t kBytes = 0x0101010101010101;

struct Iq2XxsWords {
  uint64_t codes[256];  // codes of a grid row with all signs positive
  uint64_t signs[128];  // all ones in the bytes where a set of signs is negative

  Iq2XxsWords() {
    for (int row = 0; row < 256; ++row) {
      codes[row] = 0;
      for (int i = 0; i < 8; ++i) {
        const auto* code = std::ranges::find(kIq2.values, quant::kIq2XxsGrid.rows[row][i]);
        codes[row] |= static_cast<uint64_t>(code - kIq2.values) << (8 * i);
      }
    }
    for (uint32_t set = 0; set < 128; ++set) {
      signs[set] = 0;
      for (int i = 0; i < 8; ++i) signs[set] |= (quant::even_signs(set) >> i & 1) * (uint64_t{255} << (8 * i));
    }
  }
};

void pack_iq2_xxs(const std::byte* from, const PanelPlace& to) {
  static const Iq2XxsWords words;
  constexpr uint64_t kLastCode = 5;  // the code of -v is this minus the code of v
  quant::BlockIQ2_XXS block;
  std::memcpy(&block, from, sizeof(block));
  std::memcpy(to.half(0), &block.d, 2);
  for (int b = 0; b < 8; ++b) {
    const uint8_t* indices = block.qs + 8 * b;
    uint32_t signs;
    std::memcpy(&signs, indices + 4, sizeof(signs));
    std::memset(to.head(b / 2) + b % 2 * 2, odd(static_cast<int>(signs >> 28)), 2);
    uint64_t parts[4];
    for (int l = 0; l < 4; ++l) {
      const uint64_t codes = words.codes[indices[l]];
      parts[l] = codes ^ ((codes ^ (kLastCode * kBytes - codes)) & words.signs[signs >> (7 * l) & 127]);
    }
    for (int i = 0; i < 2; ++i) {
      const uint64_t both = parts[i] | parts[i + 2] << 4;
      std::memcpy(to.body(4 * b + 2 * i), &both, 4);
      const uint64_t high = both >> 32;
      std::memcpy(to.body(4 * b + 2 * i + 1), &high, 4);
    }
  }
}

template <TensorType kType, class Block, const Codebook& kCodebook>
constexpr PanelPacking packing() {
  return {kType, kPanelCodes, pack<kType, Block, kCodebook>, nullptr, &kCodebook};
}

constexpr PanelPacking kCodePackings[] = {packing<TensorType::kIQ1_S, quant::BlockIQ1_S, kIq1>(),
                                          packing<TensorType::kIQ1_M, quant::BlockIQ1_M, kIq1>(),
                                          {TensorType::kIQ2_XXS, kPanelCodes, pack_iq2_xxs, nullptr, &kIq2},
                                          packing<TensorType::kIQ2_XS, quant::BlockIQ2_XS, kIq2>(),
                                          packing<TensorType::kIQ2_S, quant::BlockIQ2_S, kIq2>(),
                                          packing<TensorType::kIQ3_XXS, quant::BlockIQ3_XXS, kIq3Xxs>(),
                                          packing<TensorType::kIQ3_S, quant::BlockIQ3_S, kIq3S>(),
                                          packing<TensorType::kTQ1_0, quant::BlockTQ1_0, kTernary>(),
                                          packing<TensorType::kTQ2_0, quant::BlockTQ2_0, kTernary>()};

}  // namespace

const PanelPacking* panel_codes_packing(TensorType type) {
  const auto* found = std::ranges::find(kCodePackings, type, &PanelPacking::type);
  return found != std::end(kCodePackings) ? found : nullptr;
}

void decode_codes(const PanelPlace& from, const Codebook& codebook, float* out) {
  uint16_t half;
  std::memcpy(&half, from.half(0), 2);
  const float d = quant::half_to_float(half) * codebook.multiplier;
  for (int c = 0; c < 256; ++c) {
    const auto byte = static_cast<uint8_t>(from.body(4 * (c / 32) + c % 16 / 4)[c % 4]);
    const auto factor = static_cast<uint8_t>(from.head(c / 64)[c / 16 % 4]);
    out[c] = d * static_cast<float>(factor) * static_cast<float>(codebook.values[c % 32 < 16 ? byte & 15 : byte >> 4]);
  }
}

}  // namespace cairn::kernels::cpu
