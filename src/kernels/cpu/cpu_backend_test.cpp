#include "kernels/cpu/cpu_backend.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/tensor_type.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/packed/panel.h"
#include "kernels/cpu/test_support.h"
#include "quant/codec.h"

namespace cairn::kernels::cpu {
namespace {

// Random bits with binary16 scales of 1, which are at the beginning of a block, or its last two for Q2_K. For types
// without an encoder.
std::vector<std::byte> random_blocks(TensorType type, int64_t bytes, Random& random) {
  std::vector<std::byte> blocks(static_cast<size_t>(bytes));
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random.integer(0, 255));
  constexpr uint16_t kOnes[] = {0x3c00, 0x3c00};
  const bool two = type == TensorType::kQ2_K;
  const auto block_bytes = static_cast<size_t>(tensor_type_info(type).block_bytes);
  for (size_t at = 0; at < blocks.size(); at += block_bytes) {
    std::memcpy(blocks.data() + at + (two ? block_bytes - 4 : 0), kOnes, two ? 4 : 2);
  }
  return blocks;
}

// A weight and its decoded values.
struct TestWeight {
  TestWeight(TensorType type, int64_t rows, int64_t cols, int64_t experts, Random& random)
      : decoded(static_cast<size_t>(rows * cols * experts)),
        bytes(static_cast<size_t>(row_bytes(type, cols) * rows * experts)) {
    if (!quant::can_encode(type)) bytes = random_blocks(type, std::ssize(bytes), random);
    const std::vector<float> values = random.normals(rows * cols * experts);
    const auto bytes_per_row = static_cast<size_t>(row_bytes(type, cols));
    for (size_t r = 0; r < static_cast<size_t>(rows * experts); ++r) {
      const std::span<std::byte> row(bytes.data() + r * bytes_per_row, bytes_per_row);
      const auto wanted = std::span(values).subspan(r * static_cast<size_t>(cols), static_cast<size_t>(cols));
      if (quant::can_encode(type)) quant::encode_row(type, wanted, {}, row);
      quant::decode_row(type, row,
                        std::span(decoded).subspan(r * static_cast<size_t>(cols), static_cast<size_t>(cols)));
    }
    weight = load({type, rows, cols, experts, bytes.data()});
  }
  Weight expert(int64_t e) const {
    return load({weight.type, weight.rows, weight.cols, 1,
                 bytes.data() + e * weight.rows * row_bytes(weight.type, weight.cols)});
  }
  // A loaded weight does not depend on the instruction set.
  static Weight load(const HostMatrix& matrix) {
    static const auto any = make_cpu_backend({.threads = 2, .isa = "generic"}).value();
    return any->load(matrix).value();
  }

