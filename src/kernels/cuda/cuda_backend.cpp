#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "kernels/cuda/deepseek4/compressor_operations.h"
#include "kernels/cuda/deepseek4/deepseek41_operations.h"
#include "kernels/cuda/deepseek4/hyper_connections.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/mla/mla_operations.h"
#include "kernels/cuda/recurrent/recurrent_operations.h"
#include "kernels/cuda/runtime/batch_metadata.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/grid.cuh"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/sampling/cuda_sampler.h"
#include "kernels/cuda/weights/panels.cuh"

namespace cairn::kernels {
namespace cuda {
namespace {

// Bytes of a HostMatrix or a Weight, without its scales, which follow it.
int64_t weight_bytes(const auto& matrix) {
  return matrix.experts * device_bytes(matrix.type, matrix.rows, matrix.cols);
}
int64_t padded(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
int64_t scales_bytes(const HostMatrix& matrix) { return std::ssize(matrix.scales) * int64_t{sizeof(float)}; }

Matrix matrix_of(const Weight& weight) {
  Matrix matrix{weight.type, weight.rows, weight.cols, weight.experts, weight.data};
  if (!weight.scales.empty()) {
    const std::byte* behind = static_cast<const std::byte*>(weight.data) + padded(weight_bytes(weight));
    matrix.scales = reinterpret_cast<const float*>(behind);
  }
  return matrix;
}

// The memory for rounded inputs of products, rounded once for all products of a call: 16-bit floats and their rows'
// scales. Also what gates need to write them.
class InputMemory {
 public:
  static int64_t bytes(const WorkspaceSizes& sizes) { return values_bytes(sizes) + ticket_bytes(sizes); }
  Result<void> reserve(Stream& stream, const WorkspaceSizes& sizes) {
    CAIRN_TRY_VOID(grow(stream, ticket_bytes(sizes), tickets_));
    return grow(stream, values_bytes(sizes), memory_);
  }
  bool holds(int64_t rows, int64_t cols) const { return bytes_of(rows, cols) <= static_cast<int64_t>(memory_.bytes()); }
  HalfRows of(InputKind kind, int64_t rows, int64_t cols) const {
    CAIRN_CHECK(holds(rows, cols));
    auto* values = static_cast<uint16_t*>(memory_.data());
    auto* scales = reinterpret_cast<float*>(values + rows * padded_columns(cols));
    return {values, scales, kind == InputKind::kBF16};
  }
  /// Counters of finished blocks, one for each row of usual inputs; they are zero between kernels.
  std::span<int32_t> tickets() const {
    return {static_cast<int32_t*>(tickets_.data()), static_cast<size_t>(tickets_.bytes()) / sizeof(int32_t)};
  }

 private:
  static int64_t values_bytes(const WorkspaceSizes& sizes) {
    int64_t most = 0;
    for (const WorkspaceSizes::Input& input : sizes.inputs) most = std::max(most, bytes_of(input.rows, input.cols));
    return most;
  }
  static int64_t ticket_bytes(const WorkspaceSizes& sizes) {
    int64_t rows = 0;
    for (const WorkspaceSizes::Input& input : sizes.inputs) rows = std::max(rows, input.rows);
    return rows * int64_t{sizeof(int32_t)};
  }
  static int64_t bytes_of(int64_t rows, int64_t cols) {
    return rows * (padded_columns(cols) * int64_t{sizeof(uint16_t)} + int64_t{sizeof(float)});
  }

  Buffer memory_;
  Buffer tickets_;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  std::string description() const override { return "cuda " + stream_->name(); }
  Result<Buffer> allocate(int64_t bytes) override {
    made_input_ = {};  // it may overlap that input
    return cuda::allocate(*stream_, bytes);
  }
  int64_t available_bytes() const override { return free_bytes(*stream_); }
  bool supports(TensorType type) const override { return multiplies(type); }
  std::string packed_format_id() const override { return ""; }
  int64_t load_bytes(const HostMatrix& matrix) const override {
    return padded(weight_bytes(matrix)) + padded(scales_bytes(matrix));
  }
  Result<Weight> load(const HostMatrix& matrix) override;
  Result<void> reserve(const WorkspaceSizes& sizes) override;
  int64_t workspace_bytes(const WorkspaceSizes& sizes) const override {
    return InputMemory::bytes(sizes) + scratch_bytes(sizes) + BatchMetadata::bytes(sizes) +
           StagingRing::bytes(argument_bytes(sizes)) + CudaMla::workspace_bytes(sizes) +
           CudaSampler::workspace_bytes(sizes);
  }

  void embed(const Weight& table, std::span<const TokenId> ids, float scale, float* out) override {
    if (ids.empty()) return;
    static_assert(sizeof(TokenId) == sizeof(int32_t));
    const auto* numbers = reinterpret_cast<const int32_t*>(ids.data());
    const auto* there = argument(std::span(numbers, ids.size()));
    const float own = table.scales.empty() ? 1 : table.scales[0];
    cuda::embed(queue(), matrix_of(table), there, std::ssize(ids), own * scale, out);
    stream_->launched("embed");
  }
  void matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows) override {
    if (projections.empty() || rows == 0) return;
    for_kinds(projections, [&](InputKind kind, std::span<const OutputMatrix> matrices) {
      const Input input = input_of(kind, x, rows, matrices[0].matrix.cols);
      multiply(queue(), matrices, input, rows);
      stream_->launched("matmul");
    });
    add_low_rank(*this, projections, x, rows);
  }
  void grouped_matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows, const int32_t* ids,
                      int32_t used, bool input_per_choice) override {
    if (projections.empty() || rows == 0) return;
    const int64_t inputs = input_per_choice ? int64_t{rows} * used : rows;
    for_kinds(projections, [&](InputKind kind, std::span<const OutputMatrix> matrices) {
      const Input input = input_of(kind, x, inputs, matrices[0].matrix.cols);
      multiply_experts(queue(), matrices, input, rows, ids, used, input_per_choice);
      stream_->launched("grouped_matmul");
    });
    add_low_rank_of_experts(*this, projections, x, rows, ids, used, input_per_choice);
  }
  void route(const RouteParams& params, const float* logits, int32_t rows, int32_t* ids, float* weights) override {
    if (rows == 0) return;
    cuda::route(queue(), params, logits, rows, ids, weights);
    stream_->launched("route");
  }
  void moe_combine(const float* y, const float* weights, int32_t rows, int32_t used, int64_t cols,
                   float* out) override {
    if (rows == 0) return;
    weighted_sums(queue(), y, weights, used, used, rows, cols, out);
    stream_->launched("moe_combine");
  }

