#include "kernels/cpu/rows/row_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/test_support.h"
#include "quant/float_formats.h"

namespace cairn::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class RowOps : public ::testing::TestWithParam<Isa> {
 protected:
  const RowKernels& kernels() const { return *GetParam().rows; }
};
INSTANTIATE_TEST_SUITE_P(Isas, RowOps, ::testing::ValuesIn(isas_under_test()), isa_test_name);

// Lengths around every vector width, and one of a real model.
const std::vector<int64_t> kLengths = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 260, 2048};

// The whole range of float32 in steps of about 2^-14, with both signs, and special values.
std::vector<float> all_kinds() {
  std::vector<float> values = {0, -0.0f, kInfinity, 1e-45f, -1e-45f};
  for (float x = 1e-30f; x < 1e30f; x *= 1.00771f) {
    values.push_back(x);
    values.push_back(-x);
  }
  for (float x = -12; x < 12; x += 0.0007f) values.push_back(x);
  return values;
}

double exact_clamped_swiglu(double a, double u) {
  a = std::min(a, 7.0);
  return a / (1 + std::exp(-1.702 * a)) * (std::clamp(u, -7.0, 7.0) + 1);
}

double exact(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGeluTanh: {
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));  // 0.5 x (1 + tanh(u)), without the cancellation
    }
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kReluSquared:
      return x > 0 ? x * x : 0;
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kClampedSwiglu:
      return exact_clamped_swiglu(x, 1);
  }
  return 0;
}

TEST_P(RowOps, ActivationsAreAccurateOverTheWholeRange) {
  std::vector<float> x = all_kinds();
  const std::vector<float> up(x.size(), 1.0f);
  std::vector<float> out(x.size());
  for (int a = 0; a < kActivations; ++a) {
    const auto activation = static_cast<Activation>(a);
    kernels().gate[a](x.data(), up.data(), static_cast<int64_t>(x.size()), out.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double truth = exact(activation, x[i]);
      if (truth > std::numeric_limits<float>::max()) {
        EXPECT_EQ(out[i], kInfinity) << a << " of " << x[i];
      } else {
        // The bound is relative to x: far to the left the activations are tiny, and only that matters.
        const bool by_result = activation >= Activation::kReluSquared;
        const double bound = 2e-7 * std::abs(double{x[i]}) + (by_result ? 2e-7 * std::abs(truth) : 0);
        EXPECT_NEAR(out[i], truth, bound + 1e-44) << a << " of " << x[i];
      }
    }
  }
}

TEST_P(RowOps, ActivationsPropagateNanAndSaturate) {
  const std::vector<float> x = {NAN, 1000, -1000, kInfinity};
  const std::vector<float> up(x.size(), 2.0f);
  std::vector<float> out(x.size());
  for (int a = 0; a < 3; ++a) {
    kernels().gate[a](x.data(), up.data(), 4, out.data());
    EXPECT_TRUE(std::isnan(out[0])) << a;
    EXPECT_EQ(out[1], 2000) << a;
    EXPECT_EQ(std::abs(out[2]), 0) << a;
    EXPECT_EQ(out[3], kInfinity) << a;
  }
}

TEST_P(RowOps, TheClampedGateBoundsBothFactorsAndAddsOneToTheSecond) {
  std::vector<float> gates, ups;
  for (const float a : {-1000.0f, -6.0f, -0.5f, 0.0f, 0.3f, 6.9f, 7.1f, 1e30f, kInfinity}) {
    for (const float u : {-kInfinity, -1e20f, -7.5f, -6.5f, -1.0f, 0.0f, 0.25f, 6.5f, 7.5f, kInfinity}) {
      gates.push_back(a);
      ups.push_back(u);
    }
  }
  std::vector<float> out(gates.size());
  kernels().gate[static_cast<int>(Activation::kClampedSwiglu)](gates.data(), ups.data(), std::ssize(gates), out.data());
  for (size_t i = 0; i < gates.size(); ++i) {
    EXPECT_NEAR(out[i], exact_clamped_swiglu(gates[i], ups[i]), 1e-5) << gates[i] << " and " << ups[i];
  }
}

// Checks that an operation gives each element the same result at every length: compared with the element alone.
void expect_elementwise(const std::function<void(std::vector<float>&)>& operation, Random& random) {
  for (const int64_t n : kLengths) {
    const std::vector<float> x = random.normals(n, 3);
    std::vector<float> whole = x;
    operation(whole);
    for (int64_t i = 0; i < n; ++i) {
      std::vector<float> one = {x[i]};
      operation(one);
      EXPECT_EQ(std::bit_cast<uint32_t>(one[0]), std::bit_cast<uint32_t>(whole[i])) << n << " at " << i;
    }
  }
}