  std::vector<float> decoded;
  std::vector<std::byte> bytes;
  Weight weight;
};

constexpr TensorType kWeightTypes[] = {TensorType::kF32,  TensorType::kF16,  TensorType::kBF16, TensorType::kQ8_0,
                                       TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ6_K};

class CpuBackend : public ::testing::TestWithParam<Isa> {
 protected:
  std::unique_ptr<Backend> backend(int threads) const { return make_backend(GetParam(), threads); }
};
INSTANTIATE_TEST_SUITE_P(Isas, CpuBackend, ::testing::ValuesIn(isas_under_test()), isa_test_name);

TEST_P(CpuBackend, ProductsOfMixedTypesAgreeWithDoublePrecision) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  const auto cpu = backend(2);
  constexpr int64_t kCols = 512;
  constexpr int32_t kTokens = 67;
  const std::vector<float> x = random.normals(kTokens * kCols);
  const std::vector<float> bias = random.normals(100);
  std::vector<TestWeight> weights;
  std::vector<std::vector<float>> outs;
  int64_t rows = 37;
  for (const TensorType type : kWeightTypes) {
    weights.emplace_back(type, rows, kCols, 1, random);
    outs.emplace_back(static_cast<size_t>(kTokens * rows));
    rows += 9;
  }
  std::vector<MatmulTarget> projections;
  for (size_t i = 0; i < weights.size(); ++i)
    projections.push_back({&weights[i].weight, i % 2 == 0 ? bias.data() : nullptr, outs[i].data()});
  cpu->matmul(projections, x.data(), kTokens);
  for (size_t i = 0; i < weights.size(); ++i) {
    SCOPED_TRACE(tensor_type_name(kWeightTypes[i]));
    const int64_t n = weights[i].weight.rows;
    double error = 0, power = 0;
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t r = 0; r < n; ++r) {
        double truth = i % 2 == 0 ? bias[r] : 0;
        for (int64_t c = 0; c < kCols; ++c) truth += double{weights[i].decoded[r * kCols + c]} * x[t * kCols + c];
        const double difference = outs[i][t * n + r] - truth;
        error += difference * difference;
        power += truth * truth;
      }
    }
    // Activations of 8 bits have an error of up to 1/127 of the block's largest, evenly distributed. Those of bfloat16
    // have one of 1/256 of each.
    const bool rounded = kWeightTypes[i] == TensorType::kBF16 && GetParam().matmul->round_row != nullptr;
    EXPECT_LT(error / power, has_panels(kWeightTypes[i]) ? 1e-4 : rounded ? 4e-6 : 1e-12);
    EXPECT_EQ(error / power > 1e-9, has_panels(kWeightTypes[i]) || rounded);
  }
}

TEST_P(CpuBackend, AProductsRowDoesNotDependOnBatchOrThreads) {
  Random random(2);
  SCOPED_TRACE(random.trace());
  // More rows than a product takes at once.
  constexpr int64_t kRows = 2 * kRowsAtOnce + 19, kCols = 768;
  constexpr int32_t kTokens = kTokensAtOnce + 3;
  const std::vector<float> x = random.normals(kTokens * kCols);
  for (const TensorType type : kWeightTypes) {
    SCOPED_TRACE(tensor_type_name(type));
    const TestWeight weight(type, kRows, kCols, 1, random);
    const TestWeight other(TensorType::kF16, 30, kCols, 1, random);
    std::vector<float> rows_alone(kTokens * kRows);
    const auto single = backend(1);
    for (int32_t t = 0; t < kTokens; ++t) {
      const MatmulTarget projection{&weight.weight, nullptr, rows_alone.data() + t * kRows};
      single->matmul({&projection, 1}, x.data() + t * kCols, 1);
    }
    for (const int threads : {1, 2, 3}) {
      const auto cpu = backend(threads);
      std::vector<float> out(kTokens * kRows), unused(kTokens * 30);
      const MatmulTarget projections[] = {{&other.weight, nullptr, unused.data()},
                                          {&weight.weight, nullptr, out.data()}};
      cpu->matmul(projections, x.data(), kTokens);
      EXPECT_TRUE(same_bits(out, rows_alone)) << threads << " threads";
      // Other token counts fall into other tiles.
      for (const int32_t tokens : {2, 3, 5, 8, 65, 69}) {
        std::fill(out.begin(), out.end(), 0.0f);
        cpu->matmul({projections + 1, 1}, x.data(), tokens);
        EXPECT_TRUE(same_bits(std::span(out).first(tokens * kRows), std::span(rows_alone).first(tokens * kRows)))
            << tokens << " tokens";
      }
    }
  }
}

