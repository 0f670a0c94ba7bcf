#include "kernels/cpu/matmul/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul_test_support.h"
#include "kernels/cpu/packed/panel.h"
#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/float_formats.h"

namespace cairn::kernels::cpu::matmul_test {
namespace {

std::vector<TensorType> types() {
  std::vector<TensorType> list;
  for (const auto& info : tensor_types()) {
    if (has_matmul(info.type)) list.push_back(info.type);
  }
  return list;
}

// Random bytes, except those that decode to infinite, NaN or enormous values.
std::vector<std::byte> random_weights(TensorType type, int64_t rows, int64_t cols, Random& random) {
  const auto& info = tensor_type_info(type);
  std::vector<std::byte> bytes(static_cast<size_t>(rows * row_bytes(type, cols)));
  std::vector<float> decoded(static_cast<size_t>(info.block_elements));
  const auto size = static_cast<size_t>(info.block_bytes);
  for (size_t at = 0; at < bytes.size(); at += size) {
    const auto block = std::span(bytes).subspan(at, size);
    do {
      for (auto& byte : block) byte = static_cast<std::byte>(random());
      quant::decode_row(type, block, decoded);
    } while (!std::ranges::all_of(decoded, [](float v) { return std::abs(v) < 1e5f; }));
  }
  return bytes;
}

struct Problem {
  TensorType type;
  int64_t rows, cols;
  int32_t tokens;
  std::vector<std::byte> weights;  // as a file has them
  std::vector<float> x;            // [tokens, cols]

  std::string description() const {
    return std::string(tensor_type_name(type)) + " rows " + std::to_string(rows) + " cols " + std::to_string(cols) +
           " tokens " + std::to_string(tokens);
  }
};

Problem random_problem(TensorType type, int64_t rows, int64_t cols, int32_t tokens, Random& random) {
  Problem p{type, rows, cols, tokens, random_weights(type, rows, cols, random), {}};
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < tokens * cols; ++i) p.x.push_back(normal(random));
  return p;
}

bool takes_rounded(TensorType type, const MatmulKernels& kernels) {
  return type == TensorType::kBF16 && kernels.round_row != nullptr;
}

Rows make_inputs(const Problem& p, const MatmulKernels& kernels) {
  const size_t cols = static_cast<size_t>(p.cols);
  const bool rounded = takes_rounded(p.type, kernels);
  Rows inputs(p.tokens, has_panels(p.type) ? int8_row_bytes(p.cols)
                        : rounded          ? bf16_row_bytes(p.cols)
                                           : (cols * 4 + 63) / 64 * 64);
  for (size_t t = 0; t < static_cast<size_t>(p.tokens); ++t) {
    const float* x = p.x.data() + t * cols;
    if (has_panels(p.type)) {
      kernels.quantize_row(x, p.cols, inputs.row(t));
    } else if (rounded) {
      kernels.round_row(x, p.cols, inputs.row(t));
    } else {
      std::memcpy(inputs.row(t), x, cols * 4);
    }
  }
  return inputs;
}

// The weights as kernels read them: panels, or the file's rows.
class Prepared {
 public:
  explicit Prepared(const Problem& p)
      : panels_(has_panels(p.type) ? (p.rows + kPanelRows - 1) / kPanelRows : 1,
                has_panels(p.type) ? static_cast<size_t>(panel_format(p.type).panel_bytes(p.cols)) : p.weights.size()) {
    if (has_panels(p.type)) {
      pack_panels(p.type, p.weights.data(), p.rows, p.cols, 0, (p.rows + kPanelRows - 1) / kPanelRows, panels_.row(0));
    } else {
      std::ranges::copy(p.weights, panels_.row(0));
    }
  }
  const std::byte* data() const { return *panels_.pointers(); }

