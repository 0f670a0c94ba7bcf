/// A backend that shows the inputs of all products with weights to a watcher, and leaves the work to another backend.
///
/// Backends themselves know nothing of it, so that nothing is paid where nobody watches.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace cairn::calibrate {

/// Is called before each product, on the thread that runs the model. Arguments as in kernels::MatmulOperations, but
/// that all of them are in host memory.
class ProductWatcher {
 public:
  virtual ~ProductWatcher() = default;
  virtual void see(std::span<const kernels::MatmulTarget> products, std::span<const float> x, int32_t rows) = 0;
  virtual void see_grouped(std::span<const kernels::MatmulTarget> products, std::span<const float> x, int32_t rows,
                           std::span<const int32_t> ids, int32_t used, bool input_per_choice) = 0;
};

class WatchedBackend final : public kernels::Backend {
 public:
  /// The watcher outlives this.
  WatchedBackend(std::shared_ptr<kernels::Backend> backend, ProductWatcher& watcher)
      : backend_(std::move(backend)), watcher_(watcher) {}

  void matmul(std::span<const kernels::MatmulTarget> products, const float* x, int32_t rows) override;
  void grouped_matmul(std::span<const kernels::MatmulTarget> products, const float* x, int32_t rows, const int32_t* ids,
                      int32_t used, bool input_per_choice) override;

  // ---- All else is the other backend's ----
  std::string description() const override { return backend_->description(); }
  Result<void> reserve(const kernels::WorkspaceSizes& sizes) override { return backend_->reserve(sizes); }
  int64_t workspace_bytes(const kernels::WorkspaceSizes& sizes) const override {
    return backend_->workspace_bytes(sizes);
  }
  kernels::SamplerOperations* sampler() override { return backend_->sampler(); }
  kernels::MlaOperations* mla() override { return backend_->mla(); }
  kernels::HyperConnectionOperations* hyper_connections() override { return backend_->hyper_connections(); }
  kernels::CompressorOperations* compressor() override { return backend_->compressor(); }
  kernels::RecurrentOperations* recurrent() override { return backend_->recurrent(); }
  kernels::Deepseek41Operations* deepseek41() override { return backend_->deepseek41(); }
  void begin_step() override { backend_->begin_step(); }

  Result<kernels::Buffer> allocate(int64_t bytes) override { return backend_->allocate(bytes); }
  int64_t available_bytes() const override { return backend_->available_bytes(); }
  void read(const void* from, int64_t bytes, void* to) override { backend_->read(from, bytes, to); }
  void write(const void* from, int64_t bytes, void* to) override { backend_->write(from, bytes, to); }
  void copy(const void* from, int64_t bytes, void* to) override { backend_->copy(from, bytes, to); }
  Result<void> finish() override { return backend_->finish(); }

  bool supports(TensorType type) const override { return backend_->supports(type); }
  std::string packed_format_id() const override { return backend_->packed_format_id(); }
  int64_t load_bytes(const kernels::HostMatrix& matrix) const override { return backend_->load_bytes(matrix); }
  Result<kernels::Weight> load(const kernels::HostMatrix& matrix) override { return backend_->load(matrix); }

  void embed(const kernels::Weight& table, std::span<const TokenId> ids, float scale, float* out) override {
    backend_->embed(table, ids, scale, out);
  }
  void route(const kernels::RouteParams& params, const float* logits, int32_t rows, int32_t* ids,
             float* weights) override {
    backend_->route(params, logits, rows, ids, weights);
  }
  void moe_combine(const float* y, const float* weights, int32_t rows, int32_t used, int64_t cols,
                   float* out) override {
    backend_->moe_combine(y, weights, rows, used, cols, out);
  }

  void rms_norm(const float* x, const float* weight, float epsilon, int64_t rows, int64_t cols, float* out) override {
    backend_->rms_norm(x, weight, epsilon, rows, cols, out);
  }
  void add_rms_norm(float* x, const float* y, float scale, const float* weight, float epsilon, int64_t rows,
                    int64_t cols, float* out) override {
    backend_->add_rms_norm(x, y, scale, weight, epsilon, rows, cols, out);
  }
  void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int64_t rows, int64_t cols,
                  float* out) override {
    backend_->layer_norm(x, weight, bias, epsilon, rows, cols, out);
  }
  void layer_norm_heads(const float* x, const float* weight, float epsilon, int64_t rows, int64_t heads, int64_t cols,
                        float* out) override {
    backend_->layer_norm_heads(x, weight, epsilon, rows, heads, cols, out);
  }
  void gate(kernels::Activation activation, const float* gate, const float* up, int64_t rows, int64_t cols,
            float* out) override {
    backend_->gate(activation, gate, up, rows, cols, out);
  }
  void add(float* x, const float* y, int64_t n, float scale) override { backend_->add(x, y, n, scale); }
  void scale_rows(float* x, std::span<const float> factors, int64_t cols) override {
    backend_->scale_rows(x, factors, cols);
  }
  void sigmoid_scale_rows(float* x, const float* gates, int64_t rows, int64_t cols) override {
    backend_->sigmoid_scale_rows(x, gates, rows, cols);
  }
  void scale_and_softcap(float* x, int64_t n, float scale, float cap) override {
    backend_->scale_and_softcap(x, n, scale, cap);
  }
  void steer(float* x, const float* direction, float scale, int64_t rows, int64_t cols) override {
    backend_->steer(x, direction, scale, rows, cols);
  }
  void clamp(float* x, int64_t n, float least, float most) override { backend_->clamp(x, n, least, most); }
  void gather_rows(const float* x, std::span<const int32_t> rows, int64_t cols, float* out) override {
    backend_->gather_rows(x, rows, cols, out);
  }
  void copy_columns(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t cols) override {
    backend_->copy_columns(from, from_stride, to, to_stride, rows, cols);
  }

  void rope_table(std::span<const int32_t> positions, std::span<const double> frequencies, float magnitude,
                  float* table) override {
    backend_->rope_table(positions, frequencies, magnitude, table);
  }
  void rope(kernels::RopeStyle style, const float* table, int32_t dims, std::span<const kernels::RopeHeads> rotated,
            int64_t rows, int32_t head_dim) override {
    backend_->rope(style, table, dims, rotated, rows, head_dim);
  }
  kernels::KvType stored_kv_type(kernels::KvType wanted) const override { return backend_->stored_kv_type(wanted); }
  void store_kv(const kernels::KvView& kv, std::span<const kernels::AttentionSlice> slices, const float* k,
                const float* v) override {
    backend_->store_kv(kv, slices, k, v);
  }
  void attention(const kernels::AttentionParams& params, const kernels::KvView& kv,
                 std::span<const kernels::AttentionSlice> slices, const float* q, float* out) override {
    backend_->attention(params, kv, slices, q, out);
  }

 private:
  std::span<const float> read_rows(const float* x, int64_t values);

  const std::shared_ptr<kernels::Backend> backend_;
  ProductWatcher& watcher_;
  std::vector<float> x_;  // what the watcher sees
  std::vector<int32_t> ids_;
};

}  // namespace cairn::calibrate