// Panels of some types are larger than the file's rows. Without room for them they are packed again for each product,
// with the same sums.
TEST_P(CpuBackend, WeightsInPlaceTakeNoMemoryAndGiveTheSameProduct) {
  Random random(5);
  SCOPED_TRACE(random.trace());
  constexpr int64_t kRows = 83, kCols = 512, kTokensMax = 70;
  const auto cpu = backend(2);
  const std::vector<float> x = random.normals(kTokensMax * kCols), bias = random.normals(kRows);
  for (const TensorType type : {TensorType::kIQ2_XXS, TensorType::kIQ3_S, TensorType::kIQ1_S}) {
    SCOPED_TRACE(tensor_type_info(type).name);
    const std::vector<std::byte> bytes = random_blocks(type, kRows * row_bytes(type, kCols), random);
    std::vector<float> decoded(kRows * kCols);
    quant::decode_row(type, bytes, decoded);
    const HostMatrix copied{type, kRows, kCols, 1, bytes.data(), false},
        kept{type, kRows, kCols, 1, bytes.data(), true};
    const Weight panels = cpu->load(copied).value(), rows = cpu->load(kept).value();
    EXPECT_EQ(rows.memory, nullptr);
    EXPECT_EQ(cpu->load_bytes(kept), static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(cpu->load_bytes(copied), static_cast<int64_t>(panels.memory->bytes()));
    EXPECT_GT(cpu->load_bytes(copied), cpu->load_bytes(kept));
    for (const int32_t tokens : {1, 5, static_cast<int32_t>(kTokensMax)}) {
      std::vector<float> expected(static_cast<size_t>(tokens * kRows)), actual(expected.size());
      const MatmulTarget of_panels{&panels, bias.data(), expected.data()}, of_rows{&rows, bias.data(), actual.data()};
      cpu->matmul({&of_panels, 1}, x.data(), tokens);
      cpu->matmul({&of_rows, 1}, x.data(), tokens);
      EXPECT_EQ(actual, expected) << tokens;
      double error = 0, power = 0;
      for (int64_t r = 0; r < kRows; ++r) {
        double truth = bias[r];
        for (int64_t c = 0; c < kCols; ++c) truth += double{decoded[r * kCols + c]} * x[c];
        error += (actual[r] - truth) * (actual[r] - truth);
        power += truth * truth;
      }
      EXPECT_LT(error / power, 1e-4);
    }
  }
  constexpr int64_t kOtherRows = 33;
  // Panels of other types are no larger than the file's rows, whose memory is freed: keeping those weights in place
  // would save nothing.
  const std::vector<std::byte> rows(static_cast<size_t>(kOtherRows * row_bytes(TensorType::kQ4_0, kCols)));
  EXPECT_NE(cpu->load({TensorType::kQ4_0, kOtherRows, kCols, 1, rows.data(), true})->memory, nullptr);
}

// Row counts that do not fill a panel; and weights in place, whose experts must give the same as separately packed
// panels.
TEST_P(CpuBackend, GroupedMatmulMultipliesEachTokenByItsChosenExperts) {
  Random random(3);
  SCOPED_TRACE(random.trace());
  constexpr int64_t kExperts = 7, kRows = 83, kCols = 256;
  constexpr int32_t kTokens = 340, kUsed = 3;  // more tokens of an expert than a product takes at once
  struct Case {
    TensorType gate, up;
    bool in_place, up_packs;
  };
  for (const auto& [gate_type, up_type, in_place, up_packs] :
       {Case{TensorType::kF32, TensorType::kQ8_0, false, false},
        Case{TensorType::kQ4_K, TensorType::kQ8_0, false, false},
        Case{TensorType::kIQ2_XXS, TensorType::kQ2_K, true, false},
        Case{TensorType::kIQ2_XXS, TensorType::kIQ3_S, true, true}}) {
    SCOPED_TRACE(std::string(tensor_type_name(gate_type)) + " " + std::string(tensor_type_name(up_type)));
    const TestWeight gate(gate_type, kRows, kCols, kExperts, random), up(up_type, kRows, kCols, kExperts, random);
    const Weight gates = TestWeight::load({gate_type, kRows, kCols, kExperts, gate.bytes.data(), in_place});
    const Weight ups = TestWeight::load({up_type, kRows, kCols, kExperts, up.bytes.data(), in_place});
    ASSERT_EQ(gates.panels, has_panels(gate_type) && !in_place);
    ASSERT_EQ(ups.panels, !up_packs);
    std::vector<Weight> gate_alone, up_alone;
    for (int64_t e = 0; e < kExperts; ++e) gate_alone.push_back(gate.expert(e)), up_alone.push_back(up.expert(e));
    const std::vector<float> bias = random.normals(kExperts * kRows);
    std::vector<int32_t> ids;
    for (int32_t t = 0; t < kTokens; ++t) {
      // All tokens choose expert 5, none chooses expert 6, and the others are chosen by chance.
      const int32_t a = random.integer(0, 4);
      ids.insert(ids.end(), {a, 5, (a + random.integer(1, 4)) % 5});
    }
    for (const bool per_choice : {false, true}) {
      const std::vector<float> x = random.normals(kTokens * kCols * (per_choice ? kUsed : 1));
      for (const int threads : {1, 2}) {
        const auto cpu = backend(threads);
        std::vector<float> gate_out(kTokens * kUsed * kRows), up_out = gate_out, alone(kRows);
        const MatmulTarget both[] = {{&gates, bias.data(), gate_out.data()}, {&ups, nullptr, up_out.data()}};
        cpu->grouped_matmul(both, x.data(), kTokens, ids.data(), kUsed, per_choice);
        for (int32_t pair = 0; pair < kTokens * kUsed; ++pair) {
          const float* input = x.data() + (per_choice ? pair : pair / kUsed) * kCols;
          MatmulTarget one{&gate_alone[ids[pair]], bias.data() + ids[pair] * kRows, alone.data()};
          cpu->matmul({&one, 1}, input, 1);
          ASSERT_TRUE(same_bits(alone, std::span(gate_out).subspan(pair * kRows, kRows))) << pair;
          one = {&up_alone[ids[pair]], nullptr, alone.data()};
          cpu->matmul({&one, 1}, input, 1);
          ASSERT_TRUE(same_bits(alone, std::span(up_out).subspan(pair * kRows, kRows))) << pair;
        }
      }
    }
  }
}

TEST_P(CpuBackend, RouteChoosesTheLargestInOrder) {
  Random random(4);
  SCOPED_TRACE(random.trace());
  constexpr int32_t kRows = 300, kExperts = 61, kUsed = 6;
  std::vector<float> logits = random.normals(kRows * kExperts, 3);
  for (size_t i = 0; i < logits.size(); i += 5) logits[i] = 1.5f;  // makes many ties
  for (const bool renormalise : {false, true}) {
    std::vector<int32_t> ids(kRows * kUsed);
    std::vector<float> weights(kRows * kUsed);
    backend(2)->route({kExperts, kUsed, renormalise, 2.5f}, logits.data(), kRows, ids.data(), weights.data());
    for (int32_t r = 0; r < kRows; ++r) {
      const float* row = logits.data() + r * kExperts;
      std::vector<int32_t> order(kExperts);
      for (int32_t e = 0; e < kExperts; ++e) order[e] = e;
      std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return row[a] > row[b]; });
      double all = 0, chosen = 0;
      for (int32_t j = 0; j < kExperts; ++j) (j < kUsed ? chosen : all) += std::exp(double{row[order[j]]});
      for (int32_t j = 0; j < kUsed; ++j) {
        ASSERT_EQ(ids[r * kUsed + j], order[j]) << "row " << r << " choice " << j;
        const double truth = 2.5 * std::exp(double{row[order[j]]}) / (renormalise ? chosen : all + chosen);
        ASSERT_NEAR(weights[r * kUsed + j], truth, 2e-6 * truth);
      }
    }
  }
}