  void rms_norm(const float* x, const float* weight, float epsilon, int64_t rows, int64_t cols, float* out) override {
    norm({.x = const_cast<float*>(x), .weight = weight, .epsilon = epsilon, .out = out}, rows, cols);
  }
  void add_rms_norm(float* x, const float* y, float scale, const float* weight, float epsilon, int64_t rows,
                    int64_t cols, float* out) override {
    norm({.x = x, .added = y, .added_scale = scale, .weight = weight, .epsilon = epsilon, .out = out}, rows, cols);
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int64_t rows, int64_t cols,
                  float* out) override {
    if (rows == 0) return;
    cuda::layer_norm(queue(), x, weight, 1, bias, epsilon, rows, cols, out);
    stream_->launched("layer_norm");
  }
  void layer_norm_heads(const float* x, const float* weight, float epsilon, int64_t rows, int64_t heads, int64_t cols,
                        float* out) override {
    if (rows == 0) return;
    cuda::layer_norm(queue(), x, weight, static_cast<int32_t>(heads), nullptr, epsilon, rows * heads, cols, out);
    stream_->launched("layer_norm_heads");
  }
  void gate(Activation activation, const float* gate, const float* up, int64_t rows, int64_t cols,
            float* out) override {
    if (rows == 0) return;
    const HalfRows halves = along(rows, cols);
    cuda::gate(queue(), activation, gate, up, rows, cols, out, halves, inputs_.tickets());
    stream_->launched("gate");
    if (halves.values != nullptr) made_input_ = {out, along_, rows, cols, queue().count()};
  }
  void add(float* x, const float* y, int64_t n, float scale) override {
    if (n == 0) return;
    cuda::add(queue(), x, y, n, scale);
    stream_->launched("add");
  }
  void scale_rows(float* x, std::span<const float> factors, int64_t cols) override {
    if (factors.empty()) return;
    const float* there = argument(factors);
    cuda::scale_rows(queue(), x, there, std::ssize(factors), cols);
    stream_->launched("scale_rows");
  }
  void sigmoid_scale_rows(float* x, const float* gates, int64_t rows, int64_t cols) override {
    if (rows == 0) return;
    cuda::sigmoid_scale_rows(queue(), x, gates, rows, cols);
    stream_->launched("sigmoid_scale_rows");
  }
  void scale_and_softcap(float* x, int64_t n, float scale, float cap) override {
    if (n == 0) return;
    cuda::scale_and_softcap(queue(), x, n, scale, cap);
    stream_->launched("scale_and_softcap");
  }
  void steer(float* x, const float* direction, float scale, int64_t rows, int64_t cols) override {
    if (rows == 0) return;
    cuda::steer(queue(), x, direction, scale, rows, cols);
    stream_->launched("steer");
  }
  void clamp(float* x, int64_t n, float least, float most) override {
    if (n == 0) return;
    cuda::clamp(queue(), x, n, least, most);
    stream_->launched("clamp");
  }
  void gather_rows(const float* x, std::span<const int32_t> rows, int64_t cols, float* out) override {
    if (rows.empty()) return;
    const int32_t* there = argument(rows);
    cuda::gather_rows(queue(), x, there, std::ssize(rows), cols, out);
    stream_->launched("gather_rows");
  }
  void copy_columns(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t cols) override {
    if (rows == 0 || cols == 0) return;
    cuda::copy_columns(queue(), from, from_stride, to, to_stride, rows, cols);
    stream_->launched("copy_columns");
  }