 private:
  Rows panels_;
};

MatmulFunction product_of(TensorType type, const MatmulKernels& kernels) {
  return has_panels(type) ? kernels.matmul_panels : kernels.matmul_rows;
}

// Outputs [tokens, rows], NaN where nothing was written.
std::vector<float> multiply(const Problem& p, const MatmulKernels& kernels, const Rows& inputs, int64_t row_begin,
                            int64_t row_end) {
  std::vector<float> out(static_cast<size_t>(p.tokens * p.rows), std::numeric_limits<float>::quiet_NaN());
  std::vector<float*> outputs;
  for (int32_t t = 0; t < p.tokens; ++t) outputs.push_back(out.data() + t * p.rows);
  product_of(p.type, kernels)(p.type, Prepared(p).data(), p.cols, row_begin, row_end, inputs.pointers(), p.tokens,
                              outputs.data());
  return out;
}

struct Expected {
  double value;
  double magnitude;  // of the terms, which bounds the rounding error
};

// The exact product of decoded weights with the activations that the kernel was given.
std::vector<Expected> exact(const Problem& p, Rows& inputs, const MatmulKernels& kernels) {
  const auto cols = static_cast<size_t>(p.cols);
  const auto stride = static_cast<size_t>(row_bytes(p.type, p.cols));
  std::vector<Expected> out;
  std::vector<float> w(cols);
  for (size_t t = 0; t < static_cast<size_t>(p.tokens); ++t) {
    std::vector<double> x(cols);
    for (size_t c = 0; c < cols; ++c) {
      const Int8Row row = int8_row(inputs.row(t), p.cols);
      x[c] = p.x[t * cols + c];
      if (has_panels(p.type)) x[c] = double(row.values[c]) * row.scales[c / 32];
      if (takes_rounded(p.type, kernels)) x[c] = quant::bf16_to_float(quant::float_to_bf16(p.x[t * cols + c]));
    }
    for (size_t r = 0; r < static_cast<size_t>(p.rows); ++r) {
      quant::decode_row(p.type, std::span(p.weights).subspan(r * stride, stride), w);
      Expected e{0, 0};
      for (size_t begin = 0; begin < cols; begin += 256) {
        double largest = 0;
        double sum = 0;
        for (size_t c = begin; c < std::min(begin + 256, cols); ++c) {
          e.value += w[c] * x[c];
          largest = std::max<double>(largest, std::abs(w[c]));
          sum += std::abs(x[c]);
        }
        e.magnitude += largest * sum;
      }
      out.push_back(e);
    }
  }
  return out;
}

void expect_exact(const Problem& p, const MatmulKernels& kernels) {
  Rows inputs = make_inputs(p, kernels);
  const std::vector<float> out = multiply(p, kernels, inputs, 0, p.rows);
  const std::vector<Expected> expected = exact(p, inputs, kernels);
  const double epsilon = std::ldexp(8 + static_cast<double>(p.cols) / 32, -24);
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], expected[i].value, epsilon * expected[i].magnitude + 1e-30)
        << p.description() << ": token " << i / static_cast<size_t>(p.rows) << " row "
        << i % static_cast<size_t>(p.rows);
  }
}

int64_t random_cols(TensorType type, Random& random) {
  const int64_t block = tensor_type_info(type).block_elements;
  if (block == 1)
    return random_between(random, 1, 3) == 1 ? random_between(random, 1000, 1100) : random_between(random, 1, 99);
  return block * random_between(random, 1, std::max<int64_t>(2, 352 / block));
}

TEST_P(MatmulTest, EqualsExactProductOnRandomShapes) {
  for (const TensorType type : types()) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      const int64_t rows = random_between(random_, 1, 70);
      const auto tokens = static_cast<int32_t>(random_between(random_, 1, 19));
      expect_exact(random_problem(type, rows, random_cols(type, random_), tokens, random_), *GetParam().kernels);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MatmulTest, EqualsExactProductOnAwkwardWidths) {
  for (const TensorType type : types()) {
    const int64_t block = tensor_type_info(type).block_elements;
    for (const int64_t cols : {1, 7, 8, 15, 16, 31, 32, 33, 64, 96, 256, 288, 1024, 1056, 2304}) {
      if (cols % block != 0) continue;
      expect_exact(random_problem(type, 9, cols, 5, random_), *GetParam().kernels);
      if (HasFatalFailure()) return;
    }
  }
}

