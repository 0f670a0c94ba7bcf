/// The kernels of the CUDA backend as host functions: each enqueues its work on a stream and returns at once.
///
/// What they compute is said at Backend's operation of the same name; pointers are to device memory unless they are
/// called host. Launch errors stay with the device until the backend asks for them (cudaGetLastError after every call,
/// the rest when it synchronises). A row's result never depends on the other rows of a call: every sum over columns is
/// taken in an order that follows from the number of columns alone, every sum over positions in one that follows from
/// the row's own position alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "base/tensor_type.h"
#include "kernels/compressor_operations.h"
#include "kernels/kv.h"
#include "kernels/latent_operations.h"
#include "kernels/operation_params.h"
#include "kernels/routing.h"
#include "kernels/stream_operations.h"

namespace cairn::cuda {

/// A weight matrix on the device: [experts, rows, cols] in the file's blocks, `data` aligned to 256 bytes.
struct Matrix {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t experts = 1;
  const void* data = nullptr;
  const float* scales = nullptr;  ///< on the device: what products of each expert are multiplied by, or null
};

/// Whether `multiply`, `multiply_experts` and `embed` read this type.
bool multiplies(TensorType type);

/// Activations as products with quantised matrices want them: per row and 32 columns, int8 codes, a scale and the sum
/// of the codes. Columns are filled up to a multiple of 256 with zeros.
struct Int8Rows {
  int8_t* codes = nullptr;  ///< [rows, padded cols]
  float* scales = nullptr;  ///< [rows, padded cols / 32]
  int32_t* sums = nullptr;  ///< [rows, padded cols / 32]
};
inline constexpr int64_t kColumnsPadded = 256;
/// Whether products with this type read Int8Rows; the others read float32 rows.
bool wants_int8(TensorType type);
void quantize_rows(cudaStream_t stream, const float* x, int64_t rows, int64_t cols, const Int8Rows& out);

/// What a product reads: `x` [rows, cols], and `quantized` of it if wants_int8(matrix.type).
struct Input {
  const float* x = nullptr;
  Int8Rows quantized;
};
void multiply(cudaStream_t stream, const Matrix& matrix, const float* bias, const Input& input, int32_t rows,
              float* out);
/// `ids` [rows, used] on the device; out [rows, used, matrix.rows].
void multiply_experts(cudaStream_t stream, const Matrix& matrix, const float* bias, const Input& input, int32_t rows,
                      const int32_t* ids, int32_t used, bool input_per_choice, float* out);
/// `ids` [count] on the device. The table's scales are not looked at: `scale` has them.
void embed(cudaStream_t stream, const Matrix& table, const int32_t* ids, int64_t count, float scale, float* out);

void route(cudaStream_t stream, const RouteParams& params, const float* logits, int32_t rows, int32_t* ids,
           float* weights);
/// out[r] = sum over i, in order, of weights[r * weights_stride + i] * y[r, i]; y [rows, used, cols].
void weighted_sums(cudaStream_t stream, const float* y, const float* weights, int32_t weights_stride, int32_t used,
                   int64_t rows, int64_t cols, float* out);

void rms_norm(cudaStream_t stream, const float* x, const float* weight, float epsilon, int64_t rows, int64_t cols,
              float* out);
void layer_norm(cudaStream_t stream, const float* x, const float* weight, const float* bias, float epsilon,
                int64_t rows, int64_t cols, float* out);
void gate(cudaStream_t stream, Activation activation, const float* gate, const float* up, int64_t n, float* out);
void add(cudaStream_t stream, float* x, const float* y, int64_t n, float scale);
/// `factors` [rows] on the device.
void scale_rows(cudaStream_t stream, float* x, const float* factors, int64_t rows, int64_t cols);
void sigmoid_scale_rows(cudaStream_t stream, float* x, const float* gates, int64_t rows, int64_t cols);
void scale_and_cap(cudaStream_t stream, float* x, int64_t n, float scale, float cap);
void steer(cudaStream_t stream, float* x, const float* direction, float scale, int64_t rows, int64_t cols);
void clamp(cudaStream_t stream, float* x, int64_t n, float least, float most);
/// `numbers` [count] on the device.
void gather_rows(cudaStream_t stream, const float* x, const int32_t* numbers, int64_t count, int64_t cols, float* out);
void copy_columns(cudaStream_t stream, const float* from, int64_t from_stride, float* to, int64_t to_stride,
                  int64_t rows, int64_t cols);

/// `positions` [count] and `frequencies` [dims / 2] on the device.
void rope_table(cudaStream_t stream, const int32_t* positions, int64_t count, const double* frequencies, int32_t dims,
                float magnitude, float* table);
void rope(cudaStream_t stream, RopeStyle style, const float* table, int32_t dims, float* x, int64_t rows, int32_t heads,
          int32_t head_dim);

/// One row of a batch, as attention and store_kv want it.
struct RowPlace {
  int32_t position = 0;
  int32_t pages_begin = 0;  ///< of its sequence, in Rows::pages
  int32_t slice_position =
      0;  ///< where its slice begins, and how many rows that has: what a row that is not causal sees
  int32_t slice_rows = 0;
};
/// The batch of a call; everything on the device but the counts.
struct Rows {
  const RowPlace* places = nullptr;  ///< [count]
  const int32_t* pages = nullptr;    ///< page ids of all sequences, one after the other
  int32_t count = 0;
  int32_t positions_max = 0;  ///< most positions that a row sees
};
/// In a page of a layer, each head's row of keys or values lies whole, one row after the other (KvView's layout with
/// rows in their natural order); a row of kQ8_0 is blocks of binary16 scale and 32 codes, as in GGUF.
void store_kv(cudaStream_t stream, const KvView& kv, const Rows& rows, const float* k, const float* v);

/// What attention's arrays fit the shared memory of every GPU for.
inline constexpr int32_t kHeadDimMax = 576;
/// Partial results of attention: splits over positions, merged in order. `bytes` of it for a call of these sizes.
int64_t attention_scratch_bytes(int64_t rows, int32_t heads, int32_t value_dim);
void attention(cudaStream_t stream, const AttentionParams& params, const KvView& kv, const Rows& rows, const float* q,
               void* scratch, float* out);

// What LatentOperations says, of rows that follow each other in its operands.
/// `x` begins with the first row that these complete.
void store_rows(cudaStream_t stream, const KvView& kv, const Rows& rows, const float* x);
void load_previous_rows(cudaStream_t stream, const KvView& kv, const Rows& rows, float* out);

/// Whether choose_rows() can keep the queries of so many heads in shared memory.
bool can_choose(int32_t heads, int32_t key_dim);
/// Of scores of some rows at a time.
int64_t choose_rows_scratch_bytes(int32_t context_tokens);
/// Of rows with equal sums the first ones.
void choose_rows(cudaStream_t stream, const ChooseParams& params, const KvView& keys, const Rows& rows, const float* q,
                 const float* weights, void* scratch, int32_t* chosen);

/// A RowSource on the device.
struct LatentSource {
  KvView kv;
  Rows rows;
  int32_t window = 0;
  const int32_t* chosen = nullptr;
  int32_t chosen_max = 0;
};
int64_t attend_rows_scratch_bytes(int64_t rows, int32_t heads, int32_t value_dim);
/// The sources' rows have the same positions.
void attend_rows(cudaStream_t stream, const RowAttentionParams& params, std::span<const LatentSource> sources,
                 const float* q, void* scratch, float* out);

// StreamOperations; collapse_streams is weighted_sums().
void mix_streams(cudaStream_t stream, const StreamParams& params, const float* logits, int64_t rows, float* shares);
void gate_streams(cudaStream_t stream, const StreamParams& params, const float* logits, int64_t rows, float* shares);
void expand_streams(cudaStream_t stream, const float* x, const float* y, const float* shares, int32_t streams,
                    int64_t rows, int64_t cols, float* out);

// CompressorOperations.
/// `out` begins with the first row that these complete.
void compress(cudaStream_t stream, const CompressorParams& params, const KvView& values, const KvView& scores,
              const Rows& rows, float* out);
void round_fp8(cudaStream_t stream, float* x, int64_t rows, int64_t stride, int32_t dims);
/// `dims` is at most kHadamardMax.
void hadamard_fp4(cudaStream_t stream, float* x, int64_t rows, int32_t dims);
inline constexpr int32_t kHadamardMax = 8192;

}  // namespace cairn::cuda