  void rope_table(std::span<const int32_t> positions, std::span<const double> frequencies, float magnitude,
                  float* table) override {
    if (positions.empty() || frequencies.empty()) return;
    const int32_t* positions_there = argument(positions);
    const double* frequencies_there = argument(frequencies);
    const auto dims = static_cast<int32_t>(2 * frequencies.size());
    cuda::rope_table(queue(), positions_there, std::ssize(positions), frequencies_there, dims, magnitude, table);
    stream_->launched("rope_table");
  }
  void rope(RopeStyle style, const float* table, int32_t dims, std::span<const RopeHeads> rotated, int64_t rows,
            int32_t head_dim) override {
    if (rows == 0 || dims == 0) return;
    cuda::rope(queue(), style, table, dims, rotated, rows, head_dim);
    stream_->launched("rope");
  }
  void store_kv(const KvView& kv, std::span<const AttentionSlice> slices, const float* k, const float* v) override;
  void attention(const AttentionParams& params, const KvView& kv, std::span<const AttentionSlice> slices,
                 const float* q, float* out) override;

  SamplerOperations* sampler() override { return &sampler_; }
  MlaOperations* mla() override { return &mla_; }
  HyperConnectionOperations* hyper_connections() override { return &hyper_connections_; }
  CompressorOperations* compressor() override { return &compressor_; }
  RecurrentOperations* recurrent() override { return &recurrent_; }
  Deepseek41Operations* deepseek41() override { return &deepseek41_; }

