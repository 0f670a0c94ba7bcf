#include "quant/codec.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "quant/blocks.h"
#include "quant/decode.h"
#include "quant/encode.h"

namespace cairn::quant {
namespace {

// The blocks of a file follow each other without padding.
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210 && sizeof(BlockIQ2_XXS) == 66 && sizeof(BlockIQ2_XS) == 74);
static_assert(sizeof(BlockIQ2_S) == 82 && sizeof(BlockIQ3_XXS) == 98 && sizeof(BlockIQ3_S) == 110);
static_assert(sizeof(BlockIQ1_S) == 50 && sizeof(BlockIQ1_M) == 56 && sizeof(BlockIQ4_NL) == 18);
static_assert(sizeof(BlockIQ4_XS) == 136 && sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66);
static_assert(sizeof(BlockMXFP4) == 17 && sizeof(BlockNVFP4) == 36 && sizeof(BlockQ1_0) == 18);
static_assert(sizeof(BlockQ2_0) == 18);

struct Decoder {
  TensorType type;
  void (*decode)(const std::byte* blocks, std::span<float> out);
};

constexpr Decoder kDecoders[] = {
    {TensorType::kF32, quant::decode_f32},         {TensorType::kF16, quant::decode_f16},
    {TensorType::kBF16, quant::decode_bf16},       {TensorType::kQ4_0, quant::decode_q4_0},
    {TensorType::kQ4_1, quant::decode_q4_1},       {TensorType::kQ5_0, quant::decode_q5_0},
    {TensorType::kQ5_1, quant::decode_q5_1},       {TensorType::kQ8_0, quant::decode_q8_0},
    {TensorType::kQ2_K, quant::decode_q2_k},       {TensorType::kQ3_K, quant::decode_q3_k},
    {TensorType::kQ4_K, quant::decode_q4_k},       {TensorType::kQ5_K, quant::decode_q5_k},
    {TensorType::kQ6_K, quant::decode_q6_k},       {TensorType::kIQ1_S, quant::decode_iq1_s},
    {TensorType::kIQ1_M, quant::decode_iq1_m},     {TensorType::kIQ2_XXS, quant::decode_iq2_xxs},
    {TensorType::kIQ2_XS, quant::decode_iq2_xs},   {TensorType::kIQ2_S, quant::decode_iq2_s},
    {TensorType::kIQ3_XXS, quant::decode_iq3_xxs}, {TensorType::kIQ3_S, quant::decode_iq3_s},
    {TensorType::kIQ4_NL, quant::decode_iq4_nl},   {TensorType::kIQ4_XS, quant::decode_iq4_xs},
    {TensorType::kTQ1_0, quant::decode_tq1_0},     {TensorType::kTQ2_0, quant::decode_tq2_0},
    {TensorType::kMXFP4, quant::decode_mxfp4},     {TensorType::kNVFP4, quant::decode_nvfp4},
    {TensorType::kQ1_0, quant::decode_q1_0},       {TensorType::kQ2_0, quant::decode_q2_0},
};

const Decoder* find_decoder(TensorType type) {
  const auto* found = std::ranges::find(kDecoders, type, &Decoder::type);
  return found == std::end(kDecoders) ? nullptr : found;
}

struct Encoder {
  TensorType type;
  void (*encode)(std::span<const float> in, const float* importance, std::byte* blocks);
  float max;  // of a block of equal elements: the largest half (as scale) times level (and integer scale)
};

constexpr Encoder kEncoders[] = {
    {TensorType::kF32, quant::encode_f32, std::numeric_limits<float>::max()},
    {TensorType::kF16, quant::encode_f16, quant::kHalfMax},
    {TensorType::kBF16, quant::encode_bf16, 0x1.fep127f},
    {TensorType::kQ4_0, quant::encode_q4_0, quant::kHalfMax * 7},
    {TensorType::kQ4_1, quant::encode_q4_1, quant::kHalfMax},  // the least value is a half
    {TensorType::kQ5_0, quant::encode_q5_0, quant::kHalfMax * 15},
    {TensorType::kQ5_1, quant::encode_q5_1, quant::kHalfMax},
    {TensorType::kQ8_0, quant::encode_q8_0, quant::kHalfMax * 127},
    {TensorType::kQ2_K, quant::encode_q2_k, quant::kHalfMax * 15},
    {TensorType::kQ3_K, quant::encode_q3_k, quant::kHalfMax * 31 * 3},
    {TensorType::kQ4_K, quant::encode_q4_k, quant::kHalfMax * 63},
    {TensorType::kQ5_K, quant::encode_q5_k, quant::kHalfMax * 63},
    {TensorType::kQ6_K, quant::encode_q6_k, quant::kHalfMax * 127 * 31},
    {TensorType::kIQ1_S, quant::encode_iq1_s, quant::kHalfMax * 15 * 0.875f},
    {TensorType::kIQ1_M, quant::encode_iq1_m, quant::kHalfMax * 15 * 0.875f},
    {TensorType::kIQ2_XXS, quant::encode_iq2_xxs, quant::kHalfMax * 3.875f * 8},
    {TensorType::kIQ2_XS, quant::encode_iq2_xs, quant::kHalfMax * 3.875f * 43},
    {TensorType::kIQ2_S, quant::encode_iq2_s, quant::kHalfMax * 3.875f * 43},
    {TensorType::kIQ3_XXS, quant::encode_iq3_xxs, quant::kHalfMax * 7.75f * 28},
    {TensorType::kIQ3_S, quant::encode_iq3_s, quant::kHalfMax * 31},
    {TensorType::kIQ4_NL, quant::encode_iq4_nl, quant::kHalfMax * 113},
    {TensorType::kIQ4_XS, quant::encode_iq4_xs, quant::kHalfMax * 31 * 113},
    {TensorType::kTQ1_0, quant::encode_tq1_0, quant::kHalfMax},
    {TensorType::kTQ2_0, quant::encode_tq2_0, quant::kHalfMax},
    {TensorType::kMXFP4, quant::encode_mxfp4, 0x1.8p127f},  // 12 * 2^124: 16 times a power of two would be infinite
    {TensorType::kNVFP4, quant::encode_nvfp4, 448 * 6},
    {TensorType::kQ1_0, quant::encode_q1_0, quant::kHalfMax},
    {TensorType::kQ2_0, quant::encode_q2_0, quant::kHalfMax},
};

const Encoder* find_encoder(TensorType type) {
  const auto* found = std::ranges::find(kEncoders, type, &Encoder::type);
  return found == std::end(kEncoders) ? nullptr : found;
}

}  // namespace

