// Conversions from all 16-bit values, and from random floats, compared with the definition of rounding.
#include "quant/float_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace cairn::quant {
namespace {

// The value by definition, in double precision: sign, 5 bits of exponent, 10 of fraction.
double half_value(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(FloatFormats, EveryHalfIsConvertedExactlyAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if ((half & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(value), (half & 0x3ff) != 0) << bits;
      EXPECT_EQ(std::isinf(value), (half & 0x3ff) == 0) << bits;
      EXPECT_EQ(std::signbit(value), (half & 0x8000) != 0) << bits;
      if (std::isinf(value)) {
        EXPECT_EQ(float_to_half(value), half);
      } else {
        EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << bits;
      }
      continue;
    }
    ASSERT_EQ(value, half_value(half)) << bits;
    ASSERT_EQ(float_to_half(value), half) << bits;
  }
}

// Floats between neighbouring halves: below the midpoint they are rounded down, above it up, on it to the even half.
TEST(FloatFormats, RoundsToTheNearestHalfTiesToEven) {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = half_to_float(half);
    const float high = half_to_float(static_cast<uint16_t>(half + 1));
    const auto middle = static_cast<float>((static_cast<double>(low) + high) / 2);  // exact in float32
    const auto above = static_cast<uint16_t>(half + 1);
    ASSERT_EQ(float_to_half(middle), half % 2 == 0 ? half : above) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9f)), above) << half;
    ASSERT_EQ(float_to_half(-middle), float_to_half(middle) | 0x8000) << half;
  }
  EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(3e38f), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_half(0x1p-25f), 0);
  EXPECT_EQ(float_to_half(0x1.000002p-25f), 1);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
}

TEST(FloatFormats, RoundsToTheNearestBf16TiesToEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto bf16 = static_cast<uint16_t>(bits);
    const float value = bf16_to_float(bf16);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    if (!std::isnan(value)) {
      ASSERT_EQ(float_to_bf16(value), bf16);
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const uint32_t bits = random();
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value)))) << bits;
      continue;
    }
    const uint32_t rest = bits & 0xffff;
    const auto down = static_cast<uint16_t>(bits >> 16);
    const bool up = rest > 0x8000 || (rest == 0x8000 && down % 2 == 1);
    EXPECT_EQ(float_to_bf16(value), up ? down + 1 : down) << bits;
  }
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // ties
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(FloatFormats, E8m0AndE4m3ScalesAreConvertedExactly) {
  for (int e = 0; e < 256; ++e) {
    EXPECT_EQ(e8m0_half_to_float(static_cast<uint8_t>(e)), std::ldexp(1.0, e - 128)) << e;
  }
  for (int code = 0; code < 127; ++code) {
    const int exponent = code >> 3;
    const int fraction = code & 7;
    const double value = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    EXPECT_EQ(ue4m3_half_to_float(static_cast<uint8_t>(code)), value / 2) << code;
  }
  EXPECT_EQ(ue4m3_half_to_float(127), 0.0f);
}

TEST(FloatFormats, SignSetsHaveEvenParity) {
  for (uint32_t set = 0; set < 128; ++set) {
    const uint8_t signs = even_signs(set);
    EXPECT_EQ(signs & 127u, set);
    EXPECT_EQ(std::popcount(signs) % 2, 0) << set;
  }
}

}  // namespace
}  // namespace cairn::quant