  void read(const void* from, int64_t bytes, void* to) override {
    if (bytes == 0) return;
    copy_bytes(from, bytes, to, cudaMemcpyDeviceToHost, "read");
    wait();
  }
  // Waits, since the driver may still read the host's memory after the call. Small writes within a step go through the
  // staging ring instead.
  void write(const void* from, int64_t bytes, void* to) override {
    if (bytes == 0) return;
    if (queue().gathers() && bytes % 4 == 0 && arguments_.holds(bytes)) {
      const auto* there = static_cast<const float*>(arguments_.put(*stream_, from, bytes));
      cuda::copy_columns(queue(), there, bytes / 4, static_cast<float*>(to), bytes / 4, 1, bytes / 4);
      stream_->launched("write");
      return;
    }
    copy_bytes(from, bytes, to, cudaMemcpyHostToDevice, "write");
    wait();
  }
  void copy(const void* from, int64_t bytes, void* to) override {
    if (bytes > 0) copy_bytes(from, bytes, to, cudaMemcpyDeviceToDevice, "copy");
  }
  void begin_step() override {
    stream_->get();
    places_.begin_step();
    mla_.begin_step();
    stream_->launches().gather();
  }
  Result<void> finish() override {
    Result<void> finished = stream_->finish();
    arguments_.restart();
    return finished;
  }

 private:
  /// Bytes of a matrix that are packed at a time: as many as the uploader takes at once.
  static constexpr int64_t kStagingBytes = int64_t{16} << 20;

  LaunchQueue& queue() { return stream_->launches(); }
  Result<void> upload_panels(const HostMatrix& matrix, std::byte* to);

  void copy_bytes(const void* from, int64_t bytes, void* to, cudaMemcpyKind kind, std::string_view operation) {
    const cudaStream_t stream = stream_->get();
    stream_->launched("a kernel");
    if (kind != cudaMemcpyDeviceToHost) made_input_ = {};
    stream_->check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream), operation);
  }
  void wait() {
    stream_->wait("a kernel");
    arguments_.restart();
  }

  /// Stages an argument in host memory for the operation that is enqueued next.
  template <class T>
  const T* argument(std::span<const T> values) {
    return static_cast<const T*>(
        arguments_.put(*stream_, values.data(), static_cast<int64_t>(values.size() * sizeof(T))));
  }

  /// Calls multiply(kind, matrices) for the projections of each kind. Products do not change their input.
  template <class Multiply>
  void for_kinds(std::span<const MatmulTarget> projections, Multiply multiply) {
    for (const InputKind kind : {InputKind::kFloats, InputKind::kF16, InputKind::kBF16}) {
      matrices_.clear();
      for (const MatmulTarget& each : projections) {
        if (input_kind(each.weight->type) == kind) matrices_.push_back({matrix_of(*each.weight), each.bias, each.out});
      }
      if (matrices_.empty()) continue;
      multiply(kind, std::span<const OutputMatrix>(matrices_));
      if (made_input_.launches == launches_before_product_) made_input_.launches = queue().count();
    }
  }

  void norm(RmsNormParams params, int64_t rows, int64_t cols) {
    if (rows == 0) return;
    params.halves = along(rows, cols);
    cuda::rms_norm(queue(), params, rows, cols);
    stream_->launched("rms_norm");
    if (params.halves.values != nullptr) made_input_ = {params.out, along_, rows, cols, queue().count()};
  }

  /// Where an operation writes its rounded output in addition to its output, because a product is likely to follow;
  /// null if it should not.
  HalfRows along(int64_t rows, int64_t cols) const {
    if (along_ == InputKind::kFloats || !inputs_.holds(rows, cols)) return {};
    return inputs_.of(along_, rows, cols);
  }
  Input input_of(InputKind kind, const float* x, int64_t rows, int64_t cols) {
    Input input{.x = x};
    if (kind != InputKind::kFloats) {
      input.halves = inputs_.of(kind, rows, cols);
      if (const MadeInput wanted{x, kind, rows, cols, queue().count()}; wanted != made_input_) {
        round_rows(queue(), x, rows, cols, input.halves);
        stream_->launched("input_of");
        made_input_ = wanted;
        made_input_.launches = queue().count();
      }
    }
    launches_before_product_ = queue().count();
    return input;
  }