// Several panels with rows longer than what is prepared once for all panels (int8_prepared.h).
TEST_P(MatmulTest, EqualsExactProductOfLongRows) {
  constexpr int64_t kCols = 8192 + 2 * 256;
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ8_0, TensorType::kQ3_K, TensorType::kQ6_K}) {
    for (const int32_t tokens : {1, 3, 10, 35}) {
      expect_exact(random_problem(type, 2 * kPanelRows + 5, kCols, tokens, random_), *GetParam().kernels);
      if (HasFatalFailure()) return;
    }
  }
}

// Neither the tile nor the neighbours change a bit, as matmul.h promises.
TEST_P(MatmulTest, ARowAndTokenGiveTheSameBitsAloneAsInAnyTile) {
  const MatmulKernels& kernels = *GetParam().kernels;
  for (const TensorType type : types()) {
    // Few tokens, many tokens, and slightly more than few with rows of which the caches hold only a part.
    for (const int kind : {0, 1, 2}) {
      const int64_t rows =
          kind == 2 ? random_between(random_, 70, 140) : random_between(random_, 1, kind == 1 ? 40 : 70);
      const int32_t tokens_min = kind == 0 ? 1 : 17 * kind;
      const auto tokens = static_cast<int32_t>(random_between(random_, tokens_min, kind == 1 ? kTokensAtOnce + 2 : 36));
      const int64_t block = tensor_type_info(type).block_elements;
      const int64_t least = kind == 1 ? 1024 : 2048;
      const int64_t cols = kind > 0 ? (least / block + 1) * block : random_cols(type, random_);
      const Problem p = random_problem(type, rows, cols, tokens, random_);
      const Rows inputs = make_inputs(p, kernels);
      const Prepared weights(p);
      const std::vector<float> together = multiply(p, kernels, inputs, 0, rows);
      const int64_t step = has_panels(type) ? kPanelRows : 1;
      for (int32_t t = 0; t < tokens; ++t) {
        std::vector<float> alone(static_cast<size_t>(rows));
        for (int64_t r = 0; r < rows; ++r) {
          float* output = alone.data();
          if (r % step == 0) {
            product_of(type, kernels)(type, weights.data(), cols, r, std::min(r + step, rows), inputs.pointers() + t, 1,
                                      &output);
          }
          ASSERT_EQ(std::bit_cast<uint32_t>(alone[static_cast<size_t>(r)]),
                    std::bit_cast<uint32_t>(together[static_cast<size_t>(t * rows + r)]))
              << p.description() << ": token " << t << " row " << r;
        }
      }
    }
  }
}

// Makes scales zero or, if the format has them, the smallest possible; infinite in Q8_0.
void scale_block(TensorType type, std::span<std::byte> block, bool zero) {
  const auto fill = [&](size_t at, size_t count) {
    std::fill_n(block.begin() + static_cast<std::ptrdiff_t>(at), count, std::byte{0});
  };
  if (type == TensorType::kMXFP4) block[0] = std::byte{static_cast<uint8_t>(zero ? 0 : 40)};
  if (type == TensorType::kQ4_0 || type == TensorType::kQ8_0) fill(0, 2);
  if (type == TensorType::kQ4_0 && !zero) block[0] = std::byte{1};
  if (type == TensorType::kQ8_0 && !zero) block[1] = std::byte{0x7c};
  if (type == TensorType::kQ4_K) fill(zero ? 0 : 4, zero ? 4 : 12);
  if (type == TensorType::kQ6_K) fill(block.size() - 2, 2);
}

