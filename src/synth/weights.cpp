#include "synth/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/check.h"
#include "quant/blocks.h"
#include "quant/codec.h"
#include "synth/shape.h"

namespace cairn::synth {
namespace {

// Equally likely values of a normal distribution, so that sampling is a table look-up.
constexpr int kLevels = 4'096;

// The x below which a normal number is with probability p, by Newton's method.
double normal_quantile(double p) {
  double x = 0;
  for (int i = 0; i < 60; ++i) {
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    x += std::clamp((p - below) / density, -0.5, 0.5);
  }
  return x;
}

const std::array<float, kLevels>& normal_levels() {
  static const std::array<float, kLevels> levels = [] {
    std::array<float, kLevels> made{};
    for (int i = 0; i < kLevels / 2; ++i) {
      const auto x = static_cast<float>(normal_quantile((i + 0.5) / kLevels));
      made[i] = x;
      made[kLevels - 1 - i] = -x;
    }
    return made;
  }();
  return levels;
}

void fill_bits(std::span<std::byte> out, Random& random) {
  for (size_t i = 0; i < out.size(); i += sizeof(uint64_t)) {
    const uint64_t bits = random.next();
    std::memcpy(out.data() + i, &bits, std::min(sizeof(bits), out.size() - i));
  }
}

template <class Block, class Finish>
void each_block(std::span<std::byte> blocks, Finish finish) {
  for (size_t at = 0; at < blocks.size(); at += sizeof(Block)) {
    Block block;
    std::memcpy(&block, blocks.data() + at, sizeof(Block));
    finish(block);
    std::memcpy(blocks.data() + at, &block, sizeof(Block));
  }
}

// The middle of the levels: the value of a format's minimum, in units of the scale, that gives a mean of 0.
float middle(TensorType type) {
  switch (type) {
    case TensorType::kQ2_K:
      return 1.5f;
    case TensorType::kQ4_1:
    case TensorType::kQ4_K:
      return 7.5f;
    case TensorType::kQ5_1:
    case TensorType::kQ5_K:
      return 15.5f;
    default:
      return 0;
  }
}

// Whether the levels are not symmetric around 0, which a random sign of the scale can correct.
bool has_signed_scale(TensorType type) {
  return type == TensorType::kQ4_0 || type == TensorType::kQ5_0 || type == TensorType::kQ8_0 ||
         type == TensorType::kQ3_K || type == TensorType::kQ6_K || type == TensorType::kIQ4_NL ||
         type == TensorType::kIQ4_XS;
}

// For blocks with a 6-bit scale and minimum for each group: sets the minimum from the scale.
void mirror_k4_scales(uint8_t (&scales)[12]) {
  for (int j = 0; j < 4; ++j) {
    scales[4 + j] = scales[j];
    scales[8 + j] = static_cast<uint8_t>((scales[8 + j] & 15) * 17);
  }
}

// Two-bit levels 0, 1 and 2: replaces 3 by 1.
template <size_t kBytes>
void make_ternary(uint8_t (&bytes)[kBytes]) {
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(byte & ~((byte & (byte << 1)) & 0xaa));
}

// Converts a byte to the format's base-3 fraction of five digits.
template <size_t kBytes>
void make_base3(uint8_t (&bytes)[kBytes]) {
  for (uint8_t& byte : bytes) {
    const int digits = byte * 243 >> 8;
    byte = static_cast<uint8_t>((digits * 256 + 242) / 243);
  }
}

float code_value(TensorType type, int code) {
  return type == TensorType::kMXFP4 ? quant::e8m0_half_to_float(static_cast<uint8_t>(code))
                                    : quant::ue4m3_half_to_float(static_cast<uint8_t>(code));
}

bool has_byte_scale(TensorType type) { return type == TensorType::kMXFP4 || type == TensorType::kNVFP4; }

// Two codes around `scale`, in the proportion that gives its square on average.
void choose_codes(TensorType type, float scale, std::array<uint8_t, 256>& codes) {
  const int last = type == TensorType::kMXFP4 ? 254 : 126;
  int low = 0;
  while (low + 1 < last && code_value(type, low + 1) <= scale) ++low;
  const float a = code_value(type, low);
  const float b = code_value(type, low + 1);
  const float share = std::clamp((scale * scale - a * a) / (b * b - a * a), 0.0f, 1.0f);
  const auto high = static_cast<size_t>(std::lround(share * 256));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i < high ? low + 1 : low);
}

// Fills formats in which every bit pattern is a valid block once the scale is set; false for any other.
template <class ScaleOf>
bool finish_plain(TensorType type, const ScaleOf& scale_of, std::span<std::byte> blocks) {
  switch (type) {
    case TensorType::kQ4_0:
      each_block<quant::BlockQ4_0>(blocks, scale_of);
      return true;
    case TensorType::kQ5_0:
      each_block<quant::BlockQ5_0>(blocks, scale_of);
      return true;
    case TensorType::kQ3_K:
      each_block<quant::BlockQ3_K>(blocks, scale_of);
      return true;
    case TensorType::kQ6_K:
      each_block<quant::BlockQ6_K>(blocks, scale_of);
      return true;
    case TensorType::kIQ1_S:
      each_block<quant::BlockIQ1_S>(blocks, scale_of);
      return true;
    case TensorType::kIQ2_XXS:
      each_block<quant::BlockIQ2_XXS>(blocks, scale_of);
      return true;
    case TensorType::kIQ2_XS:
      each_block<quant::BlockIQ2_XS>(blocks, scale_of);
      return true;
    case TensorType::kIQ2_S:
      each_block<quant::BlockIQ2_S>(blocks, scale_of);
      return true;
    case TensorType::kIQ3_XXS:
      each_block<quant::BlockIQ3_XXS>(blocks, scale_of);
      return true;
    case TensorType::kIQ3_S:
      each_block<quant::BlockIQ3_S>(blocks, scale_of);
      return true;
    case TensorType::kIQ4_NL:
      each_block<quant::BlockIQ4_NL>(blocks, scale_of);
      return true;
    case TensorType::kIQ4_XS:
      each_block<quant::BlockIQ4_XS>(blocks, scale_of);
      return true;
    case TensorType::kQ1_0:
      each_block<quant::BlockQ1_0>(blocks, scale_of);
      return true;
    default:
      return false;
  }
}

}  // namespace