TEST_P(CpuBackend, RouteChoosesDifferentExpertsEvenIfLogitsAreNan) {
  const std::vector<float> logits(8, std::numeric_limits<float>::quiet_NaN());
  std::vector<int32_t> ids(8);
  std::vector<float> weights(8);
  backend(1)->route({8, 8, false, 1}, logits.data(), 1, ids.data(), weights.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_P(CpuBackend, MoeCombineSumsInOrder) {
  Random random(5);
  const std::vector<float> y = random.normals(3 * 2 * 33), weights = random.normals(3 * 2);
  std::vector<float> out(3 * 33);
  backend(2)->moe_combine(y.data(), weights.data(), 3, 2, 33, out.data());
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 33; ++c)
      EXPECT_NEAR(out[r * 33 + c],
                  double{weights[r * 2]} * y[r * 66 + c] + double{weights[r * 2 + 1]} * y[r * 66 + 33 + c], 1e-6);
  }
}

TEST_P(CpuBackend, EmbedDecodesTheRowsOfTheGivenTokens) {
  Random random(6);
  const auto cpu = backend(2);
  for (const TensorType type : kWeightTypes) {
    const TestWeight table(type, 20, 512, 1, random);
    const std::vector<TokenId> ids = {TokenId{19}, TokenId{0}, TokenId{7}, TokenId{7}};
    std::vector<float> out(ids.size() * 512);
    for (const float scale : {1.0f, 0.75f}) {
      cpu->embed(table.weight, ids, scale, out.data());
      for (size_t i = 0; i < ids.size(); ++i) {
        for (size_t c = 0; c < 512; ++c)
          ASSERT_EQ(out[i * 512 + c], table.decoded[static_cast<size_t>(index(ids[i])) * 512 + c] * scale);
      }
    }
  }
}

