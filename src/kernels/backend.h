/// A device and the operations that model/ needs of it: kernels/cpu/cpu_backend.cpp, kernels/cuda/cuda_backend.cpp.
///
/// What `allocate` and `load` give is the device's memory: others read and write it through the backend only.
///
/// All activations are float32 and row-major, [rows, columns], in memory of the backend (`allocate`). A row's result
/// never depends on the other rows of a call nor on the number of threads: reductions have a fixed order
/// (docs/architecture.md, "Same bytes"). Arguments are checked by the caller (model/ at load); a backend only
/// CAIRN_DCHECKs. Operations of one backend are called from one thread at a time, run in call order, and allocate
/// nothing, except where said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/tensor_type.h"
#include "kernels/buffer.h"                       // IWYU pragma: export
#include "kernels/compressor_operations.h"        // IWYU pragma: export
#include "kernels/hyper_connection_operations.h"  // IWYU pragma: export
#include "kernels/kv.h"                           // IWYU pragma: export
#include "kernels/latent_operations.h"            // IWYU pragma: export
#include "kernels/operation_params.h"             // IWYU pragma: export
#include "kernels/routing.h"                      // IWYU pragma: export
#include "kernels/sampler_operations.h"           // IWYU pragma: export
#include "kernels/workspace_sizes.h"              // IWYU pragma: export

namespace cairn {

/// A weight matrix as a file has it: [experts, rows, cols], rows of blocks of `type`, `experts` 1 for plain ones. y = W
/// x maps cols to rows. The bytes outlive the backend's use of them.
struct HostMatrix {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t experts = 1;
  const std::byte* data = nullptr;
  /// No copy larger than the file's bytes, for want of memory: products may be slow.
  bool in_place = false;
  /// The copy (`Weight::memory`) that an earlier `load` of this matrix made by the same `packed_format_id`, or empty.
  /// Used as it is, so it outlives the weight; ignored if it has not the right size or is not aligned to 64 bytes.
  std::span<const std::byte> copy = {};
  /// What each expert's products are multiplied by, before a bias is added; empty: nothing.
  std::vector<float> scales = {};
};

/// A weight matrix made ready by `Backend::load`; what `data` points to is the backend's own business.
struct Weight {
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t experts = 1;
  const void* data = nullptr;
  std::shared_ptr<Buffer> memory;  ///< what `data` points to, if the backend made a copy; copies share it
  bool panels = false;             ///< `data` are panels (kernels/cpu/packed/panel.h), not the file's rows
  std::vector<float> scales = {};  ///< as the HostMatrix's
};

/// One product of a `matmul`: out [rows of x, weight->rows] = x W^T + bias.
struct MatmulTarget {
  const Weight* weight = nullptr;
  const float* bias = nullptr;  ///< [weight->rows], or null
  float* out = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// For logs: "cpu avx2, 2 threads".
  virtual std::string description() const = 0;

  // -- At load. These may allocate.
  virtual Result<Buffer> allocate(int64_t bytes) = 0;
  /// Bytes that could be allocated now: of the machine's memory, unless the device has its own.
  virtual int64_t available_bytes() const;
  /// Whether matrix products work on this type.
  virtual bool supports(TensorType type) const = 0;
  /// What copies that `load` makes look like: changes whenever they do. Empty: they are not for keeping.
  virtual std::string packed_format_id() const = 0;
  /// Bytes of memory that `load` will take, counting `matrix.data` where it is used in place.
  virtual int64_t load_bytes(const HostMatrix& matrix) const = 0;
  /// The weight refers to `matrix.data` or has a copy (`memory`), after which the file's bytes are not read again.
  /// Errors: kUnsupported (type), kOutOfMemory.
  virtual Result<Weight> load(const HostMatrix& matrix) = 0;
  /// Working memory for calls of these sizes; what is larger already stays. Errors: kOutOfMemory.
  virtual Result<void> reserve(const WorkspaceSizes& sizes) = 0;
  /// Bytes that the first `reserve` takes.
  virtual int64_t workspace_bytes(const WorkspaceSizes& sizes) const = 0;