TEST_P(RowOps, AnElementDoesNotDependOnItsPlace) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  for (int a = 0; a < kActivations; ++a) {
    expect_elementwise(
        [&](std::vector<float>& x) { kernels().gate[a](x.data(), x.data(), static_cast<int64_t>(x.size()), x.data()); },
        random);
  }
  expect_elementwise(
      [&](std::vector<float>& x) { kernels().scale_and_softcap(x.data(), static_cast<int64_t>(x.size()), 0.7f, 2.5f); },
      random);
  expect_elementwise(
      [&](std::vector<float>& x) { kernels().add(x.data(), x.data(), static_cast<int64_t>(x.size()), 0.3f); }, random);
}

TEST_P(RowOps, GateWithoutUpIsTheActivationAlone) {
  Random random(7);
  SCOPED_TRACE(random.trace());
  const std::vector<float> x = random.normals(67, 2), ones(67, 1.0f);
  for (int a = 0; a < kActivations; ++a) {
    std::vector<float> gated(67), alone(67);
    kernels().gate[a](x.data(), ones.data(), 67, gated.data());
    kernels().gate[a](x.data(), nullptr, 67, alone.data());
    EXPECT_TRUE(same_bits(gated, alone)) << a;
  }
}

TEST_P(RowOps, LayerNormAgreesWithDoublePrecision) {
  Random random(8);
  SCOPED_TRACE(random.trace());
  for (const int64_t n : kLengths) {
    std::vector<float> x = random.normals(n, 3);
    // Far from zero, so that the cancellation of a variance from squares would be noticed.
    for (float& value : x) value += 20;
    const std::vector<float> weight = random.normals(n), bias = random.normals(n);
    double mean = 0, squares = 0;
    for (const float value : x) mean += value / static_cast<double>(n);
    for (const float value : x) squares += (value - mean) * (value - mean);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    std::vector<float> out(static_cast<size_t>(n)), in_place = x;
    kernels().layer_norm(x.data(), weight.data(), bias.data(), 1e-5f, n, out.data());
    kernels().layer_norm(x.data(), weight.data(), nullptr, 1e-5f, n, in_place.data());
    for (int64_t i = 0; i < n; ++i) {
      const double scaled = (x[i] - mean) * factor * weight[i];
      const double bound = 1e-5 * (std::abs(factor * weight[i]) + std::abs(scaled)) + 1e-6;
      EXPECT_NEAR(out[i], scaled + bias[i], bound) << n;
      EXPECT_NEAR(in_place[i], scaled, bound) << n;
    }
  }
}

TEST_P(RowOps, RmsNormAgreesWithDoublePrecision) {
  Random random(2);
  SCOPED_TRACE(random.trace());
  for (const int64_t n : kLengths) {
    const std::vector<float> x = random.normals(n, 20), weight = random.normals(n);
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    std::vector<float> out(static_cast<size_t>(n)), in_place = x;
    kernels().rms_norm(x.data(), weight.data(), 1e-5f, n, out.data());
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(out[i], x[i] * factor * weight[i], 4e-7 * std::abs(x[i] * factor * weight[i]) + 1e-12) << n;
    kernels().rms_norm(in_place.data(), nullptr, 1e-5f, n, in_place.data());
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(in_place[i], x[i] * factor, 4e-7 * std::abs(x[i] * factor) + 1e-12) << n;
  }
}

TEST_P(RowOps, AddScaleAndWeightedSumAgreeWithTheirFormulas) {
  Random random(3);
  SCOPED_TRACE(random.trace());
  for (const int64_t n : kLengths) {
    const std::vector<float> x = random.normals(n), y = random.normals(3 * n);
    std::vector<float> out = x;
    kernels().add(out.data(), y.data(), n, -1.5f);
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(out[i], x[i] - 1.5 * y[i], 1e-6);
    out = x;
    kernels().scale(out.data(), n, 0.25f);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], x[i] * 0.25f);
    out = x;
    kernels().sigmoid_scale(out.data(), n, 0.8f);
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(out[i], x[i] / (1 + std::exp(-0.8f)), 3e-7 * std::abs(x[i]));
    out = x;
    kernels().scale_and_softcap(out.data(), n, 3, 0);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], x[i] * 3);
    const std::vector<float> weights = {0.5f, -0.25f, 2};
    kernels().weighted_sum(y.data(), weights.data(), 3, n, out.data());
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(out[i], 0.5 * y[i] - 0.25 * y[n + i] + 2.0 * y[2 * n + i], 2e-6);
  }
}