// The arrays are large enough that several threads take part.
TEST_P(CpuBackend, RowOperationsDoNotDependOnThreads) {
  constexpr int64_t kRows = 300, kCols = 515, kCount = kRows * kCols;
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    const auto cpu = backend(threads);
    Random random(7);
    std::vector<float> x = random.normals(kCount);
    const std::vector<float> y = random.normals(kCount), weight = random.normals(kCols), gates = random.normals(kRows);
    std::vector<float> all;
    const auto keep = [&] { all.insert(all.end(), x.begin(), x.end()); };
    cpu->rms_norm(x.data(), weight.data(), 1e-6f, kRows, kCols, x.data()), keep();
    cpu->gate(Activation::kGeluErf, x.data(), y.data(), kRows, kCols, x.data()), keep();
    cpu->add(x.data(), y.data(), kCount, 0.5f), keep();
    cpu->scale_rows(x.data(), gates, kCols), keep();
    cpu->sigmoid_scale_rows(x.data(), gates.data(), kRows, kCols), keep();
    cpu->scale_and_softcap(x.data(), kCount, 1.5f, 3), keep();
    results.push_back(all);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
  EXPECT_TRUE(same_bits(results[0], results[2]));
}

TEST_P(CpuBackend, RowsAreScaledAndGatheredByTheirIndex) {
  Random random(8);
  const auto cpu = backend(2);
  const std::vector<float> x = random.normals(5 * 19);
  std::vector<float> scaled = x, gated = x, gathered(3 * 19);
  const std::vector<float> factors = {1, -2, 0.5f, 4, 0};
  cpu->scale_rows(scaled.data(), factors, 19);
  cpu->sigmoid_scale_rows(gated.data(), factors.data(), 5, 19);
  const std::vector<int32_t> rows = {4, 0, 4};
  cpu->gather_rows(x.data(), rows, 19, gathered.data());
  for (int r = 0; r < 5; ++r) {
    for (int c = 0; c < 19; ++c) {
      EXPECT_EQ(scaled[r * 19 + c], x[r * 19 + c] * factors[r]);
      EXPECT_NEAR(gated[r * 19 + c], x[r * 19 + c] / (1 + std::exp(-factors[r])), 5e-7);
      if (r < 3) {
        EXPECT_EQ(gathered[r * 19 + c], x[rows[r] * 19 + c]);
      }
    }
  }
}

