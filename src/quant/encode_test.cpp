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

// All types that can be encoded.
const std::vector<TensorType> kEncodable = [] {
  std::vector<TensorType> types;
  for (const auto& info : tensor_types()) {
    if (can_encode(info.type)) types.push_back(info.type);
  }
  return types;
}();

std::vector<std::byte> encode(TensorType type, std::span<const float> in, std::span<const float> importance = {}) {
  std::vector<std::byte> blocks(static_cast<size_t>(row_bytes(type, static_cast<int64_t>(in.size()))));
  encode_row(type, in, importance, blocks);
  return blocks;
}

std::vector<float> round_trip(TensorType type, std::span<const float> in, std::span<const float> importance = {}) {
  std::vector<float> out(in.size());
  decode_row(type, encode(type, in, importance), out);
  return out;
}

bool is_float(TensorType type) { return tensor_type_info(type).block_elements == 1; }

// Weights of a normal distribution, or of one with heavy tails (Student's, four degrees of freedom), and importances
// that differ as much as those of real columns.
struct Sample {
  explicit Sample(bool heavy) : x(size_t{1} << 15), importance(x.size()) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < x.size(); ++i) {
      float squares = 0.0f;
      for (int j = 0; j < 4; ++j) squares += std::pow(normal(random), 2.0f);
      x[i] = 0.02f * normal(random) / (heavy ? std::sqrt(squares / 4.0f) : 1.0f);
      importance[i] = std::exp(normal(random));
    }
  }
  // The error of x, weighted by importance, relative to its size.
  double weighted_error(std::span<const float> decoded) const {
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += importance[i] * std::pow(static_cast<double>(x[i]) - decoded[i], 2.0);
      norm += importance[i] * std::pow(static_cast<double>(x[i]), 2.0);
    }
    return error / norm;
  }

  std::vector<float> x;
  std::vector<float> importance;
};

