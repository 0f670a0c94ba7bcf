// Matrix products and embeddings on the GPU, for every type that it multiplies, compared with double precision and with
// the CPU's; and rows alone compared with rows among others.
#include <memory>

#include "gpu/lab.h"
#include "quant/codec.h"
#include "quant/test_data.h"

namespace cairn::gpu {
namespace {

/// Rows and columns of matrices; the largest have more columns than a warp, or eight warps, read at once.
constexpr std::pair<int64_t, int64_t> kAllShapes[] = {{37, 256}, {70, 2'304}, {200, 768}, {1'031, 1'024}};
constexpr std::span kShapes = std::span(kAllShapes).first(kEmulated ? 2 : 4);

bool is_float(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
}

/// Bound of the NMSE: activations are float32, or rounded to 8 bits (bfloat16) or 11 bits (float16), as are dequantised
/// weights and their scales.
double squared_bound(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return 1e-11;
    case TensorType::kBF16:
      return 1e-5;
    case TensorType::kF16:
      return 2e-7;
    default:
      return 1e-6;
  }
}

/// A matrix as in a file: random numbers for floats, and the reference rows one after the other for block types.
struct Blocks {
  Blocks(TensorType type, int64_t rows, int64_t cols, int64_t experts, uint32_t seed)
      : matrix{.type = type, .rows = rows, .cols = cols, .experts = experts},
        decoded(static_cast<size_t>(rows * cols * experts)) {
    Random random(seed);
    const auto row_size = static_cast<size_t>(row_bytes(type, cols));
    bytes.resize(row_size * static_cast<size_t>(rows * experts));
    std::string name(tensor_type_name(type));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name.ends_with("_k")) name.back() = 'K';
    const std::vector<std::byte> reference = quant::read_bytes(test_data("/quants/"), name + ".bin");
    for (int64_t r = 0; r < rows * experts; ++r) {
      const std::span<std::byte> row(bytes.data() + static_cast<size_t>(r) * row_size, row_size);
      if (is_float(type)) {
        quant::encode_row(type, random.normals(cols), {}, row);
      } else {
        EXPECT_FALSE(reference.empty()) << name;
        // Each row begins at another block of the reference.
        const auto block = static_cast<size_t>(tensor_type_info(type).block_bytes);
        const size_t begin = static_cast<size_t>(random.integer(0, 1'000)) * block;
        for (size_t i = 0; i < row_size; ++i) row[i] = reference[(begin + i) % reference.size()];
      }
      quant::decode_row(type, row,
                        std::span(decoded).subspan(static_cast<size_t>(r * cols), static_cast<size_t>(cols)));
    }
    matrix.data = bytes.data();
  }

  kernels::HostMatrix matrix;
  std::vector<std::byte> bytes;
  std::vector<float> decoded;
};

/// NMSE of rows of products compared with sums in double precision. Only some rows are checked, as those sums are slow.
double squared_error(const Blocks& blocks, const std::vector<float>& x, const std::vector<float>& bias,
                     const std::vector<float>& products, int32_t tokens) {
  const int64_t rows = blocks.matrix.rows, cols = blocks.matrix.cols;
  double error = 0, power = 0;
  for (const int64_t t : {0, 2, 7, 8, 32, 131, 199}) {
    if (t >= tokens) break;
    for (int64_t r = 0; r < rows; ++r) {
      double truth = bias[r];
      for (int64_t c = 0; c < cols; ++c) truth += double{blocks.decoded[r * cols + c]} * x[t * cols + c];
      const double apart = products[t * rows + r] - truth;
      error += apart * apart;
      power += truth * truth;
    }
  }
  return error / power;
}

class GpuProducts : public GpuTest {
 protected:
  static std::vector<TensorType> types() {
    std::vector<TensorType> found;
    for (const TensorTypeInfo& info : tensor_types()) {
      if (gpu().supports(info.type)) found.push_back(info.type);
    }
    return found;
  }
};

TEST_F(GpuProducts, SupportsEveryTypeThatTheCpuSupports) {
  for (const TensorTypeInfo& info : tensor_types()) {
    EXPECT_EQ(gpu().supports(info.type), cpu().supports(info.type)) << info.name;
  }
}

TEST_F(GpuProducts, AgreeWithDoublePrecision) {
  for (const TensorType type : types()) {
    for (const auto& [rows, cols] : kShapes) {
      SCOPED_TRACE(fmt::format("{} [{}, {}]", tensor_type_name(type), rows, cols));
      const Blocks blocks(type, rows, cols, 1, 11);
      Random random(12);
      const std::vector<float> x = random.normals(kRowsMax * cols), bias = random.normals(rows);
      const kernels::Weight weight = gpu().load(blocks.matrix).value();
      for (const int32_t tokens : kRowCounts) {
        Arrays arrays(gpu());
        float* out = arrays.make(tokens * rows);
        const kernels::MatmulTarget projection{&weight, arrays.put(bias), out};
        gpu().matmul({&projection, 1}, arrays.put(rows_of(x, cols, 0, tokens)), tokens);
        const double error = squared_error(blocks, x, bias, arrays.get(out, tokens * rows), tokens);
        EXPECT_LT(error, squared_bound(type)) << tokens << " rows";
      }
    }
  }
}

TEST_F(GpuProducts, AgreeWithTheCpuAndDoNotDependOnNeighbours) {
  for (const TensorType type : types()) {
    const bool floats = is_float(type);
    const bool small_blocks = tensor_type_info(type).block_elements == 32;
    const int64_t rows = 77, cols = floats ? 333 : small_blocks ? 544 : 512;
    SCOPED_TRACE(tensor_type_name(type));
    const Blocks blocks(type, rows, cols, 1, 21);
    Random random(22);
    const std::vector<float> x = random.normals(kRowsMax * cols);
    const kernels::Weight on_gpu = gpu().load(blocks.matrix).value(), on_cpu = cpu().load(blocks.matrix).value();
    // The CPU rounds activations to 8 bits if weights are quantised.
    check_rows(gpu(), cpu(), type == TensorType::kF32 ? 1e-5 : 2e-2,
               [&](kernels::Backend& backend, int64_t first, int64_t tokens) {
                 Arrays arrays(backend);
                 float* out = arrays.make(tokens * rows);
                 const kernels::MatmulTarget projection{&backend == &gpu() ? &on_gpu : &on_cpu, nullptr, out};
                 backend.matmul({&projection, 1}, arrays.put(rows_of(x, cols, first, tokens)),
                                static_cast<int32_t>(tokens));
                 return arrays.get(out, tokens * rows);
               });
  }
}

// Norms and gates also write rounded results, for the product that is likely to follow.
TEST_F(GpuProducts, RoundedInputsAreThoseWrittenLast) {
  constexpr int64_t kRows = 5;
  // Rows of all lengths, also those whose results are beyond float16.
  for (const auto& [cols, largest] : {std::pair<int64_t, float>{224, 1},
                                      {256, 1e6f},
                                      {1'024, 1},
                                      {2'048, 1},
                                      {4'096, 1e6f},
                                      {8'192, 1},
                                      {14'336, 1e6f},
                                      {28'672, 1},
                                      {36'864, 1e6f}}) {
    const Blocks blocks(TensorType::kQ8_0, 33, cols, 1, 51);
    const kernels::Weight weight = gpu().load(blocks.matrix).value();
    Random random(52);
    Arrays arrays(gpu());
    const std::vector<float> values = random.normals(kRows * cols, 3);
    float* const x = arrays.put(values);
    float* const y = arrays.put(random.normals(kRows * cols, largest));
    const float* const norm = arrays.put(random.normals(cols, largest));
    float* const out = arrays.make(kRows * cols);
    float* const copy = arrays.make(kRows * cols);
    float* const products = arrays.make(kRows * 33);
    const kernels::MatmulTarget projection{&weight, nullptr, products};
    const auto product_of = [&](const float* input) {
      gpu().matmul({&projection, 1}, input, kRows);
      return arrays.get(products, kRows * 33);
    };
    // A copy has no rounded result.
    const auto check = [&](const char* what) {
      const std::vector<float> found = product_of(out);
      EXPECT_TRUE(kernels::cpu::same_bits(found, product_of(out))) << what << ", " << cols << " columns, again";
      gpu().copy(out, kRows * cols * 4, copy);
      EXPECT_TRUE(kernels::cpu::same_bits(found, product_of(copy))) << what << ", " << cols << " columns";
    };
    gpu().rms_norm(x, norm, 1e-6f, kRows, cols, out);
    check("norm");
    gpu().add_rms_norm(x, y, 0.5f, norm, 1e-6f, kRows, cols, out);
    check("sum and norm");
    gpu().gate(kernels::Activation::kSilu, x, y, kRows, cols, out);
    check("gate");
    gpu().rms_norm(x, norm, 1e-6f, kRows, cols, out);
    gpu().add(out, y, kRows * cols, 2);
    check("something after the norm");
    gpu().rms_norm(x, norm, 1e-6f, kRows, cols, out);
    gpu().write(values.data(), kRows * cols * 4, out);
    check("a write after the norm");
    gpu().rms_norm(x, norm, 1e-6f, kRows, cols, out);
    gpu().copy(y, kRows * cols * 4, out);
    check("a copy after the norm");
    gpu().rms_norm(x, norm, 1e-6f, kRows, cols, out);
    gpu().rms_norm(y, norm, 1e-6f, kRows, cols, copy);
    check("another norm after the norm");
  }
}

// More rows than GEMV kernels take, in small, medium and large tiles.
TEST_F(GpuProducts, ProductsOfManyRowsAgreeWithDoublePrecision) {
  struct Shape {
    int64_t rows, cols;
    int32_t tokens;
  };
  constexpr Shape kSmall{200, 512, 130};
  constexpr int64_t kMany = kEmulated ? 512 : 16'896;  // so many that larger tiles fill the GPU
  const std::pair<TensorType, std::vector<Shape>> shapes[] = {
      {TensorType::kF16, {{77, 333, 129}, kSmall, {kMany, 40, 140}, {kMany, 333, 200}}},
      {TensorType::kBF16, {{77, 333, 129}, kSmall, {kMany, 40, 140}, {kMany, 264, 200}}},
      {TensorType::kQ4_1, {{77, 352, 129}, {kMany, 64, 140}, {kMany, 352, 200}}},  // 352: three steps of a quad
      {TensorType::kNVFP4, {{77, 320, 129}, {kMany, 64, 140}, {kMany, 320, 200}}},
      {TensorType::kQ2_K, {kSmall}},
      {TensorType::kQ4_K, {kSmall}},
      {TensorType::kQ6_K, {kSmall}},
  };
  for (const auto& [type, of_type] : shapes) {
    for (const auto& [rows, cols, tokens] : of_type) {
      SCOPED_TRACE(fmt::format("{} [{}, {}], {} rows", tensor_type_name(type), rows, cols, tokens));
      const Blocks blocks(type, rows, cols, 1, 61);
      Random random(62);
      const std::vector<float> x = random.normals(tokens * cols);
      const kernels::Weight on_gpu = gpu().load(blocks.matrix).value(), on_cpu = cpu().load(blocks.matrix).value();
      const auto product = [&](kernels::Backend& backend, const kernels::Weight& weight, int64_t first, int32_t count) {
        Arrays arrays(backend);
        const kernels::MatmulTarget projection{&weight, nullptr, arrays.make(count * rows)};
        backend.matmul({&projection, 1}, arrays.put(rows_of(x, cols, first, count)), count);
        return arrays.get(projection.out, count * rows);
      };
      const std::vector<float> together = product(gpu(), on_gpu, 0, tokens);
      EXPECT_LE(difference(together, product(cpu(), on_cpu, 0, tokens)), 2e-2);
      for (const int64_t row : {int64_t{0}, int64_t{tokens} / 2, int64_t{tokens} - 1}) {
        EXPECT_TRUE(kernels::cpu::same_bits(product(gpu(), on_gpu, row, 1), rows_of(together, rows, row, 1)))
            << "row " << row;
      }
      EXPECT_TRUE(kernels::cpu::same_bits(product(gpu(), on_gpu, 1, 20), rows_of(together, rows, 1, 20)));
    }
  }
}

// float16 ends at 65504.
TEST_F(GpuProducts, ActivationsBeyondFloat16AreScaled) {
  constexpr int64_t kRows = 40, kCols = 512;
  for (const TensorType type : {TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_K}) {
    const Blocks blocks(type, kRows, kCols, 1, 71);
    const kernels::Weight on_gpu = gpu().load(blocks.matrix).value(), on_cpu = cpu().load(blocks.matrix).value();
    Random random(72);
    std::vector<float> x;
    for (const float largest : {1.0f, 3e4f, 4e4f, 1e5f, 1e9f, 1e30f}) {
      for (const float normal : random.normals(kCols)) x.push_back(normal * largest);
    }
    const auto tokens = static_cast<int32_t>(std::ssize(x) / kCols);
    const auto product = [&](kernels::Backend& backend, const kernels::Weight& weight) {
      Arrays arrays(backend);
      const kernels::MatmulTarget projection{&weight, nullptr, arrays.make(tokens * kRows)};
      backend.matmul({&projection, 1}, arrays.put(x), tokens);
      return arrays.get(projection.out, tokens * kRows);
    };
    const std::vector<float> found = product(gpu(), on_gpu), expected = product(cpu(), on_cpu);
    for (int64_t row = 0; row < tokens; ++row) {
      EXPECT_LE(difference(rows_of(found, kRows, row, 1), rows_of(expected, kRows, row, 1)), 2e-2)
          << tensor_type_name(type) << " row " << row;
    }
  }
}

// Projections of the same type are computed together.
TEST_F(GpuProducts, ProjectionsOfOneInputGiveTheBitsOfEachAlone) {
  constexpr int64_t kCols = 1'024;
  constexpr int64_t kExperts = 5;
  constexpr int32_t kUsed = 2, kTokensMax = 9;
  std::vector<std::unique_ptr<Blocks>> blocks;
  std::vector<kernels::Weight> weights;
  for (const auto& [type, rows] : {std::pair{TensorType::kF16, 33},
                                   {TensorType::kF16, 9},
                                   {TensorType::kQ8_0, 64},
                                   {TensorType::kQ4_K, 129},
                                   {TensorType::kQ4_K, 1},
                                   {TensorType::kQ4_K, 16},
                                   {TensorType::kQ4_K, 40},
                                   {TensorType::kQ8_0, 7}}) {
    blocks.push_back(std::make_unique<Blocks>(type, rows, kCols, kExperts, 31 + static_cast<uint32_t>(blocks.size())));
    weights.push_back(gpu().load(blocks.back()->matrix).value());
  }
  Random random(34);
  const std::vector<float> x = random.normals(kTokensMax * kCols);
  std::vector<int32_t> chosen;
  for (int32_t i = 0; i < kTokensMax * kUsed; ++i) chosen.push_back(i * 3 % kExperts);
  for (const int32_t tokens : {1, 2, 4, 7, kTokensMax}) {
    for (const bool experts : {false, true}) {
      SCOPED_TRACE(fmt::format("{} rows, experts {}", tokens, experts));
      Arrays arrays(gpu());
      const float* in = arrays.put(x);
      const int32_t* ids = arrays.put(chosen);
      const int64_t outputs = experts ? tokens * kUsed : tokens;
      std::vector<kernels::Weight> used = weights;
      std::vector<kernels::MatmulTarget> together;
      for (kernels::Weight& weight : used) {
        if (!experts) weight.experts = 1;
        const float* bias = arrays.put(random.normals(weight.rows * kExperts));
        together.push_back({&weight, bias, arrays.make(outputs * weight.rows)});
      }
      const auto multiply = [&](std::span<const kernels::MatmulTarget> projections) {
        if (experts) {
          gpu().grouped_matmul(projections, in, tokens, ids, kUsed, false);
        } else {
          gpu().matmul(projections, in, tokens);
        }
      };
      multiply(together);
      for (const kernels::MatmulTarget& each : together) {
        const int64_t count = outputs * each.weight->rows;
        const kernels::MatmulTarget alone{each.weight, each.bias, arrays.make(count)};
        multiply({&alone, 1});
        EXPECT_TRUE(kernels::cpu::same_bits(arrays.get(alone.out, count), arrays.get(each.out, count)))
            << tensor_type_name(each.weight->type) << ", " << each.weight->rows;
      }
    }
  }
}

// The CPU rounds activations to 8 bits, which with 256 columns changes results by up to 2 % of the largest.
TEST_F(GpuProducts, ProductsOfExpertsAgreeWithTheCpu) {
  constexpr int64_t kExperts = 6;
  constexpr int32_t kUsed = 3;
  for (const TensorType type : types()) {
    const bool floats = is_float(type);
    const int64_t rows = 45, cols = floats ? 100 : 256;
    Blocks blocks(type, rows, cols, kExperts, 41);
    Random random(42);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < kRowsMax * kUsed; ++i) ids.push_back(random.integer(0, kExperts - 1));
    const std::vector<float> bias = random.normals(kExperts * rows);
    for (const bool per_choice : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", tensor_type_name(type), per_choice ? ", an input for each choice, scaled" : ""));
      if (per_choice) blocks.matrix.scales = random.normals(kExperts);
      const kernels::Weight on_gpu = gpu().load(blocks.matrix).value(), on_cpu = cpu().load(blocks.matrix).value();
      const int64_t inputs = per_choice ? kUsed : 1;
      const std::vector<float> x = random.normals(kRowsMax * inputs * cols);
      check_rows(gpu(), cpu(), type == TensorType::kF32 ? 1e-5 : 3e-2,
                 [&](kernels::Backend& backend, int64_t first, int64_t tokens) {
                   Arrays arrays(backend);
                   float* out = arrays.make(tokens * kUsed * rows);
                   const kernels::MatmulTarget projection{&backend == &gpu() ? &on_gpu : &on_cpu, arrays.put(bias),
                                                          out};
                   backend.grouped_matmul({&projection, 1}, arrays.put(rows_of(x, inputs * cols, first, tokens)),
                                          static_cast<int32_t>(tokens), arrays.put(rows_of(ids, kUsed, first, tokens)),
                                          kUsed, per_choice);
                   return arrays.get(out, tokens * kUsed * rows);
                 });
    }
  }
}

// An expert's outputs are more than a tile, those of others fewer or none.
TEST_F(GpuProducts, ProductsOfAnExpertThatMostRowsChoose) {
  constexpr int64_t kExperts = 4, kRows = 33, kCols = 256;
  constexpr int32_t kTokens = 200;
  for (const TensorType type : {TensorType::kF16, TensorType::kF32, TensorType::kQ8_0}) {
    const Blocks blocks(type, kRows, kCols, kExperts, 81);
    Random random(82);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < kTokens; ++i) ids.push_back(i % 7 == 3 ? 2 * random.integer(0, 1) : 1);
    const std::vector<float> x = random.normals(kTokens * kCols);
    const kernels::Weight weight = gpu().load(blocks.matrix).value();
    const auto product = [&](int64_t first, int32_t count) {
      Arrays arrays(gpu());
      const kernels::MatmulTarget projection{&weight, nullptr, arrays.make(count * kRows)};
      gpu().grouped_matmul({&projection, 1}, arrays.put(rows_of(x, kCols, first, count)), count,
                           arrays.put(rows_of(ids, 1, first, count)), 1, false);
      return arrays.get(projection.out, count * kRows);
    };
    const std::vector<float> together = product(0, kTokens);
    for (int64_t row = 0; row < kTokens; ++row) {
      EXPECT_TRUE(kernels::cpu::same_bits(product(row, 1), rows_of(together, kRows, row, 1)))
          << tensor_type_name(type) << " row " << row;
    }
  }
}

TEST_F(GpuProducts, EmbeddingsAreTheDecodedRows) {
  constexpr int32_t kTableRows = 45, kMore = 20, kCount = kTableRows + kMore;
  for (const TensorType type : types()) {
    SCOPED_TRACE(tensor_type_name(type));
    const int64_t cols = is_float(type) ? 333 : 512;
    Blocks blocks(type, kTableRows, cols, 1, 51);
    Random random(52);
    std::vector<TokenId> ids;
    for (int32_t i = 0; i < kTableRows; ++i) ids.push_back(TokenId{i});
    for (int32_t i = 0; i < kMore; ++i) ids.push_back(TokenId{random.integer(0, kTableRows - 1)});
    for (const auto& [scale, own] : {std::pair{1.0f, 1.0f}, {7.5f, 0.25f}}) {
      if (own != 1) blocks.matrix.scales = {own};
      const kernels::Weight table = gpu().load(blocks.matrix).value();
      Arrays arrays(gpu());
      float* out = arrays.make(kCount * cols);
      gpu().embed(table, ids, scale, out);
      std::vector<float> expected;
      for (const TokenId id : ids) {
        for (int64_t c = 0; c < cols; ++c) expected.push_back(scale * own * blocks.decoded[index(id) * cols + c]);
      }
      EXPECT_LE(difference(arrays.get(out, kCount * cols), expected), 1e-6);
    }
  }
}

}  // namespace
}  // namespace cairn::gpu