// Scales of weights and of activations that are zero, tiny, huge or infinite.
TEST_P(MatmulTest, ExtremeScalesGiveTheSameBitsAloneAsInAnyTile) {
  const MatmulKernels& kernels = *GetParam().kernels;
  constexpr int64_t kCols = 1280;
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kQ6_K,
                                TensorType::kMXFP4, TensorType::kNVFP4}) {
    for (int kind = 0; kind < 12; ++kind) {
      const int32_t tokens = kind < 6 ? 20 : 40;
      Problem p = random_problem(type, 35, kCols, tokens, random_);
      const auto size = static_cast<size_t>(tensor_type_info(type).block_bytes);
      for (size_t at = 0; at < p.weights.size(); at += size) {
        if (random_between(random_, 0, 3) == 0)
          scale_block(type, std::span(p.weights).subspan(at, size), kind % 2 == 0);
      }
      for (int64_t b = 0; b < tokens * kCols / 32; ++b) {
        constexpr int kBits[] = {0, 0, 124, -98, -62, 70};
        const int bits = random_between(random_, 0, 3) == 0 ? kBits[kind % 6] : 0;
        const float factor = random_between(random_, 0, 9) == 0 ? 0 : std::ldexp(1.0f, bits);
        for (int64_t i = 0; i < 32; ++i) p.x[static_cast<size_t>(32 * b + i)] *= factor;
      }
      const Rows inputs = make_inputs(p, kernels);
      const Prepared weights(p);
      const std::vector<float> together = multiply(p, kernels, inputs, 0, p.rows);
      for (int32_t t = 0; t < tokens; ++t) {
        std::vector<float> alone(static_cast<size_t>(p.rows));
        float* output = alone.data();
        kernels.matmul_panels(type, weights.data(), kCols, 0, p.rows, inputs.pointers() + t, 1, &output);
        for (size_t r = 0; r < alone.size(); ++r) {
          const float value = together[static_cast<size_t>(t) * alone.size() + r];
          if (std::isnan(alone[r]) && std::isnan(value)) continue;
          ASSERT_EQ(std::bit_cast<uint32_t>(alone[r]), std::bit_cast<uint32_t>(value))
              << p.description() << " kind " << kind << ": token " << t << " row " << r;
        }
      }
    }
  }
}

// Every number of rows and of tokens up to beyond the largest tile.
TEST_P(MatmulTest, EveryTileShapeGivesTheSameBits) {
  const MatmulKernels& kernels = *GetParam().kernels;
  for (const TensorType type : types()) {
    if (!has_panels(type) && type != TensorType::kF32 && type != TensorType::kF16 && type != TensorType::kBF16)
      continue;
    const Problem all = random_problem(type, 37, 256, 36, random_);
    const Rows inputs = make_inputs(all, kernels);
    const std::vector<float> whole = multiply(all, kernels, inputs, 0, all.rows);
    for (int64_t rows = 1; rows <= all.rows; ++rows) {
      Problem part = all;
      part.tokens = static_cast<int32_t>(1 + rows % all.tokens);
      int64_t begin = random_between(random_, 0, all.rows - rows);
      if (has_panels(type)) begin -= begin % kPanelRows;
      const std::vector<float> out = multiply(part, kernels, inputs, begin, begin + rows);
      for (int32_t t = 0; t < part.tokens; ++t) {
        for (int64_t r = 0; r < all.rows; ++r) {
          const float value = out[static_cast<size_t>(t * all.rows + r)];
          if (r < begin || r >= begin + rows) {
            ASSERT_TRUE(std::isnan(value)) << part.description() << ": wrote outside its rows, at " << r;
          } else {
            ASSERT_EQ(std::bit_cast<uint32_t>(value),
                      std::bit_cast<uint32_t>(whole[static_cast<size_t>(t * all.rows + r)]))
                << part.description() << ": token " << t << " row " << r << " of " << begin << " + " << rows;
          }
        }
      }
    }
  }
}