TEST_P(RowOps, ClampAndSteerAgreeWithTheirFormulas) {
  Random random(12);
  for (const int64_t n : kLengths) {
    const std::vector<float> x = random.normals(n), direction = random.normals(n);
    std::vector<float> clamped = x, steered = x;
    kernels().clamp(clamped.data(), n, -0.5F, 1);
    kernels().steer(steered.data(), direction.data(), n, 0.25F);
    double dot = 0;
    for (int64_t i = 0; i < n; ++i) dot += double{x[i]} * direction[i];
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(clamped[i], std::clamp(x[i], -0.5F, 1.0F));
      EXPECT_NEAR(steered[i], x[i] - 0.25 * direction[i] * dot, 1e-5 * std::sqrt(static_cast<double>(n)) + 1e-6);
    }
  }
}

TEST_P(RowOps, SoftCapIsAccurateNextToZeroAndFarOut) {
  const std::vector<float> x = all_kinds();
  std::vector<float> out = x;
  kernels().scale_and_softcap(out.data(), static_cast<int64_t>(out.size()), 1, 30);
  for (size_t i = 0; i < x.size(); ++i) {
    const double truth = 30 * std::tanh(x[i] / 30.0);
    EXPECT_NEAR(out[i], truth, 6e-7 * std::abs(truth) + 1e-42) << x[i];
  }
}

TEST_P(RowOps, SoftmaxAgreesWithDoublePrecision) {
  Random random(4);
  SCOPED_TRACE(random.trace());
  for (const int64_t n : kLengths) {
    std::vector<float> x = random.normals(n, 10);
    x[static_cast<size_t>(random.integer(0, static_cast<int32_t>(n) - 1))] = n > 1 ? -kInfinity : 0;
    double largest = -kInfinity, sum = 0;
    for (const float value : x) largest = std::max(largest, double{value});
    for (const float value : x) sum += std::exp(value - largest);
    std::vector<float> out = x;
    kernels().softmax(out.data(), n, out.data());
    for (int64_t i = 0; i < n; ++i) {
      const double truth = std::exp(x[i] - largest) / sum;
      // The difference to the largest is rounded before its exponential is taken.
      EXPECT_NEAR(out[i], truth, (5e-7 + 6e-8 * std::min(largest - x[i], 200.0)) * truth + 1e-37) << n;
    }
  }
}

TEST_P(RowOps, RopeRotatesPairsAndLeavesTheRest) {
  Random random(5);
  SCOPED_TRACE(random.trace());
  for (const int32_t dims : {2, 4, 6, 20, 32, 64, 80}) {
    const int32_t heads = 3, head_dim = dims + 4;
    std::vector<float> table(static_cast<size_t>(dims));
    for (int32_t i = 0; i < dims; i += 2) {
      const float angle = random.normal(100);
      table[i] = std::cos(angle);
      table[i + 1] = std::sin(angle);
    }
    const std::vector<float> x = random.normals(int64_t{heads} * head_dim);
    std::vector<float> adjacent = x, halves = x;
    kernels().rope_adjacent(table.data(), dims, adjacent.data(), heads, head_dim);
    kernels().rope_halves(table.data(), dims, halves.data(), heads, head_dim);
    for (int32_t h = 0; h < heads; ++h) {
      const float* head = x.data() + h * head_dim;
      for (int32_t i = 0; i < dims / 2; ++i) {
        const double c = table[2 * i], s = table[2 * i + 1];
        EXPECT_NEAR(adjacent[h * head_dim + 2 * i], head[2 * i] * c - head[2 * i + 1] * s, 1e-6);
        EXPECT_NEAR(adjacent[h * head_dim + 2 * i + 1], head[2 * i] * s + head[2 * i + 1] * c, 1e-6);
        EXPECT_NEAR(halves[h * head_dim + i], head[i] * c - head[dims / 2 + i] * s, 1e-6);
        EXPECT_NEAR(halves[h * head_dim + dims / 2 + i], head[i] * s + head[dims / 2 + i] * c, 1e-6);
      }
      for (int32_t i = dims; i < head_dim; ++i) {
        EXPECT_EQ(adjacent[h * head_dim + i], head[i]);
        EXPECT_EQ(halves[h * head_dim + i], head[i]);
      }
    }
  }
}

