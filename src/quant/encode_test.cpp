// The error of encode_row, and that it stays within its spans for all values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/testing/test_data.h"
#include "quant/codec.h"
#include "quant/test_data.h"

namespace cairn::quant {
namespace {

const std::string kFolder = test_data("/quants/");

constexpr TensorType kEncodable[] = {TensorType::kF32,  TensorType::kF16,  TensorType::kBF16, TensorType::kQ8_0,
                                     TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ6_K};

std::vector<std::byte> encode(TensorType type, std::span<const float> in) {
  std::vector<std::byte> blocks(static_cast<size_t>(row_bytes(type, static_cast<int64_t>(in.size()))));
  encode_row(type, in, {}, blocks);
  return blocks;
}

std::vector<float> round_trip(TensorType type, std::span<const float> in) {
  std::vector<float> out(in.size());
  decode_row(type, encode(type, in), out);
  return out;
}

TEST(Encode, SupportsExactlyTheListedTypes) {
  for (const auto& info : tensor_types()) {
    EXPECT_EQ(can_encode(info.type), std::ranges::find(kEncodable, info.type) != std::end(kEncodable)) << info.name;
  }
}

TEST(Encode, HasNoLargerErrorThanTheReference) {
  const std::vector<float> matrix = quant::read_floats(kFolder, "matrix.f32");
  ASSERT_FALSE(matrix.empty());
  for (const auto& entry : quant::fixture_types(kFolder)) {
    const TensorType type = tensor_type_named(entry.at("name").get<std::string>()).value();
    if (!can_encode(type)) continue;
    EXPECT_LE(quant::nmse(matrix, round_trip(type, matrix)), 1.02 * entry.at("nmse_vs_matrix").get<double>())
        << entry.at("name");
  }
}

TEST(Encode, FloatTypesGiveTheReferenceBytes) {
  const std::vector<float> matrix = quant::read_floats(kFolder, "matrix.f32");
  EXPECT_EQ(encode(TensorType::kF32, matrix), quant::read_bytes(kFolder, "f32.bin"));
  EXPECT_EQ(encode(TensorType::kF16, matrix), quant::read_bytes(kFolder, "f16.bin"));
  EXPECT_EQ(encode(TensorType::kBF16, matrix), quant::read_bytes(kFolder, "bf16.bin"));
}

// Values that a type can represent exactly are kept.
TEST(Encode, KeepsValuesThatTheTypeRepresentsExactly) {
  std::vector<float> levels(256);
  for (int i = 0; i < 256; ++i) levels[i] = 0.25f * static_cast<float>(i % 16 - 8);
  EXPECT_EQ(round_trip(TensorType::kQ4_0, levels), levels);
  for (int i = 0; i < 256; ++i) levels[i] = 0.5f * static_cast<float>(i * 37 % 32 == 0 ? -127 : i * 11 % 255 - 127);
  EXPECT_EQ(round_trip(TensorType::kQ8_0, levels), levels);
}

TEST(Encode, ZeroBlocksAreZero) {
  const std::vector<float> zeros(1024, 0.0f);
  const std::vector<float> negative_zeros(1024, -0.0f);
  for (TensorType type : kEncodable) {
    for (float value : round_trip(type, zeros)) ASSERT_EQ(value, 0.0f) << tensor_type_name(type);
    for (float value : round_trip(type, negative_zeros)) ASSERT_EQ(value, 0.0f) << tensor_type_name(type);
  }
}

TEST(Encode, ConstantBlocksKeepTheirValue) {
  for (float constant : {1.0f, -1.0f, 0.037f, -0.037f, 250.0f, -3000.0f}) {
    const std::vector<float> in(512, constant);
    for (TensorType type : kEncodable) {
      // Half a unit in the last place of a half or bfloat16 scale or value; Q6_K and Q4_K round an integer scale
      // besides.
      const float relative = type == TensorType::kF32 ? 0.0f : type == TensorType::kBF16 ? 0x1p-8f : 0x1p-10f;
      const float absolute = type == TensorType::kQ6_K ? 32 * 128 * 0x1p-25f : 15 * 63 * 0x1p-25f;
      for (float value : round_trip(type, in)) {
        ASSERT_NEAR(value, constant,
                    std::fabs(constant) * relative + (tensor_type_info(type).block_elements > 1 ? absolute : 0.0f))
            << tensor_type_name(type);
      }
    }
  }
}

// One large element among small ones, at various places and of each sign.
TEST(Encode, ASingleOutlierKeepsItsValue) {
  for (int place = 0; place < 256; place += 7) {
    for (float outlier : {8.0f, -8.0f}) {
      std::vector<float> in(256, 0.01f);
      in[place] = outlier;
      for (TensorType type : kEncodable) {
        const std::vector<float> out = round_trip(type, in);
        ASSERT_NEAR(out[place], outlier, 0.08f) << tensor_type_name(type) << " at " << place;
      }
    }
  }
}

// Values near and beyond the largest and the smallest scale: decoded values stay finite, with their sign and, where the
// type can represent it, their size.
TEST(Encode, ExtremeValuesStayFinite) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (float size : {3.4e38f, 1e30f, 6e7f, 4e6f, 4e5f, 1e-6f, 1e-8f, 1e-20f, 1e-38f, 1e-44f}) {
    std::vector<float> in(512);
    for (float& value : in) value = uniform(random) * size;
    in[3] = size;
    in[300] = -size;
    for (TensorType type : kEncodable) {
      const float reach = encodable_max(type);
      const bool infinite = (type == TensorType::kF16 || type == TensorType::kBF16) && size > reach;
      const std::vector<float> out = round_trip(type, in);
      for (size_t i = 0; i < in.size(); ++i) {
        ASSERT_TRUE(std::isfinite(out[i]) || infinite) << tensor_type_name(type) << " " << in[i];
        const float off = std::fabs(out[i] - in[i]);
        if (size <= reach) {
          ASSERT_LE(off, std::max(0.13f * size, 1e-6f)) << tensor_type_name(type) << " " << in[i];
        }
      }
      EXPECT_GE(out[3], 0.0f) << tensor_type_name(type) << " " << size;
      EXPECT_LE(out[300], 0.0f) << tensor_type_name(type) << " " << size;
    }
  }
}

TEST(Encode, TheLargestEncodableValueIsKept) {
  for (TensorType type : kEncodable) {
    const float reach = encodable_max(type);
    const std::vector<float> out = round_trip(type, std::vector<float>(256, reach));
    EXPECT_NEAR(out[0] / reach, 1.0f, 0.01f) << tensor_type_name(type);
    const std::vector<float> negative = round_trip(type, std::vector<float>(256, -reach));
    EXPECT_NEAR(negative[0] / reach, -1.0f, 0.01f) << tensor_type_name(type);
  }
}

TEST(Encode, WritesNothingOutsideItsSpan) {
  const std::vector<float> matrix = quant::read_floats(kFolder, "matrix.f32");
  for (TensorType type : kEncodable) {
    const int64_t bytes = row_bytes(type, 256);
    std::vector<std::byte> blocks(static_cast<size_t>(bytes) + 2, std::byte{0xa5});
    // Copies of the exact size, so that the address sanitizer detects a read past them, and an odd address for the
    // blocks.
    const std::vector<float> in(matrix.begin() + 512, matrix.begin() + 768);
    encode_row(type, in, {}, std::span(blocks).subspan(1, bytes));
    EXPECT_EQ(blocks.front(), std::byte{0xa5});
    EXPECT_EQ(blocks.back(), std::byte{0xa5});
    encode_row(type, {}, {}, {});
  }
}

// A block's bytes depend on its own elements only.
TEST(Encode, TheBytesOfABlockDependOnItsElementsOnly) {
  const std::vector<float> matrix = quant::read_floats(kFolder, "matrix.f32");
  for (TensorType type : kEncodable) {
    const std::vector<std::byte> whole = encode(type, matrix);
    std::vector<std::byte> parts;
    for (size_t i = 0; i < matrix.size(); i += 256) {
      const std::vector<std::byte> part = encode(type, std::span(matrix).subspan(i, 256));
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_EQ(whole, parts) << tensor_type_name(type);
  }
}

}  // namespace
}  // namespace cairn::quant