// -- Extremes: every weight at an end of its range, every activation at +-127.

template <typename Block>
void append(std::vector<std::byte>& out, const Block& block) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&block);
  out.insert(out.end(), bytes, bytes + sizeof(Block));
}

// A row of 256 columns: all weights lowest (0), highest (1), or alternating in runs of `mode` columns.
std::vector<std::byte> extreme_row(TensorType type, int mode) {
  const auto high = [mode](int column) { return mode < 2 ? mode == 1 : column / (mode - 1) % 2 == 1; };
  std::vector<std::byte> out;
  const uint16_t one = quant::float_to_half(1.0f);
  if (type == TensorType::kQ8_0) {
    for (int b = 0; b < 8; ++b) {
      quant::BlockQ8_0 block{one, {}};
      for (int i = 0; i < 32; ++i) block.qs[i] = high(i) ? 127 : -128;
      append(out, block);
    }
  } else if (type == TensorType::kQ4_0) {
    for (int b = 0; b < 8; ++b) {
      quant::BlockQ4_0 block{one, {}};
      for (int i = 0; i < 16; ++i) block.qs[i] = static_cast<uint8_t>((high(i) ? 15 : 0) | (high(i + 16) ? 240 : 0));
      append(out, block);
    }
  } else if (type == TensorType::kQ4_K) {
    quant::BlockQ4_K block{one, quant::float_to_half(mode % 2 == 0 ? 1.0f : 0.0f), {}, {}};
    std::ranges::fill(block.scales, uint8_t{255});
    for (int i = 0; i < 128; ++i) block.qs[i] = static_cast<uint8_t>((high(i) ? 15 : 0) | (high(i) ? 240 : 0));
    append(out, block);
  } else {
    quant::BlockQ6_K block{{}, {}, {}, one};
    std::ranges::fill(block.scales, static_cast<int8_t>(mode % 2 == 0 ? -128 : 127));
    for (int i = 0; i < 128; ++i) block.ql[i] = high(i) ? 255 : 0;
    for (int i = 0; i < 64; ++i) block.qh[i] = high(i) ? 255 : 0;
    append(out, block);
  }
  return out;
}

TEST_P(MatmulTest, ExtremeWeightsAndActivationsDoNotSaturate) {
  constexpr int kModes = 10;
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ6_K}) {
    Problem p{type, kModes, 256, kModes, {}, {}};
    for (int mode = 0; mode < kModes; ++mode) {
      const auto row = extreme_row(type, mode);
      p.weights.insert(p.weights.end(), row.begin(), row.end());
      for (int c = 0; c < 256; ++c) {
        p.x.push_back((mode < 2 ? mode == 1 : c / (mode - 1) % 2 == 1) ? 127.0f : -127.0f);
      }
    }
    expect_exact(p, *GetParam().kernels);
    if (HasFatalFailure()) return;
  }
}

