/// The kernels of the CUDA backend as host functions: each launches its work and returns at once.
///
/// They compute what Backend's operations of the same name describe; pointers are to device memory unless they are
/// called host. Launch errors stay with the device until the backend asks for them (cudaGetLastError after every call,
/// the rest when it synchronises). A row's result never depends on the other rows of a call: every sum over columns is
/// taken in an order that follows from the number of columns alone, every sum over positions in one that follows from
/// the row's own position alone.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor_type.h"
#include "kernels/compressor_operations.h"
#include "kernels/cuda/runtime/launch_queue.h"
#include "kernels/deepseek41_operations.h"
#include "kernels/host_device.h"
#include "kernels/hyper_connection_operations.h"
#include "kernels/kv.h"
#include "kernels/mla_operations.h"
#include "kernels/operation_params.h"
#include "kernels/recurrent_operations.h"
#include "kernels/routing.h"
#include "kernels/sampler_operations.h"

namespace cairn::kernels::cuda {

/// A weight matrix on the device: [experts, rows, cols], quantised types in panels (weights/panels.cuh), others as in
/// the file; `data` aligned to 256 bytes.
struct Matrix {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t experts = 1;
  const void* data = nullptr;
  const float* scales = nullptr;  ///< [experts] on the device: factors on the products of each expert, or null
};

/// Whether `multiply`, `multiply_experts` and `embed` read this type.
bool multiplies(TensorType type);
/// Whether the type is quantised: its matrices lie in panels (weights/panels.cuh).
bool has_panels(TensorType type);
/// Bytes of an expert's matrix on the device.
int64_t device_bytes(TensorType type, int64_t rows, int64_t cols);
/// Packs rows of a quantised type, which may begin at any address, into panels of at most 2 GiB, aligned to 16 bytes.
void pack_panels(LaunchQueue& stream, TensorType type, const void* file_rows, int64_t rows, int64_t cols, void* panels);

/// Activations in the form that products with all matrices but those of float32 read: rounded to 16 bits, each row
/// divided by its scale, with columns padded with zeros.
struct HalfRows {
  uint16_t* values = nullptr;  ///< [rows, padded_columns(cols)]
  float* scales = nullptr;     ///< [rows], powers of two; 1 unless a float16 would be infinite
  bool bfloat = false;         ///< bfloat16, for matrices of that type, instead of float16
};
CAIRN_HOST_DEVICE constexpr int64_t padded_columns(int64_t cols) { return (cols + 31) / 32 * 32; }
void round_rows(LaunchQueue& stream, const float* x, int64_t rows, int64_t cols, const HalfRows& out);

/// The form of input that products with a type read.
enum class InputKind { kFloats, kF16, kBF16 };
InputKind input_kind(TensorType type);
/// `x` [rows, cols], and the same as HalfRows of the matrices' kind.
struct Input {
  const float* x = nullptr;
  HalfRows halves{};
};

/// A matrix and the destination of its products.
struct OutputMatrix {
  Matrix matrix;
  const float* bias = nullptr;
  float* out = nullptr;
};
/// All matrices must read the same kind of input.
void multiply(LaunchQueue& stream, std::span<const OutputMatrix> matrices, const Input& input, int32_t rows);
/// `ids` [rows, used] on the device; out [rows, used, matrix.rows].
void multiply_experts(LaunchQueue& stream, std::span<const OutputMatrix> matrices, const Input& input, int32_t rows,
                      const int32_t* ids, int32_t used, bool input_per_choice);
/// `ids` [count] on the device. `scale` replaces the table's own scales.
void embed(LaunchQueue& stream, const Matrix& table, const int32_t* ids, int64_t count, float scale, float* out);

void route(LaunchQueue& stream, const RouteParams& params, const float* logits, int32_t rows, int32_t* ids,
           float* weights);
/// out[r] = sum over i, in order, of weights[r * weights_stride + i] * y[r, i]; y [rows, used, cols].
void weighted_sums(LaunchQueue& stream, const float* y, const float* weights, int32_t weights_stride, int32_t used,
                   int64_t rows, int64_t cols, float* out);

/// Parameters of rms_norm and add_rms_norm.
struct RmsNormParams {
  float* x = nullptr;            ///< changed only if `added` is set
  const float* added = nullptr;  ///< or null
  float added_scale = 1;
  const float* weight = nullptr;
  float epsilon = 0;
  float* out = nullptr;
  HalfRows halves{};  ///< the rounded `out`, if it has memory
};
void rms_norm(LaunchQueue& stream, const RmsNormParams& params, int64_t rows, int64_t cols);
/// weight [heads, cols]: row r has that of head r % heads.
void layer_norm(LaunchQueue& stream, const float* x, const float* weight, int32_t heads, const float* bias,
                float epsilon, int64_t rows, int64_t cols, float* out);
/// `halves` as in RmsNormParams. With as many `tickets` as rows, blocks can share a row: they are zeros on the device,
/// and are zeros again afterwards.
void gate(LaunchQueue& stream, Activation activation, const float* gate, const float* up, int64_t rows, int64_t cols,
          float* out, const HalfRows& halves, std::span<int32_t> tickets);
void add(LaunchQueue& stream, float* x, const float* y, int64_t n, float scale);
/// `factors` [rows] on the device.
void scale_rows(LaunchQueue& stream, float* x, const float* factors, int64_t rows, int64_t cols);
void sigmoid_scale_rows(LaunchQueue& stream, float* x, const float* gates, int64_t rows, int64_t cols);
void scale_and_softcap(LaunchQueue& stream, float* x, int64_t n, float scale, float cap);
void steer(LaunchQueue& stream, float* x, const float* direction, float scale, int64_t rows, int64_t cols);
void clamp(LaunchQueue& stream, float* x, int64_t n, float least, float most);
/// `numbers` [count] on the device.
void gather_rows(LaunchQueue& stream, const float* x, const int32_t* numbers, int64_t count, int64_t cols, float* out);
void copy_columns(LaunchQueue& stream, const float* from, int64_t from_stride, float* to, int64_t to_stride,
                  int64_t rows, int64_t cols);

/// `positions` [count] and `frequencies` [dims / 2] on the device.
void rope_table(LaunchQueue& stream, const int32_t* positions, int64_t count, const double* frequencies, int32_t dims,
                float magnitude, float* table);
/// Two at a time are one launch.
void rope(LaunchQueue& stream, RopeStyle style, const float* table, int32_t dims, std::span<const RopeHeads> rotated,
          int64_t rows, int32_t head_dim);

/// One row of a batch, for attention and store_kv.
struct TokenPlace {
  int32_t position = 0;
  int32_t pages_begin = 0;     ///< index in Rows::pages of the first page of its sequence
  int32_t slice_position = 0;  ///< its slice, which a row that is not causal sees as a whole
  int32_t slice_rows = 0;
};
/// The batch of a call; the arrays are on the device.
struct Rows {
  const TokenPlace* places = nullptr;  ///< [count]
  const int32_t* pages = nullptr;      ///< page ids of all sequences, one after the other
  int32_t count = 0;
  int32_t positions_max = 0;   ///< maximum number of positions that a row sees
  int32_t slice_rows_max = 0;  ///< maximum TokenPlace::slice_rows
  int32_t slices = 0;          ///< number of slices that have rows here
};
/// Stores keys and values. In a page of a layer, each head's rows of keys or values are consecutive (KvView's layout
/// with rows in their natural order); a row of kQ8_0 consists of blocks of a binary16 scale and 32 codes, as in GGUF.
void store_kv(LaunchQueue& stream, const KvView& kv, const Rows& rows, const float* k, const float* v);

/// Maximum head dimension for which attention's arrays fit into the shared memory of every GPU.
inline constexpr int32_t kHeadDimMax = 576;
/// Bytes for partial results of attention: splits over positions, merged in order, for a call of these sizes.
int64_t attention_scratch_bytes(int64_t rows, int32_t heads, int32_t value_dim);
void attention(LaunchQueue& stream, const AttentionParams& params, const KvView& kv, const Rows& rows, const float* q,
               void* scratch, float* out);

// MlaOperations, for rows that are consecutive in their operands.
/// `x` begins with the first row that the batch completes.
void store_rows(LaunchQueue& stream, const KvView& kv, const Rows& rows, const float* x);
void load_previous_rows(LaunchQueue& stream, const KvView& kv, const Rows& rows, float* out);

/// Whether select_topk() can keep the queries of that many heads in shared memory.
bool can_choose(int32_t heads, int32_t key_dim);
/// Bytes for the scores of some rows at a time.
int64_t choose_rows_scratch_bytes(int32_t context_tokens);
/// Among rows with equal sums the first ones are selected, and among blocks of candidates with equal scores.
void select_topk(LaunchQueue& stream, const ChooseParams& params, const KvView& keys, const Rows& rows, const float* q,
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
/// The rows of all sources have the same positions.
void attend_rows(LaunchQueue& stream, const RowAttentionParams& params, std::span<const LatentSource> sources,
                 const float* q, void* scratch, float* out);

// HyperConnectionOperations; hyper_connection_read is weighted_sums().
void hyper_connection_weights(LaunchQueue& stream, const StreamParams& params, const float* logits, int64_t rows,
                              float* shares);
void gate_streams(LaunchQueue& stream, const StreamParams& params, const float* logits, int64_t rows, float* shares);
void hyper_connection_write(LaunchQueue& stream, const float* x, const float* y, const float* shares, int32_t streams,
                            int64_t rows, int64_t cols, float* out);

// SamplerOperations. All arrays are on the device; `changes` and `changed` begin with change number `first_change` of
// the call.
/// Memory of a call of sample().
struct SampleScratch {
  void* parts = nullptr;     ///< row_parts_bytes(count) (sampling/row_parts.h)
  float* changed = nullptr;  ///< as many logits as there are changes
};
/// `wants_sums`: whether any of the samples does (wanted_sums() in sampling/row_parts.h).
void sample(LaunchQueue& stream, float* logits, int64_t vocabulary, const SampleRequest* samples, int32_t count,
            const LogitChange* changes, int32_t first_change, bool wants_sums, const SampleScratch& scratch,
            SampleResult* sampled);
/// Sets those logits of rows `numbers` [count] to -infinity whose token has no bit in `words` [count, row_words].
void mask_rows(LaunchQueue& stream, float* logits, int64_t vocabulary, const uint64_t* words, int64_t row_words,
               const int32_t* numbers, int32_t count);

// CompressorOperations.
/// `out` begins with the first row that the batch completes.
void compress(LaunchQueue& stream, const CompressorParams& params, const KvView& values, const KvView& scores,
              const Rows& rows, float* out);
void round_fp8(LaunchQueue& stream, float* x, int64_t rows, int64_t stride, int32_t dims);
/// `dims` is at most kHadamardMax.
void hadamard_fp4(LaunchQueue& stream, float* x, int64_t rows, int32_t dims);
inline constexpr int32_t kHadamardMax = 8192;

// Deepseek41Operations.
void add_engram(LaunchQueue& stream, const EngramParams& params, const float* keys_value, int64_t rows, int64_t cols,
                float* x);
void round_rows(LaunchQueue& stream, SimulatedRounding rounding, float* x, int64_t rows, int32_t dims);

// RecurrentOperations.
/// The slices of a call; `at` [count] is on the device.
struct StateSlices {
  const StateSlice* at = nullptr;
  int32_t count = 0;
  int32_t rows_max = 0;  ///< of a slice
  int64_t rows = 0;      ///< of all slices
};
/// Maximum length of a row of a state.
inline constexpr int32_t kStateDimMax = 1024;
void convolve(LaunchQueue& stream, const ConvolutionParams& params, const StateSlices& slices,
              const ConvolutionRows& rows);
void delta_rule(LaunchQueue& stream, const DeltaRuleParams& params, const StateSlices& slices,
                const DeltaRuleRows& rows);
void scan(LaunchQueue& stream, const ScanParams& params, const StateSlices& slices, const ScanRows& rows);
void gated_norm(LaunchQueue& stream, const GatedNormParams& params, const float* gates, int64_t rows, float* x);

}  // namespace cairn::kernels::cuda