  // -- Matrices.
  /// out[i] = table row ids[i] * scale; out [ids.size(), table.cols].
  virtual void embed(const Weight& table, std::span<const TokenId> ids, float scale, float* out) = 0;
  /// All projections of one input x [rows, cols], which is quantised once.
  virtual void matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows) = 0;
  /// For each row r and choice j: out[r, j, :] = W[ids[r, j]] input (+ bias row ids[r, j] when given, [experts, rows]).
  /// The input is x[r, :], or x[r, j, :] with `input_per_choice`. ids [rows, used].
  virtual void grouped_matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows,
                              const int32_t* ids, int32_t used, bool input_per_choice) = 0;
  /// Scores of logits [rows, experts], the `used` largest (ties: lower index first) in descending order, into ids and
  /// weights [rows, used].
  virtual void route(const RouteParams& params, const float* logits, int32_t rows, int32_t* ids, float* weights) = 0;
  /// out[r, :] = sum over j, in order, of weights[r, j] * y[r, j, :].
  virtual void moe_combine(const float* y, const float* weights, int32_t rows, int32_t used, int64_t cols,
                           float* out) = 0;

  // -- Rows. `out` may be the input.
  /// out = x / sqrt(mean(x^2) + epsilon) * weight, over rows of `cols`. weight [cols], or null for 1.
  virtual void rms_norm(const float* x, const float* weight, float epsilon, int64_t rows, int64_t cols, float* out) = 0;
  /// x += scale * y, then rms_norm of x.
  virtual void add_rms_norm(float* x, const float* y, float scale, const float* weight, float epsilon, int64_t rows,
                            int64_t cols, float* out) = 0;
  /// out = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias, over rows of `cols`. weight and bias [cols];
  /// bias may be null for 0.
  virtual void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int64_t rows,
                          int64_t cols, float* out) = 0;
  /// act(gate) * up, element by element; up may be null for 1.
  virtual void gate(Activation activation, const float* gate, const float* up, int64_t rows, int64_t cols,
                    float* out) = 0;
  /// x += scale * y, n elements.
  virtual void add(float* x, const float* y, int64_t n, float scale) = 0;
  /// x[r, :] *= factors[r]; factors in host memory.
  virtual void scale_rows(float* x, std::span<const float> factors, int64_t cols) = 0;
  /// x[r, :] *= sigmoid(gates[r]); gates [rows] in backend memory.
  virtual void sigmoid_scale_rows(float* x, const float* gates, int64_t rows, int64_t cols) = 0;
  /// x *= scale, then cap * tanh(x / cap) if cap > 0; n elements.
  virtual void scale_and_softcap(float* x, int64_t n, float scale, float cap) = 0;
  /// x[r, :] -= scale * direction * (direction . x[r, :]); direction [cols].
  virtual void steer(float* x, const float* direction, float scale, int64_t rows, int64_t cols) = 0;
  /// x = min(max(x, least), most), n elements.
  virtual void clamp(float* x, int64_t n, float least, float most) = 0;
  /// out[i, :] = x[rows[i], :]; row numbers in host memory.
  virtual void gather_rows(const float* x, std::span<const int32_t> rows, int64_t cols, float* out) = 0;
  /// to[r * to_stride + c] = from[r * from_stride + c], c < cols; the two do not overlap.
  virtual void copy_columns(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                            int64_t cols) = 0;

  // -- Positions and attention.
  /// table [positions, dims]: for pair i of position p, table[p, 2i] = magnitude * cos(p * frequencies[i]) and
  /// table[p, 2i+1] = magnitude * sin(...), angles in double. frequencies [dims / 2], both in host memory.
  virtual void rope_table(std::span<const int32_t> positions, std::span<const double> frequencies, float magnitude,
                          float* table) = 0;
  /// Rotates the first `dims` elements of every head of x [rows, heads, head_dim] in place, by table [rows, dims]. `x`
  /// may begin inside of a head: so do then all that turn.
  virtual void rope(RopeStyle style, const float* table, int32_t dims, float* x, int64_t rows, int32_t heads,
                    int32_t head_dim) = 0;
  /// What attention() reads best of as many bits and as precise as `wanted`.
  virtual KvType stored_kv_type(KvType wanted) const { return wanted; }
  /// Writes k [rows, kv_heads * key_dim] and v [rows, kv_heads * value_dim] of every slice's rows to their pages.
  virtual void store_kv(const KvView& kv, std::span<const AttentionSlice> slices, const float* k, const float* v) = 0;
  /// Attention of q [rows, heads * key_dim] over what the pages hold, up to each row's own position if it is causal;
  /// out [rows, heads * value_dim].
  virtual void attention(const AttentionParams& params, const KvView& kv, std::span<const AttentionSlice> slices,
                         const float* q, float* out) = 0;
  /// Null: rows of logits are read, and sampled from elsewhere.
  virtual SamplerOperations* sampler() { return nullptr; }
  /// Null: models that need them do not run here.
  virtual LatentOperations* latent() { return nullptr; }
  virtual HyperConnectionOperations* streams() { return nullptr; }
  virtual CompressorOperations* compressor() { return nullptr; }

  /// A step of a model begins, like those before it: operations from here to the next read(), copy() or finish() may be
  /// begun together.
  virtual void begin_step() {}
  /// Copies `bytes` to host memory, after everything before it has finished.
  virtual void read(const void* from, int64_t bytes, void* to) = 0;
  /// Copies from host into backend memory.
  virtual void write(const void* from, int64_t bytes, void* to) = 0;
  /// Copies within backend memory; the two do not overlap.
  virtual void copy(const void* from, int64_t bytes, void* to) = 0;
  /// Waits until all operations before have finished. Errors: kInternal, if one of them has ever failed: nothing that
  /// was computed since means anything, now or later.
  virtual Result<void> finish() { return {}; }
};

struct CpuOptions {
  int threads = 0;  ///< 0: one per usable core
  /// A name in kernels/cpu/isa/isa.cpp, such as "avx2"; the value of CAIRN_ISA in the environment if empty, or else the
  /// best.
  std::string isa;
};
/// Errors: kInvalidArgument (unknown ISA, or one this machine lacks; the message lists what it has).
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);

struct CudaOptions {
  int device = 0;  ///< as CUDA counts those that it sees
};
/// An NVIDIA GPU. Errors: kUnsupported (a build without CUDA; a GPU that is too old, or that this build has no kernels
/// for), kNotFound (no driver, one that is too old, no such GPU), kOutOfMemory.
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options);
/// At least one. Errors: kUnsupported (a build without CUDA), kNotFound (no driver, one that is too old, no GPU).
Result<int> cuda_device_count();
bool built_with_cuda();

}  // namespace cairn