TEST(Encode, SupportsEveryTypeThatCanBeDecoded) {
  for (const auto& info : tensor_types()) EXPECT_EQ(can_encode(info.type), can_decode(info.type)) << info.name;
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

// Squared error relative to the weights' size, for normal weights and for those with heavy tails.
struct Bound {
  TensorType type;
  double normal;
  double heavy;
};
constexpr Bound kBounds[] = {
    {TensorType::kF32, 0, 0},
    {TensorType::kF16, 4.47e-08, 4.42e-08},
    {TensorType::kQ4_0, 0.00689, 0.0128},
    {TensorType::kQ4_1, 0.00495, 0.00722},
    {TensorType::kQ5_0, 0.00168, 0.00327},
    {TensorType::kQ5_1, 0.00116, 0.00168},
    {TensorType::kQ8_0, 2.39e-05, 4.64e-05},
    {TensorType::kQ2_K, 0.072, 0.09},
    {TensorType::kQ3_K, 0.022, 0.0336},
    {TensorType::kQ4_K, 0.00503, 0.00741},
    {TensorType::kQ5_K, 0.00123, 0.00179},
    {TensorType::kQ6_K, 0.000297, 0.000497},
    {TensorType::kIQ2_XXS, 0.115, 0.158},
    {TensorType::kIQ2_XS, 0.0867, 0.11},
    {TensorType::kIQ3_XXS, 0.0331, 0.0403},
    {TensorType::kIQ1_S, 0.214, 0.304},
    {TensorType::kIQ4_NL, 0.00566, 0.00842},
    {TensorType::kIQ3_S, 0.0181, 0.0244},
    {TensorType::kIQ2_S, 0.0609, 0.0915},
    {TensorType::kIQ4_XS, 0.00576, 0.00864},
    {TensorType::kIQ1_M, 0.185, 0.229},
    {TensorType::kBF16, 2.86e-06, 2.81e-06},
    {TensorType::kTQ1_0, 0.207, 0.375},
    {TensorType::kTQ2_0, 0.207, 0.375},
    {TensorType::kMXFP4, 0.0129, 0.0166},
    {TensorType::kNVFP4, 0.00834, 0.00788},
    {TensorType::kQ1_0, 0.368, 0.503},
    {TensorType::kQ2_0, 0.132, 0.207},
};

TEST(Encode, TheErrorIsWithinTheBoundOfTheType) {
  const Sample normal(false);
  const Sample heavy(true);
  EXPECT_EQ(std::size(kBounds), kEncodable.size());
  for (const Bound& bound : kBounds) {
    EXPECT_LE(quant::nmse(normal.x, round_trip(bound.type, normal.x)), bound.normal) << tensor_type_name(bound.type);
    EXPECT_LE(quant::nmse(heavy.x, round_trip(bound.type, heavy.x)), bound.heavy) << tensor_type_name(bound.type);
  }
}

TEST(Encode, ImportanceLowersTheErrorOfWhatIsImportant) {
  for (const bool heavy : {false, true}) {
    const Sample sample(heavy);
    for (TensorType type : kEncodable) {
      const double with = sample.weighted_error(round_trip(type, sample.x, sample.importance));
      const double without = sample.weighted_error(round_trip(type, sample.x));
      if (is_float(type)) {
        EXPECT_EQ(with, without) << tensor_type_name(type);
      } else {
        EXPECT_LT(with, without) << tensor_type_name(type) << (heavy ? " heavy" : " normal");
      }
    }
  }
}

TEST(Encode, OnlyTheProportionsOfImportanceCount) {
  Sample sample(true);
  sample.x.resize(2048);
  sample.importance.resize(2048);
  const std::vector<float> importance = sample.importance;
  for (TensorType type : kEncodable) {
    const std::vector<std::byte> expected = encode(type, sample.x, importance);
    for (float factor : {0x1p-60f, 0x1p100f}) {
      std::ranges::transform(importance, sample.importance.begin(), [&](float each) { return each * factor; });
      EXPECT_EQ(encode(type, sample.x, sample.importance), expected) << tensor_type_name(type) << " " << factor;
    }
  }
}

// A column that no activation has reached, a block of them, or one column that outweighs all others.
TEST(Encode, ImportanceOfZeroLeavesWeightsUsable) {
  Sample sample(false);
  sample.x.resize(1024);
  const std::vector<float> zeros(1024, 0.0f);
  std::vector<float> holes(1024, 1.0f);
  for (size_t i = 0; i < holes.size(); i += 3) holes[i] = 0.0f;
  std::vector<float> one(1024, 0.0f);
  one[700] = 1e30f;
  for (TensorType type : kEncodable) {
    EXPECT_EQ(encode(type, sample.x, zeros), encode(type, sample.x)) << tensor_type_name(type);
    for (const std::vector<float>& importance : {holes, one}) {
      EXPECT_LT(quant::nmse(sample.x, round_trip(type, sample.x, importance)), 0.6) << tensor_type_name(type);
    }
  }
}

// Blocks that were decoded and are encoded again keep their values: mostly, because the search cannot try every
// combination of scales.
TEST(Encode, KeepsTheValuesOfReferenceBlocks) {
  for (const auto& entry : quant::fixture_types(kFolder)) {
    const TensorType type = tensor_type_named(entry.at("name").get<std::string>()).value();
    const std::vector<float> values = quant::read_floats(kFolder, entry.at("f32"));
    ASSERT_FALSE(values.empty());
    int kept = 0;
    int blocks = 0;
    for (size_t i = 0; i < values.size(); i += 256, ++blocks) {
      const auto block = std::span(values).subspan(i, 256);
      const std::vector<float> again = round_trip(type, block);
      kept += std::ranges::equal(block, again) || quant::nmse(block, again) < 1e-8 ? 1 : 0;
    }
    EXPECT_EQ(blocks, 32);
    EXPECT_GE(kept, blocks / 4) << tensor_type_name(type);
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
      if (std::fabs(constant) > encodable_max(type)) continue;
      // Half a unit in the last place of a half or bfloat16 scale or value; Q6_K and Q4_K round an integer scale
      // besides. FP4 formats have scales of few bits.
      const float relative = type == TensorType::kF32     ? 0.0f
                             : type == TensorType::kBF16  ? 0x1p-8f
                             : type == TensorType::kMXFP4 ? 0.2f
                             : type == TensorType::kNVFP4 ? 0.06f
                                                          : 0x1p-10f;
      const float absolute = type == TensorType::kQ6_K ? 32 * 128 * 0x1p-25f : 15 * 63 * 0x1p-25f;
      for (float value : round_trip(type, in)) {
        ASSERT_NEAR(value, constant, std::fabs(constant) * relative + (is_float(type) ? 0.0f : absolute))
            << tensor_type_name(type);
      }
    }
  }
}

// The largest error of an element of a block, relative to its largest element.
float coarseness(TensorType type) {
  if (type == TensorType::kMXFP4 || type == TensorType::kNVFP4) return 0.2f;
  const TensorTypeInfo& info = tensor_type_info(type);
  return 8 * info.block_bytes < 4 * info.block_elements ? 1.1f : 0.13f;
}

// One large element among small ones, at various places and of each sign.
TEST(Encode, ASingleOutlierKeepsItsValue) {
  for (int place = 0; place < 256; place += 7) {
    for (float outlier : {8.0f, -8.0f}) {
      std::vector<float> in(256, 0.01f);
      in[place] = outlier;
      for (TensorType type : kEncodable) {
        if (type == TensorType::kQ1_0) continue;  // all elements have the same size
        const std::vector<float> out = round_trip(type, in);
        const float tolerance = coarseness(type) > 1.0f ? 0.8f : 0.08f;
        ASSERT_NEAR(out[place], outlier, tolerance) << tensor_type_name(type) << " at " << place;
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
          ASSERT_LE(off, std::max(coarseness(type) * size, 2e-6f)) << tensor_type_name(type) << " " << in[i];
        }
      }
      if (size > reach) continue;  // all are limited to the same size, and IQ2 and IQ3 turn the sign of any
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