bool can_decode(TensorType type) { return find_decoder(type) != nullptr; }

void decode_row(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
  const Decoder* decoder = find_decoder(type);
  CAIRN_CHECK(decoder != nullptr);
  const auto elements = static_cast<int64_t>(out.size());
  CAIRN_CHECK(elements % tensor_type_info(type).block_elements == 0);
  CAIRN_CHECK(static_cast<int64_t>(blocks.size()) >= row_bytes(type, elements));
  decoder->decode(blocks.data(), out);
}

bool can_encode(TensorType type) { return find_encoder(type) != nullptr; }

float encodable_max(TensorType type) {
  const Encoder* encoder = find_encoder(type);
  CAIRN_CHECK(encoder != nullptr);
  return encoder->max;
}

void encode_row(TensorType type, std::span<const float> in, std::span<const float> importance,
                std::span<std::byte> blocks) {
  const Encoder* encoder = find_encoder(type);
  CAIRN_CHECK(encoder != nullptr);
  const auto elements = static_cast<int64_t>(in.size());
  CAIRN_CHECK(elements % tensor_type_info(type).block_elements == 0);
  CAIRN_CHECK(static_cast<int64_t>(blocks.size()) >= row_bytes(type, elements));
  CAIRN_CHECK(importance.empty() || importance.size() == in.size());
  encoder->encode(in, importance.empty() ? nullptr : importance.data(), blocks.data());
}

}  // namespace cairn::quant