WeightMaker::Scales WeightMaker::scales_for(TensorType type, float scale, float spread) {
  Scales scales;
  for (size_t i = 0; i < scales.d.size(); ++i) {
    float d = scale * (1 + spread * (static_cast<float>(i % 128) / 63.5f - 1));
    if (has_signed_scale(type) && i >= 128) d = -d;
    scales.d[i] = quant::float_to_half(d);
    scales.offset[i] = quant::float_to_half(middle(type) * quant::half_to_float(scales.d[i]));
  }
  if (has_byte_scale(type)) choose_codes(type, scale, scales.code);
  return scales;
}

void WeightMaker::finish(TensorType type, const Scales& scales, std::span<std::byte> blocks) {
  const auto scale_of = [&scales](auto& block) { block.d = scales.d[block.d & 255]; };
  const auto scale_and_minimum = [&scales](auto& block) {
    block.m = static_cast<uint16_t>(scales.offset[block.d & 255] ^ 0x8000u);
    block.d = scales.d[block.d & 255];
  };
  const auto k4_scales = [&scales](auto& block) {
    block.dmin = scales.offset[block.d & 255];
    block.d = scales.d[block.d & 255];
    mirror_k4_scales(block.scales);
  };
  if (finish_plain(type, scale_of, blocks)) return;
  switch (type) {
    case TensorType::kQ4_1:
      return each_block<quant::BlockQ4_1>(blocks, scale_and_minimum);
    case TensorType::kQ5_1:
      return each_block<quant::BlockQ5_1>(blocks, scale_and_minimum);
    case TensorType::kQ8_0:
      return each_block<quant::BlockQ8_0>(blocks, [&](quant::BlockQ8_0& block) {
        scale_of(block);
        for (int8_t& q : block.qs) q = std::max<int8_t>(q, -127);  // encoders do not write -128
      });
    case TensorType::kQ2_K:
      return each_block<quant::BlockQ2_K>(blocks, [&](quant::BlockQ2_K& block) {
        block.dmin = scales.offset[block.d & 255];
        scale_of(block);
        for (uint8_t& both : block.scales) both = static_cast<uint8_t>((both & 15) * 17);
      });
    case TensorType::kQ4_K:
      return each_block<quant::BlockQ4_K>(blocks, k4_scales);
    case TensorType::kQ5_K:
      return each_block<quant::BlockQ5_K>(blocks, k4_scales);
    case TensorType::kIQ1_M:
      return each_block<quant::BlockIQ1_M>(blocks, [&](quant::BlockIQ1_M& block) {
        const uint32_t d = scales.d[(block.scales[0] >> 12) | (block.scales[1] >> 12) << 4];
        for (int i = 0; i < 4; ++i) {
          block.scales[i] = static_cast<uint16_t>((block.scales[i] & 0xfffu) | ((d >> (4 * i)) & 15u) << 12);
        }
      });
    case TensorType::kTQ1_0:
      return each_block<quant::BlockTQ1_0>(blocks, [&](quant::BlockTQ1_0& block) {
        scale_of(block);
        make_base3(block.qs);
        make_base3(block.qh);
      });
    case TensorType::kTQ2_0:
      return each_block<quant::BlockTQ2_0>(blocks, [&](quant::BlockTQ2_0& block) {
        scale_of(block);
        make_ternary(block.qs);
      });
    case TensorType::kQ2_0:
      return each_block<quant::BlockQ2_0>(blocks, [&](quant::BlockQ2_0& block) {
        scale_of(block);
        make_ternary(block.qs);
      });
    case TensorType::kMXFP4:
      return each_block<quant::BlockMXFP4>(blocks, [&](quant::BlockMXFP4& block) { block.e = scales.code[block.e]; });
    case TensorType::kNVFP4:
      return each_block<quant::BlockNVFP4>(blocks, [&](quant::BlockNVFP4& block) {
        for (uint8_t& code : block.d) code = scales.code[code];
      });
    default:
      CAIRN_CHECK(false);
  }
}