TEST_P(RowOps, Binary16RoundsToNearestAndSaturates) {
  std::vector<float> x = all_kinds();
  for (uint16_t half = 0; half + 1 < 0x7c00; ++half) {
    const auto above = static_cast<uint16_t>(half + 1);
    x.push_back((quant::half_to_float(half) + quant::half_to_float(above)) / 2);
  }
  std::vector<uint16_t> out(x.size());
  kernels().to_half(x.data(), static_cast<int64_t>(x.size()), out.data());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(out[i], quant::float_to_half(std::min(std::max(x[i], -65504.0f), 65504.0f))) << x[i];
  }
  const float nan = NAN;
  kernels().to_half(&nan, 1, out.data());
  EXPECT_TRUE(std::isnan(quant::half_to_float(out[0])));
}

TEST_P(RowOps, Bfloat16RoundsToNearestAndTiesToEven) {
  constexpr std::pair<uint32_t, uint16_t> kCases[] = {
      {0x3f800000, 0x3f80},                                              // 1
      {0x3f807fff, 0x3f80}, {0x3f808000, 0x3f80},                        // below the middle, and a tie down
      {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},                        // above it, and a tie up
      {0x3fffc000, 0x4000},                                              // into the next power of two
      {0xbf808000, 0xbf80}, {0xbf808001, 0xbf81}, {0xbf818000, 0xbf82},  // negative ones
      {0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x00008000, 0x0000}, {0x00018000, 0x0002},  // zeros and subnormals
      {0x477fe000, 0x4780}, {0x7f7f0000, 0x7f7f},  // the largest binary16 and the largest bfloat16
      {0x7f800000, 0x7f80}, {0xff800000, 0xff80},  // infinities
  };
  std::vector<float> x;
  for (const auto& [from, to] : kCases) x.push_back(std::bit_cast<float>(from));
  std::vector<uint16_t> out(x.size() + 1, 99);
  kernels().to_bf16(x.data(), static_cast<int64_t>(x.size()), out.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(out[i], kCases[i].second) << i;
  EXPECT_EQ(out.back(), 99) << "wrote too far";
  // A NaN whose payload is in the lower half, and one that rounding would carry into the sign.
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    const auto nan = std::bit_cast<float>(bits);
    kernels().to_bf16(&nan, 1, out.data());
    EXPECT_TRUE(std::isnan(quant::bf16_to_float(out[0]))) << bits;
  }
}

TEST_P(RowOps, Q8_0IsWithinHalfAStep) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int32_t n = random.integer(1, 32);
    // Sizes from where the scale is a subnormal binary16 to where it is the largest one.
    const float sigma = std::exp2(static_cast<float>(random.integer(-18, 21)));
    const std::vector<float> x = random.normals(n, sigma);
    std::vector<int8_t> values(static_cast<size_t>(n) + 1, 99);
    const float scale = quant::half_to_float(kernels().to_q8_0(x.data(), n, values.data()));
    EXPECT_EQ(values.back(), 99) << "wrote too far";
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::abs(value));
    EXPECT_NEAR(scale, std::min(largest / 127, 65504.0f), largest / 127 * 0x1p-11f + 0x1p-25f);
    for (int32_t i = 0; i < n; ++i) {
      EXPECT_GE(values[i], -127);
      const float limited = std::min(std::max(x[i], -127 * scale), 127 * scale);
      EXPECT_NEAR(values[i] * scale, limited, scale * 0.50001f) << i;
      // Up to the limits of the scale, the error is only that of its rounding.
      if (largest < 127 * 65504.0f) {
        EXPECT_NEAR(limited, x[i], largest * 0x1p-11f + 127 * 0x1p-25f);
      }
    }
  }
}

TEST_P(RowOps, Q8_0OfNanAndInfinityFollowsTheInterface) {
  std::vector<int8_t> values(32);
  std::vector<float> x(32, 1.0f);
  x[5] = NAN;
  EXPECT_TRUE(std::isnan(quant::half_to_float(kernels().to_q8_0(x.data(), 32, values.data()))));
  x[5] = -kInfinity;
  EXPECT_EQ(quant::half_to_float(kernels().to_q8_0(x.data(), 32, values.data())), 65504.0f);
  EXPECT_EQ(values[5], -127);
  EXPECT_EQ(values[6], 0);
  std::ranges::fill(x, 0.0f);
  EXPECT_EQ(kernels().to_q8_0(x.data(), 32, values.data()), 0);
  EXPECT_EQ(values, std::vector<int8_t>(32, 0));
  std::ranges::fill(x, 1e-12f);
  EXPECT_EQ(kernels().to_q8_0(x.data(), 32, values.data()), 0);
  EXPECT_EQ(values, std::vector<int8_t>(32, 0));
}

}  // namespace
}  // namespace cairn::kernels::cpu