TEST_P(CpuBackend, CopyColumnsWritesNothingOutsideItsColumns) {
  Random random(10);
  const std::vector<float> x = random.normals(7 * 10);
  std::vector<float> out(7 * 5, -1.0f);
  backend(2)->copy_columns(x.data() + 4, 10, out.data() + 1, 5, 7, 3);
  for (int r = 0; r < 7; ++r) {
    for (int c = 0; c < 5; ++c) EXPECT_EQ(out[r * 5 + c], c >= 1 && c < 4 ? x[r * 10 + 3 + c] : -1.0f);
  }
}

TEST_P(CpuBackend, TheRopeTableIsComputedInDoublePrecision) {
  const std::vector<int32_t> positions = {0, 1, 131071, 17};
  std::vector<double> frequencies;
  for (int i = 0; i < 32; ++i) frequencies.push_back(std::pow(10000.0, -i / 32.0));
  std::vector<float> table(positions.size() * 64);
  const auto cpu = backend(2);
  cpu->rope_table(positions, frequencies, 1.25f, table.data());
  for (size_t p = 0; p < positions.size(); ++p) {
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_FLOAT_EQ(table[p * 64 + 2 * i], static_cast<float>(1.25 * std::cos(positions[p] * frequencies[i])));
      EXPECT_FLOAT_EQ(table[p * 64 + 2 * i + 1], static_cast<float>(1.25 * std::sin(positions[p] * frequencies[i])));
    }
  }
  // Each of four rows has two heads and one of 70 elements, of which 64 are rotated.
  Random random(9);
  const std::vector<float> x = random.normals(4 * 2 * 70);
  std::vector<float> turned = x;
  const std::vector<float> y = random.normals(4 * 70);
  std::vector<float> also_turned = y;
  const RopeHeads rotated[] = {{turned.data(), 2}, {also_turned.data(), 1}};
  cpu->rope(RopeStyle::kNeoX, table.data(), 64, rotated, 4, 70);
  for (size_t head = 0; head < 8; ++head) {
    const float c = table[head / 2 * 64 + 10], s = table[head / 2 * 64 + 11];
    EXPECT_NEAR(turned[head * 70 + 5], x[head * 70 + 5] * c - x[head * 70 + 37] * s, 1e-5);
    EXPECT_EQ(turned[head * 70 + 64], x[head * 70 + 64]);
  }
  for (size_t row = 0; row < 4; ++row) {
    const float c = table[row * 64 + 10], s = table[row * 64 + 11];
    EXPECT_NEAR(also_turned[row * 70 + 5], y[row * 70 + 5] * c - y[row * 70 + 37] * s, 1e-5);
    EXPECT_EQ(also_turned[row * 70 + 64], y[row * 70 + 64]);
  }
}

TEST_P(CpuBackend, MemoryIsZeroedAndAligned) {
  const auto cpu = backend(1);
  for (const int64_t bytes : {0, 1, 100, 4 << 20}) {
    const Buffer buffer = cpu->allocate(bytes).value();
    ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    const auto* data = static_cast<const char*>(buffer.data());
    EXPECT_EQ(std::count(data, data + bytes, 0), bytes);
  }
  const auto failed = cpu->allocate(int64_t{1} << 60);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, Code::kOutOfMemory);
  const Buffer buffer = cpu->allocate(12).value();
  const int32_t values[3] = {1, 2, 3};
  int32_t back[3] = {};
  cpu->write(values, 12, buffer.data());
  cpu->read(buffer.data(), 12, back);
  EXPECT_TRUE(std::ranges::equal(values, back));
}