// The deviation with a scale of 1, measured on random blocks.
float WeightMaker::deviation_of_one(TensorType type) {
  constexpr int64_t kElements = 1 << 17;
  std::vector<std::byte> blocks(static_cast<size_t>(row_bytes(type, kElements)));
  std::vector<float> values(kElements);
  Random random(1);
  fill_bits(blocks, random);
  finish(type, scales_for(type, 1, 0), blocks);
  quant::decode_row(type, blocks, values);
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return static_cast<float>(std::sqrt(squares / kElements));
}

WeightMaker::WeightMaker(TensorType type, float deviation, float mean)
    : type_(type), deviation_(deviation), mean_(mean) {
  if (tensor_type_info(type).block_elements == 1) return;
  // Scales are evenly distributed between 0.5 and 1.5, which increases the mean of their squares.
  constexpr float kSpread = 0.5f;
  const float widened = has_byte_scale(type) ? 1 : std::sqrt(1 + kSpread * kSpread / 3);
  scales_ = scales_for(type, deviation / deviation_of_one(type) / widened, kSpread);
}

void WeightMaker::fill_floats(std::span<std::byte> out, Random& random) const {
  const std::array<float, kLevels>& levels = normal_levels();
  const auto each = [&]<class Number>(Number (*convert)(float)) {
    uint64_t bits = 0;
    for (size_t i = 0; i < out.size() / sizeof(Number); ++i) {
      bits = i % 4 == 0 ? random.next() : bits >> 16;
      const Number number = convert(mean_ + deviation_ * levels[bits % kLevels]);
      std::memcpy(out.data() + i * sizeof(Number), &number, sizeof(Number));
    }
  };
  if (type_ == TensorType::kF16) return each(+[](float value) { return quant::float_to_half(value); });
  if (type_ == TensorType::kBF16) return each(+[](float value) { return quant::float_to_bf16(value); });
  each(+[](float value) { return value; });
}

void WeightMaker::fill(std::span<std::byte> out, Random& random) const {
  if (tensor_type_info(type_).block_elements == 1) return fill_floats(out, random);
  fill_bits(out, random);
  finish(type_, scales_, out);
}

void fill_expert_ids(std::span<std::byte> out, int64_t used, int64_t experts, Random& random) {
  std::vector<int32_t> ids(static_cast<size_t>(experts));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  for (size_t at = 0; at < out.size(); at += static_cast<size_t>(used) * sizeof(int32_t)) {
    for (int64_t i = 0; i < used; ++i) {
      const auto other = static_cast<size_t>(i + random.below(static_cast<uint32_t>(experts - i)));
      std::swap(ids[static_cast<size_t>(i)], ids[other]);
    }
    std::memcpy(out.data() + at, ids.data(), static_cast<size_t>(used) * sizeof(int32_t));
  }
}

void fill_fp8_rows(std::span<std::byte> out, int64_t row_bytes, float deviation, Random& random) {
  // Codes of the exponents -3 to 0, of any sign and fraction: their mean square is that of the fractions (1 to 1.875)
  // by that of the powers of two.
  constexpr unsigned kExponents = 4 << 3, kKept = 0x9f;
  constexpr double kSquare = 2.1484375 * (1 + 1 / 4.0 + 1 / 16.0 + 1 / 64.0) / 4;
  constexpr int kScaleBias = 127;
  // Two powers of two around the scale, in the proportion that gives its square on average.
  const double square = static_cast<double>(deviation) * deviation / kSquare;
  const int low = static_cast<int>(std::floor(std::log2(square) / 2));
  const double share = (square / std::ldexp(1.0, 2 * low) - 1) / 3;
  const int64_t numbers = row_bytes * kScaleBlock / (kScaleBlock + 1);
  fill_bits(out, random);
  for (auto row = out; !row.empty(); row = row.subspan(static_cast<size_t>(row_bytes))) {
    for (std::byte& code : row.first(static_cast<size_t>(numbers))) {
      code = static_cast<std::byte>((static_cast<unsigned>(code) & kKept) | kExponents);
    }
    for (std::byte& scale : row.subspan(static_cast<size_t>(numbers), static_cast<size_t>(row_bytes - numbers))) {
      const bool high = static_cast<unsigned>(scale) < share * 256;
      scale = static_cast<std::byte>(low + (high ? 1 : 0) + kScaleBias);
    }
  }
}

}  // namespace cairn::synth
