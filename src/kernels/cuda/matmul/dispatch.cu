// Chooses the kernel that computes a product. They all give the same bytes (reduction_order.cuh, mma_operands.cuh), so
// the choice only affects speed.
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/matmul/gemm_tile.cuh"
#include "kernels/cuda/matmul/mma_operands.cuh"

namespace cairn::kernels::cuda {
namespace {

// Minimum choices per expert from which tiles are used: they read a matrix once for all of its outputs, but not as fast
// as GEMV kernels do.
constexpr int64_t kChoicesOfExpertMin = 3;
// Maximum rows of a matrix: those of kGridMax of the smallest tiles in a grid of several products.
constexpr int64_t kMatrixRowsMax = kGridMax / Products::kMax * 64;

Product product_of(const OutputMatrix& of, const Input& input) {
  const Matrix& matrix = of.matrix;
  CAIRN_DCHECK(multiplies(matrix.type));
  CAIRN_DCHECK(matrix.rows > 0 && matrix.rows <= kMatrixRowsMax);
  CAIRN_DCHECK(matrix.cols > 0 && padded_columns(matrix.cols) <= INT32_MAX);
  CAIRN_DCHECK(matrix.experts > 0 && matrix.experts <= INT32_MAX);
  CAIRN_DCHECK(matrix.cols % tensor_type_info(matrix.type).block_elements == 0);
  CAIRN_DCHECK(aligned16(input.halves.values));
  Product product;
  product.type = matrix.type;
  product.weights = static_cast<const uint8_t*>(matrix.data);
  product.row_bytes = row_bytes(matrix.type, matrix.cols);
  product.matrix_bytes = device_bytes(matrix.type, matrix.rows, matrix.cols);
  product.row_blocks = static_cast<uint32_t>(matrix.cols / tensor_type_info(matrix.type).block_elements);
  product.rows = static_cast<int32_t>(matrix.rows);
  product.cols = static_cast<int32_t>(matrix.cols);
  product.matrices = static_cast<int32_t>(matrix.experts);
  product.scales = matrix.scales;
  product.bias = of.bias;
  product.x = input.x;
  product.halves = input.halves;
  product.padded_cols = static_cast<int32_t>(padded_columns(matrix.cols));
  product.out = of.out;
  return product;
}

void multiply_vectors(LaunchQueue& stream, Products& products) {
  if (products.count == 0) return;
  const bool done = multiply_vectors_small(stream, products) || multiply_vectors_super(stream, products) ||
                    multiply_vectors_low_bits(stream, products) || multiply_vectors_float(stream, products) ||
                    multiply_vectors_half(stream, products);
  CAIRN_DCHECK(done);
  products.count = 0;
}

void multiply_tiles(LaunchQueue& stream, Products& products) {
  if (products.count == 0) return;
  const bool done = multiply_tiles_small(stream, products) || multiply_tiles_super(stream, products) ||
                    multiply_tiles_low_bits(stream, products) || multiply_tiles_float(stream, products) ||
                    multiply_tiles_half(stream, products);
  CAIRN_DCHECK(done);
  products.count = 0;
}

// Products that wait for others of their type, for GEMV and for GEMM.
struct Gathered {
  Products vectors;
  Products tiles;
};

void add_product(LaunchQueue& stream, const Product& product, bool is_vectors, Gathered& gathered) {
  Products& together = is_vectors ? gathered.vectors : gathered.tiles;
  const Product& first = together.of[0];
  const bool fits = together.count < Products::kMax && first.type == product.type && first.matrices == product.matrices;
  if (!fits && is_vectors) multiply_vectors(stream, together);
  if (!fits && !is_vectors) multiply_tiles(stream, together);
  together.of[together.count++] = product;
}

void multiply_gathered(LaunchQueue& stream, Gathered& gathered) {
  multiply_vectors(stream, gathered.vectors);
  multiply_tiles(stream, gathered.tiles);
}

}  // namespace

InputKind input_kind(TensorType type) {
  if (type == TensorType::kBF16) return InputKind::kBF16;
  return type == TensorType::kF32 ? InputKind::kFloats : InputKind::kF16;
}
bool multiplies(TensorType type) { return has_format(AllFormats(), type) || has_format(FloatFormats(), type); }

void multiply(LaunchQueue& stream, std::span<const OutputMatrix> matrices, const Input& input, int32_t rows) {
  if (rows == 0) return;
  Gathered gathered;
  for (const OutputMatrix& each : matrices) {
    CAIRN_DCHECK(each.matrix.experts == 1);
    Product product = product_of(each, input);
    product.outputs = rows;
    const bool floats = product.type == TensorType::kF32;
    add_product(stream, product, rows <= (floats ? kFloatVectorOutputs : kVectorOutputs), gathered);
  }
  multiply_gathered(stream, gathered);
}

void multiply_experts(LaunchQueue& stream, std::span<const OutputMatrix> matrices, const Input& input, int32_t rows,
                      const int32_t* ids, int32_t used, bool input_per_choice) {
  CAIRN_DCHECK(rows >= 0 && used > 0 && int64_t{rows} * used <= INT32_MAX);
  if (rows == 0) return;
  Gathered gathered;
  for (const OutputMatrix& each : matrices) {
    Product product = product_of(each, input);
    product.ids = ids;
    product.used = used;
    product.input_per_choice = input_per_choice;
    product.outputs = rows * used;
    const bool few = product.outputs < kChoicesOfExpertMin * each.matrix.experts && product.outputs <= kGridMax;
    add_product(stream, product, few, gathered);
  }
  multiply_gathered(stream, gathered);
}

}  // namespace cairn::kernels::cuda
