/// A backend for tests of what happens when a device fails in the middle of its work.
#pragma once

#include <span>
#include <string>

#include "cache/testing/limited_memory.h"
#include "kernels/backend.h"

namespace cairn::model {

/// Has memory and loads weights of every type. Its operations, those of every model alone, compute nothing, and the end
/// of each step is an error.
class BrokenBackend final : public kernels::Backend {
 public:
  std::string description() const override { return "broken"; }
  Result<void> finish() override { return fail(Code::kInternal, "the device is gone"); }

  Result<kernels::Buffer> allocate(int64_t bytes) override { return memory_.allocate(bytes); }
  void read(const void* from, int64_t bytes, void* to) override { memory_.read(from, bytes, to); }
  void write(const void* from, int64_t bytes, void* to) override { memory_.write(from, bytes, to); }
  void copy(const void* from, int64_t bytes, void* to) override { memory_.copy(from, bytes, to); }

  bool supports(TensorType) const override { return true; }
  std::string packed_format_id() const override { return ""; }
  int64_t load_bytes(const kernels::HostMatrix&) const override { return 0; }
  Result<kernels::Weight> load(const kernels::HostMatrix& matrix) override {
    return kernels::Weight{.type = matrix.type,
                           .rows = matrix.rows,
                           .cols = matrix.cols,
                           .experts = matrix.experts,
                           .data = matrix.data,
                           .memory = {}};
  }
  Result<void> reserve(const kernels::WorkspaceSizes&) override { return {}; }
  int64_t workspace_bytes(const kernels::WorkspaceSizes&) const override { return 0; }

  void embed(const kernels::Weight&, std::span<const TokenId>, float, float*) override {}
  void matmul(std::span<const kernels::MatmulTarget>, const float*, int32_t) override {}
  void grouped_matmul(std::span<const kernels::MatmulTarget>, const float*, int32_t, const int32_t*, int32_t,
                      bool) override {}
  void route(const kernels::RouteParams&, const float*, int32_t, int32_t*, float*) override {}
  void moe_combine(const float*, const float*, int32_t, int32_t, int64_t, float*) override {}
  void rms_norm(const float*, const float*, float, int64_t, int64_t, float*) override {}
  void add_rms_norm(float*, const float*, float, const float*, float, int64_t, int64_t, float*) override {}
  void layer_norm(const float*, const float*, const float*, float, int64_t, int64_t, float*) override {}
  void layer_norm_heads(const float*, const float*, float, int64_t, int64_t, int64_t, float*) override {}
  void gate(kernels::Activation, const float*, const float*, int64_t, int64_t, float*) override {}
  void add(float*, const float*, int64_t, float) override {}
  void scale_rows(float*, std::span<const float>, int64_t) override {}
  void sigmoid_scale_rows(float*, const float*, int64_t, int64_t) override {}
  void scale_and_softcap(float*, int64_t, float, float) override {}
  void steer(float*, const float*, float, int64_t, int64_t) override {}
  void clamp(float*, int64_t, float, float) override {}
  void gather_rows(const float*, std::span<const int32_t>, int64_t, float*) override {}
  void copy_columns(const float*, int64_t, float*, int64_t, int64_t, int64_t) override {}
  void rope_table(std::span<const int32_t>, std::span<const double>, float, float*) override {}
  void rope(kernels::RopeStyle, const float*, int32_t, std::span<const kernels::RopeHeads>, int64_t, int32_t) override {
  }
  void store_kv(const kernels::KvView&, std::span<const kernels::AttentionSlice>, const float*, const float*) override {
  }
  void attention(const kernels::AttentionParams&, const kernels::KvView&, std::span<const kernels::AttentionSlice>,
                 const float*, float*) override {}

 private:
  cache::LimitedMemory memory_;
};

}  // namespace cairn::model