// Sizes that fit into a slab, need the next one, or are too small or too large for a slab.
TEST(Slabs, BuffersAreZeroedDoNotOverlapAndOutliveTheSlabs) {
  struct Held {
    Buffer buffer;
    int value;
  };
  std::vector<Held> held;
  {
    Slabs slabs;
    int value = 0;
    for (const int64_t bytes :
         {(1 << 20) + 1, 1 << 20, 0, 100, 70'001, 8 << 20, 8 << 20, (8 << 20) - 63, 8 << 20, (8 << 20) + 1}) {
      Buffer buffer = slabs.allocate(bytes).value();
      ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u) << bytes;
      auto* data = static_cast<char*>(buffer.data());
      EXPECT_EQ(std::count(data, data + bytes, 0), bytes);
      std::fill_n(data, bytes, static_cast<char>(++value));
      held.push_back({std::move(buffer), value});
    }
  }
  // The slab of the first buffer stays for the others.
  held.erase(held.begin());
  for (const auto& [buffer, value] : held) {
    const auto* data = static_cast<const char*>(buffer.data());
    const auto bytes = static_cast<int64_t>(buffer.bytes());
    if (bytes > 1) {
      EXPECT_EQ(std::count(data, data + bytes, value), bytes);
    }
  }
}

TEST(Slabs, AMappingIsFreedWithItsLastBuffer) {
  const auto is_mapped = [](const void* at) {
    unsigned char in_memory;
    const uintptr_t page = reinterpret_cast<uintptr_t>(at) & ~uintptr_t{65535};
    return ::mincore(reinterpret_cast<void*>(page), 1, &in_memory) == 0;
  };
  auto slabs = std::make_unique<Slabs>();
  Buffer first = slabs->allocate(1 << 20).value(), second = slabs->allocate(1 << 20).value();
  const void* at = first.data();
  first = {};
  EXPECT_TRUE(is_mapped(at));
  second = {};
  EXPECT_TRUE(is_mapped(at));  // mapped still, as the slab is open for further buffers
  slabs.reset();
  EXPECT_FALSE(is_mapped(at));
  Buffer large = cpu::allocate(5 << 20).value();
  at = large.data();
  const void* last = static_cast<const char*>(at) + large.bytes() - 1;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % (2 << 20), 0u);
  EXPECT_TRUE(is_mapped(last));
  large = {};
  EXPECT_FALSE(is_mapped(at));
  EXPECT_FALSE(is_mapped(last));
}

TEST(MakeCpuBackend, RefusesUnknownInstructionSetsAndListsTheUsableOnes) {
  const auto unknown = make_cpu_backend({.threads = 1, .isa = "avx9"});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  EXPECT_NE(unknown.error().message.find("generic"), std::string::npos) << unknown.error().message;
  EXPECT_FALSE(make_cpu_backend({.threads = -1, .isa = ""}).has_value());
  EXPECT_FALSE(make_cpu_backend({.threads = 1 << 20, .isa = ""}).has_value());
  ASSERT_EQ(::setenv("CAIRN_ISA", "mmx", 1), 0);
  EXPECT_FALSE(make_cpu_backend({}).has_value());
  EXPECT_TRUE(make_cpu_backend({.threads = 1, .isa = "generic"}).has_value()) << "the option goes first";
  ASSERT_EQ(::setenv("CAIRN_ISA", "generic", 1), 0);
  EXPECT_EQ(make_cpu_backend({.threads = 2, .isa = ""}).value()->description(), "cpu generic, 2 threads");
  ASSERT_EQ(::unsetenv("CAIRN_ISA"), 0);
}

#ifdef CAIRN_BEST_ISA
TEST(ChooseIsa, TheEmulatorOffersTheBestInstructionSet) { EXPECT_EQ(choose_isa("").value().name, CAIRN_BEST_ISA); }
#endif

TEST(MakeCpuBackend, LoadsTheTypesThatItCanMultiplyAndRefusesOthers) {
  const auto cpu = make_cpu_backend({.threads = 1, .isa = ""}).value();
  const std::byte bytes[64] = {};
  EXPECT_TRUE(cpu->supports(TensorType::kQ4_K));
  EXPECT_FALSE(cpu->supports(TensorType::kI32));
  const auto refused = cpu->load({TensorType::kI32, 1, 16, 1, bytes});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(cpu->load({TensorType::kF32, 1, 16, 1, bytes}).value().data, bytes) << "weights stay where they are";
}

}  // namespace
}  // namespace cairn::kernels::cpu