// Extreme weights of types in which any byte is valid do not saturate: all of a block's bytes repeat one pattern,
// except its binary16 scales, which are 1.
TEST_P(MatmulTest, ExtremeBytePatternsDoNotSaturate) {
  struct Layout {
    TensorType type;
    std::vector<size_t> halves;
  };
  const std::vector<Layout> layouts = {
      {TensorType::kQ4_1, {0, 2}},   {TensorType::kQ5_0, {0}},    {TensorType::kQ5_1, {0, 2}},
      {TensorType::kQ2_K, {80, 82}}, {TensorType::kQ3_K, {108}},  {TensorType::kQ5_K, {0, 2}},
      {TensorType::kIQ4_NL, {0}},    {TensorType::kIQ4_XS, {0}},  {TensorType::kMXFP4, {}},
      {TensorType::kIQ1_S, {0}},     {TensorType::kIQ2_XXS, {0}}, {TensorType::kIQ2_XS, {0}},
      {TensorType::kIQ2_S, {0}},     {TensorType::kIQ3_XXS, {0}}, {TensorType::kIQ3_S, {0}},
      {TensorType::kTQ1_0, {52}},    {TensorType::kTQ2_0, {64}},  {TensorType::kNVFP4, {}},
      {TensorType::kQ1_0, {0}},      {TensorType::kQ2_0, {0}}};
  const uint8_t patterns[] = {0x00, 0xff, 0x0f, 0xf0, 0x55, 0xaa, 0x33, 0xcc, 0x77, 0x88};
  const uint16_t one = quant::float_to_half(1.0f);
  for (const auto& [type, halves] : layouts) {
    const PanelFormat format = panel_format(type);
    Problem p{type, std::ssize(patterns), 256, std::ssize(patterns), {}, {}};
    for (const uint8_t pattern : patterns) {
      std::vector<std::byte> block(static_cast<size_t>(row_bytes(type, format.block_cols)),
                                   static_cast<std::byte>(pattern));
      for (const size_t at : halves) std::memcpy(block.data() + at, &one, sizeof(one));
      if (type == TensorType::kMXFP4) block[0] = std::byte{128};
      if (type == TensorType::kNVFP4) std::fill_n(block.begin(), 4, std::byte{0x40});
      for (int b = 0; b < 256 / format.block_cols; ++b) p.weights.insert(p.weights.end(), block.begin(), block.end());
      for (int c = 0; c < 256; ++c) p.x.push_back((pattern >> c % 8 & 1) != 0 ? 127.0f : -127.0f);
    }
    expect_exact(p, *GetParam().kernels);
    if (HasFatalFailure()) return;
  }
}

TEST_P(MatmulTest, ANanActivationMakesOnlyItsOwnTokenNan) {
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ6_K,
                                TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    for (const int32_t tokens : {6, 20, 40}) {
      Problem p = random_problem(type, 19, 512, tokens, random_);
      p.x[2 * 512 + 300] = std::numeric_limits<float>::quiet_NaN();
      const Rows inputs = make_inputs(p, *GetParam().kernels);
      const std::vector<float> out = multiply(p, *GetParam().kernels, inputs, 0, p.rows);
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(std::isnan(out[i]), i / 19 == 2) << p.description() << " at " << i;
    }
  }
}

// Without panels a type is multiplied by decoding its rows, many times more slowly.
TEST(Panel, EveryQuantisedTypeHasThem) {
  for (const TensorType type : types())
    EXPECT_EQ(has_panels(type), tensor_type_info(type).block_elements > 1) << tensor_type_name(type);
}

TEST(Panel, PackingKeepsTheValueOfEveryWeight) {
  Random random(1);
  for (const TensorType type : types()) {
    if (!has_panels(type)) continue;
    const int64_t block_cols = panel_format(type).block_cols;
    const Problem p = random_problem(type, 35, 5 * block_cols, 0, random);
    const Prepared panels(p);
    std::vector<float> expected(p.weights.size() / static_cast<size_t>(row_bytes(type, block_cols)) *
                                static_cast<size_t>(block_cols));
    quant::decode_row(type, p.weights, expected);
    std::vector<float> weights(static_cast<size_t>(block_cols));
    for (int64_t i = 0; i < 35 * 5; ++i) {
      decode_panel_block(type, panels.data(), p.cols, i / 5, i % 5, weights.data());
      for (int64_t c = 0; c < block_cols; ++c) {
        ASSERT_EQ(weights[static_cast<size_t>(c)], expected[static_cast<size_t>(i * block_cols + c)])
            << p.description() << " block " << i << " column " << c;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, MatmulTest, ::testing::ValuesIn(isas()), isa_name);

}  // namespace
}  // namespace cairn::kernels::cpu::matmul_test