  static int64_t scratch_bytes(const WorkspaceSizes& sizes) {
    if (sizes.attention_rows == 0) return 0;
    return attention_scratch_bytes(sizes.attention_rows, sizes.attention_heads, sizes.head_dim);
  }
  /// Bytes of the largest argument: a number for each row, frequencies of a head, or places and pages.
  static int64_t argument_bytes(const WorkspaceSizes& sizes) {
    int64_t rows = sizes.attention_tokens;
    for (const WorkspaceSizes::Input& input : sizes.inputs) rows = std::max(rows, input.rows);
    return std::max({rows * int64_t{4}, sizes.head_dim * int64_t{8}, BatchMetadata::argument_bytes(sizes),
                     CudaSampler::argument_bytes(sizes), CudaRecurrent::argument_bytes(rows)});
  }

  const std::unique_ptr<Stream> stream_;  // the first member, as all memory is used on it
  Uploader uploader_;
  Buffer staging_;  // uploaded rows that are to be packed
  StagingRing arguments_;
  BatchMetadata places_;
  // The contents of inputs_, valid as long as nothing was launched since.
  struct MadeInput {
    const float* x = nullptr;
    InputKind kind = InputKind::kFloats;
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t launches = 0;
    bool operator==(const MadeInput&) const = default;
  };
  InputMemory inputs_;
  MadeInput made_input_;
  int64_t launches_before_product_ = 0;
  InputKind along_ = InputKind::kFloats;  // kind of input that most products of the model read
  std::vector<OutputMatrix> matrices_;    // matrices of the current call
  Buffer attention_scratch_;
  CudaSampler sampler_{*stream_, arguments_};
  CudaMla mla_{*stream_, arguments_, places_};
  CudaHyperConnections hyper_connections_{*stream_};
  CudaCompressor compressor_{*stream_, arguments_, places_};
  CudaRecurrent recurrent_{*stream_, arguments_};
  CudaDeepseek41 deepseek41_{*stream_};
};

// Uploads whole panels piece by piece through staging_, in the stream's order.
Result<void> CudaBackend::upload_panels(const HostMatrix& matrix, std::byte* to) {
  const int64_t row_size = row_bytes(matrix.type, matrix.cols);
  const int64_t panel_size = kPanelRows * row_size;
  if (panel_size == 0) return {};
  if (panel_size > INT32_MAX)
    return fail(Code::kUnsupported, "rows of {} columns are too long for the GPU", matrix.cols);
  const int64_t piece_rows = std::max<int64_t>(kStagingBytes / panel_size, 1) * kPanelRows;
  const int64_t staging_bytes = std::max(kStagingBytes, panel_size);
  if (static_cast<int64_t>(staging_.bytes()) < staging_bytes) CAIRN_TRY_VOID(finish());
  CAIRN_TRY_VOID(grow(*stream_, staging_bytes, staging_));
  // Experts of whole panels can be packed like one matrix.
  const bool whole = matrix.rows % kPanelRows == 0;
  const int64_t rows = whole ? matrix.experts * matrix.rows : matrix.rows;
  const std::byte* from = matrix.data;
  for (int64_t expert = 0; expert < (whole ? 1 : matrix.experts); ++expert) {
    for (int64_t row = 0; row < rows; row += piece_rows) {
      const int64_t count = std::min(piece_rows, rows - row);
      CAIRN_TRY_VOID(uploader_.upload(*stream_, from, count * row_size, staging_.data()));
      pack_panels(queue(), matrix.type, staging_.data(), count, matrix.cols, to);
      stream_->launched("pack_panels");
      from += count * row_size;
      to += device_bytes(matrix.type, count, matrix.cols);
    }
  }
  return {};
}

Result<Weight> CudaBackend::load(const HostMatrix& matrix) {
  if (!supports(matrix.type))
    return fail(Code::kUnsupported, "no matrix product on the GPU for tensors of type {}",
                tensor_type_name(matrix.type));
  const InputKind kind = input_kind(matrix.type);
  if (kind == InputKind::kF16 || along_ == InputKind::kFloats) along_ = kind;
  CAIRN_TRY(Buffer memory, allocate(load_bytes(matrix)));
  if (has_panels(matrix.type)) {
    CAIRN_TRY_VOID(upload_panels(matrix, static_cast<std::byte*>(memory.data())));
  } else {
    CAIRN_TRY_VOID(uploader_.upload(*stream_, matrix.data, weight_bytes(matrix), memory.data()));
  }
  std::byte* const behind = static_cast<std::byte*>(memory.data()) + padded(weight_bytes(matrix));
  CAIRN_TRY_VOID(uploader_.upload(*stream_, matrix.scales.data(), scales_bytes(matrix), behind));
  Weight weight{.type = matrix.type,
                .rows = matrix.rows,
                .cols = matrix.cols,
                .experts = matrix.experts,
                .data = memory.data(),
                .memory = {},
                .scales = matrix.scales};
  weight.memory = std::make_shared<Buffer>(std::move(memory));
  return weight;
}

// Called when all weights of a model are loaded.
Result<void> CudaBackend::reserve(const WorkspaceSizes& sizes) {
  if (sizes.attention_rows > 0 && sizes.head_dim > kHeadDimMax) {
    return fail(Code::kUnsupported, "heads of {} elements: attention on the GPU has at most {}; use --gpu-layers 0",
                sizes.head_dim, kHeadDimMax);
  }
  CAIRN_TRY_VOID(finish());
  uploader_.release();
  staging_ = Buffer();
  CAIRN_TRY_VOID(inputs_.reserve(*stream_, sizes));
  CAIRN_TRY_VOID(grow(*stream_, scratch_bytes(sizes), attention_scratch_));
  CAIRN_TRY_VOID(places_.reserve(*stream_, sizes));
  CAIRN_TRY_VOID(sampler_.reserve(sizes));
  CAIRN_TRY_VOID(mla_.reserve(sizes));
  return arguments_.reserve(*stream_, argument_bytes(sizes));
}

void CudaBackend::store_kv(const KvView& kv, std::span<const AttentionSlice> slices, const float* k, const float* v) {
  BatchMetadata::Run run;
  for (places_.begin(slices); places_.next(*stream_, arguments_, run);) {
    const int64_t before = run.first * kv.kv_heads;
    cuda::store_kv(queue(), kv, run.rows, k + before * kv.key_dim, v + before * kv.value_dim);
    stream_->launched("store_kv");
  }
}

void CudaBackend::attention(const AttentionParams& params, const KvView& kv, std::span<const AttentionSlice> slices,
                            const float* q, float* out) {
  BatchMetadata::Run run;
  for (places_.begin(slices); places_.next(*stream_, arguments_, run);) {
    const int64_t before = run.first * params.heads;
    cuda::attention(queue(), params, kv, run.rows, q + before * kv.key_dim, attention_scratch_.data(),
                    out + before * kv.value_dim);
    stream_->launched("attention");
  }
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options) {
  CAIRN_TRY(auto stream, cuda::open_device(options.device));
  auto backend = std::make_unique<cuda::CudaBackend>(std::move(stream));
  log_info("kernels: {}, {} MiB free", backend->description(), backend->available_bytes() >> 20);
  return backend;
}

Result<int> cuda_device_count() { return cuda::count_devices(); }

bool built_with_cuda() { return true; }

}  // namespace cairn::kernels
