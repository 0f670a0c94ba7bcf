#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/system/machine.h"
#include "kernels/cpu/attention/attention_op.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/matmul/products.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/mla/mla_op.h"
#include "kernels/cpu/packed/panel.h"
#include "kernels/cpu/recurrent/recurrent_op.h"
#include "kernels/cpu/rows/compressor_op.h"
#include "kernels/cpu/rows/deepseek41_op.h"
#include "kernels/cpu/rows/hyper_connections.h"
#include "kernels/cpu/rows/kv_store.h"
#include "kernels/cpu/rows/moe_route.h"
#include "kernels/cpu/thread_team.h"
#include "quant/codec.h"

namespace cairn::kernels {
namespace cpu {
namespace {

constexpr int kThreadsMax = 1024;

// Approximate nanoseconds per element of one thread, by what bounds the operation; only used to choose the size of
// chunks.
constexpr double kCopyNs = 0.3;
constexpr double kExponentialNs = 1.0;
constexpr double kSineNs = 30;
constexpr double kDecodeNs = 1.0;
constexpr double kPackNs = 0.5;   // per byte
constexpr double kStoreNs = 2.0;  // the cache lines of a token's keys are far apart
// Elements written by two threads are at least a cache line apart.
constexpr int64_t kLineFloats = 16;

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Isa& isa, int threads)
      : isa_(isa),
        rows_(*isa.rows),
        team_(threads),
        products_(isa_, team_),
        attention_(isa_, team_),
        mla_(isa_, team_),
        hyper_connections_(rows_, team_),
        compressor_(rows_, team_),
        recurrent_(isa_, team_),
        deepseek41_(team_) {}

  std::string description() const override {
    return fmt::format("cpu {}, {} thread{}", isa_.name, team_.threads(), team_.threads() == 1 ? "" : "s");
  }

  Result<Buffer> allocate(int64_t bytes) override { return cpu::allocate(bytes); }
  bool supports(TensorType type) const override { return has_matmul(type); }

  // The format is the same for all instruction sets. Increase the number when panel.h changes.
  std::string packed_format_id() const override { return "panels 3"; }
  int64_t load_bytes(const HostMatrix& matrix) const override {
    return matrix.experts * expert_stride(described(matrix));
  }

  Result<Weight> load(const HostMatrix& matrix) override {
    if (!supports(matrix.type))
      return fail(Code::kUnsupported, "no matrix product for tensors of type {}", tensor_type_name(matrix.type));
    Weight weight = described(matrix);
    if (!weight.panels) return weight;
    if (std::ssize(matrix.copy) == load_bytes(matrix) && reinterpret_cast<uintptr_t>(matrix.copy.data()) % 64 == 0) {
      weight.data = matrix.copy.data();
      return weight;
    }
    const int64_t panels = (matrix.rows + kPanelRows - 1) / kPanelRows;
    const int64_t expert_bytes = expert_stride(weight);
    CAIRN_TRY(Buffer memory, weights_.allocate(matrix.experts * expert_bytes));
    weight.memory = std::make_shared<Buffer>(std::move(memory));
    weight.data = weight.memory->data();
    auto* to = static_cast<std::byte*>(weight.memory->data());
    const int64_t from_bytes = matrix.rows * row_bytes(matrix.type, matrix.cols);
    const double panel_ns = static_cast<double>(panel_format(matrix.type).panel_bytes(matrix.cols)) * kPackNs;
    team_.run_items(matrix.experts * panels, panel_ns, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t expert = i / panels, panel = i % panels;
        pack_panels(matrix.type, matrix.data + expert * from_bytes, matrix.rows, matrix.cols, panel, panel + 1,
                    to + expert * expert_bytes);
      }
    });
    return weight;
  }

  Result<void> reserve(const WorkspaceSizes& sizes) override {
    CAIRN_TRY_VOID(products_.reserve(sizes));
    CAIRN_TRY_VOID(attention_.reserve(sizes));
    CAIRN_TRY_VOID(mla_.reserve(sizes.mla));
    return route_working_.reserve(route_bytes(sizes));
  }
  int64_t workspace_bytes(const WorkspaceSizes& sizes) const override {
    return products_.workspace_bytes(sizes) + attention_.workspace_bytes(sizes) + mla_.workspace_bytes(sizes.mla) +
           route_bytes(sizes);
  }

  void embed(const Weight& table, std::span<const TokenId> ids, float scale, float* out) override {
    for_rows(ids.size(), table.cols, kDecodeNs, [&](int64_t r) {
      CAIRN_DCHECK(index(ids[r]) >= 0 && index(ids[r]) < table.rows);
      float* to = out + r * table.cols;
      decode_weight_row(table, index(ids[r]), to);
      if (scale != 1) rows_.scale(to, table.cols, scale);
    });
  }

  void matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows) override {
    products_.matmul(projections, x, rows);
    add_low_rank(*this, projections, x, rows);
  }

  void grouped_matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows, const int32_t* ids,
                      int32_t used, bool input_per_choice) override {
    products_.grouped_matmul(projections, x, rows, ids, used, input_per_choice);
    add_low_rank_of_experts(*this, projections, x, rows, ids, used, input_per_choice);
  }

  void route(const RouteParams& params, const float* logits, int32_t rows, int32_t* ids, float* weights) override;

  void moe_combine(const float* y, const float* weights, int32_t rows, int32_t used, int64_t cols,
                   float* out) override {
    for_rows(rows, cols * used, kCopyNs, [&](int64_t r) {
      rows_.weighted_sum(y + r * used * cols, weights + r * used, used, cols, out + r * cols);
    });
  }

  void rms_norm(const float* x, const float* weight, float epsilon, int64_t rows, int64_t cols, float* out) override {
    for_rows(rows, cols, 2 * kCopyNs,
             [&](int64_t r) { rows_.rms_norm(x + r * cols, weight, epsilon, cols, out + r * cols); });
  }

  void add_rms_norm(float* x, const float* y, float scale, const float* weight, float epsilon, int64_t rows,
                    int64_t cols, float* out) override {
    for_rows(rows, cols, 3 * kCopyNs, [&](int64_t r) {
      rows_.add(x + r * cols, y + r * cols, cols, scale);
      rows_.rms_norm(x + r * cols, weight, epsilon, cols, out + r * cols);
    });
  }

  void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int64_t rows, int64_t cols,
                  float* out) override {
    for_rows(rows, cols, 3 * kCopyNs,
             [&](int64_t r) { rows_.layer_norm(x + r * cols, weight, bias, epsilon, cols, out + r * cols); });
  }

  void layer_norm_heads(const float* x, const float* weight, float epsilon, int64_t rows, int64_t heads, int64_t cols,
                        float* out) override {
    for_rows(rows * heads, cols, 3 * kCopyNs, [&](int64_t r) {
      rows_.layer_norm(x + r * cols, weight + r % heads * cols, nullptr, epsilon, cols, out + r * cols);
    });
  }

  void gate(Activation activation, const float* gate, const float* up, int64_t rows, int64_t cols,
            float* out) override {
    const auto kernel = rows_.gate[static_cast<size_t>(activation)];
    for_elements(rows * cols, kExponentialNs, [&](int64_t begin, int64_t end) {
      kernel(gate + begin, up == nullptr ? nullptr : up + begin, end - begin, out + begin);
    });
  }

  void add(float* x, const float* y, int64_t n, float scale) override {
    for_elements(n, kCopyNs, [&](int64_t begin, int64_t end) { rows_.add(x + begin, y + begin, end - begin, scale); });
  }

  void scale_rows(float* x, std::span<const float> factors, int64_t cols) override {
    for_rows(factors.size(), cols, kCopyNs, [&](int64_t r) { rows_.scale(x + r * cols, cols, factors[r]); });
  }

  void sigmoid_scale_rows(float* x, const float* gates, int64_t rows, int64_t cols) override {
    for_rows(rows, cols, kCopyNs, [&](int64_t r) { rows_.sigmoid_scale(x + r * cols, cols, gates[r]); });
  }

  void scale_and_softcap(float* x, int64_t n, float scale, float cap) override {
    for_elements(n, cap > 0 ? kExponentialNs : kCopyNs,
                 [&](int64_t begin, int64_t end) { rows_.scale_and_softcap(x + begin, end - begin, scale, cap); });
  }

  void steer(float* x, const float* direction, float scale, int64_t rows, int64_t cols) override {
    for_rows(rows, cols, 2 * kCopyNs, [&](int64_t r) { rows_.steer(x + r * cols, direction, cols, scale); });
  }

  void clamp(float* x, int64_t n, float least, float most) override {
    for_elements(n, kCopyNs, [&](int64_t begin, int64_t end) { rows_.clamp(x + begin, end - begin, least, most); });
  }

  void gather_rows(const float* x, std::span<const int32_t> rows, int64_t cols, float* out) override {
    for_rows(rows.size(), cols, kCopyNs, [&](int64_t r) { std::copy_n(x + rows[r] * cols, cols, out + r * cols); });
  }

  void copy_columns(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t cols) override {
    for_rows(rows, cols, kCopyNs, [&](int64_t r) { std::copy_n(from + r * from_stride, cols, to + r * to_stride); });
  }

  void rope_table(std::span<const int32_t> positions, std::span<const double> frequencies, float magnitude,
                  float* table) override;

  void rope(RopeStyle style, const float* table, int32_t dims, std::span<const RopeHeads> rotated, int64_t rows,
            int32_t head_dim) override {
    const auto kernel = style == RopeStyle::kInterleaved ? rows_.rope_adjacent : rows_.rope_halves;
    int64_t cols = 0;
    for (const RopeHeads& each : rotated) cols += int64_t{each.heads} * head_dim;
    for_rows(rows, cols, 2 * kCopyNs, [&](int64_t r) {
      for (const auto& [x, heads] : rotated) kernel(table + r * dims, dims, x + r * heads * head_dim, heads, head_dim);
    });
  }

  KvType stored_kv_type(KvType wanted) const override {
    if (isa_.attention->int16 == nullptr) return wanted;
    if (wanted == KvType::kF16) return KvType::kI16;
    return wanted == KvType::kQ8_0 ? KvType::kQ8_0Pairs : wanted;
  }
  void store_kv(const KvView& kv, std::span<const AttentionSlice> slices, const float* k, const float* v) override;

  void attention(const AttentionParams& params, const KvView& kv, std::span<const AttentionSlice> slices,
                 const float* q, float* out) override {
    attention_.attention(params, kv, slices, q, out);
  }

  MlaOperations* mla() override { return &mla_; }
  HyperConnectionOperations* hyper_connections() override { return &hyper_connections_; }
  CompressorOperations* compressor() override { return &compressor_; }
  RecurrentOperations* recurrent() override { return &recurrent_; }
  Deepseek41Operations* deepseek41() override { return &deepseek41_; }

  void read(const void* from, int64_t bytes, void* to) override { std::memcpy(to, from, static_cast<size_t>(bytes)); }
  void write(const void* from, int64_t bytes, void* to) override { std::memcpy(to, from, static_cast<size_t>(bytes)); }
  void copy(const void* from, int64_t bytes, void* to) override { std::memcpy(to, from, static_cast<size_t>(bytes)); }

 private:
  // The weight's description, without its packed copy.
  static Weight described(const HostMatrix& matrix) {
    Weight weight{.type = matrix.type,
                  .rows = matrix.rows,
                  .cols = matrix.cols,
                  .experts = matrix.experts,
                  .data = matrix.data,
                  .memory = {},
                  .panels = has_panels(matrix.type),
                  .scales = matrix.scales};
    if (weight.panels && matrix.in_place) weight.panels = !panels_grow(matrix.type);
    return weight;
  }

  int64_t route_bytes(const WorkspaceSizes& sizes) const {
    if (sizes.routed_experts == 0) return 0;
    const RouteParams params{.experts = sizes.routed_experts, .groups = sizes.route_groups};
    return team_.threads() * route_floats(params) * static_cast<int64_t>(sizeof(float));
  }

  template <class Body>
  void for_rows(int64_t rows, int64_t cols, double element_ns, Body body) {
    team_.run_items(rows, static_cast<double>(cols) * element_ns, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) body(r);
    });
  }
  template <class Body>
  void for_elements(int64_t n, double element_ns, Body body) {
    team_.run_items(n, element_ns, kLineFloats, [&](int64_t begin, int64_t end, int) { body(begin, end); });
  }

  const Isa isa_;
  const RowKernels& rows_;
  ThreadTeam team_;
  Slabs weights_;
  Products products_;
  AttentionOp attention_;
  MlaOp mla_;
  HyperConnectionOp hyper_connections_;
  CompressorOp compressor_;
  RecurrentOp recurrent_;
  Deepseek41Op deepseek41_;
  Scratch route_working_;  // one row per thread
};

void CpuBackend::route(const RouteParams& params, const float* logits, int32_t rows, int32_t* ids, float* weights) {
  const int64_t stride = route_floats(params);
  auto* working = route_working_.get_array<float>(team_.threads() * stride);
  const double row_ns = static_cast<double>(params.experts) * (kExponentialNs + params.used);
  team_.run_items(rows, row_ns, 1, [&](int64_t begin, int64_t end, int member) {
    for (int64_t r = begin; r < end; ++r) {
      route_row(rows_, params, logits + r * params.experts, working + member * stride, ids + r * params.used,
                weights + r * params.used);
    }
  });
}

void CpuBackend::rope_table(std::span<const int32_t> positions, std::span<const double> frequencies, float magnitude,
                            float* table) {
  const auto pairs = static_cast<int64_t>(frequencies.size());
  for_rows(positions.size(), pairs, kSineNs, [&](int64_t r) {
    float* to = table + r * 2 * pairs;
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = positions[r] * frequencies[i];
      to[2 * i] = static_cast<float>(magnitude * std::cos(angle));
      to[2 * i + 1] = static_cast<float>(magnitude * std::sin(angle));
    }
  });
}

void CpuBackend::store_kv(const KvView& kv, std::span<const AttentionSlice> slices, const float* k, const float* v) {
  // Rows are counted through all slices: in decode steps each has one.
  int64_t rows = 0;
  for (const AttentionSlice& slice : slices) rows += slice.rows;
  const double row_ns = kStoreNs * kv.kv_heads * (kv.key_dim + kv.value_dim);
  // Threads that write into the same page would take its cache lines from each other.
  const int64_t multiple = rows > kPageTokens ? kPageTokens : 1;
  team_.run_items(rows, row_ns, multiple, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;
    for (const AttentionSlice& slice : slices) {
      const auto from = static_cast<int32_t>(std::max<int64_t>(begin - first, 0));
      const auto to = static_cast<int32_t>(std::min<int64_t>(end - first, slice.rows));
      if (from < to) store_kv_rows(isa_, kv, slice, from, to, k, v);
      first += slice.rows;
    }
  });
}

}  // namespace

std::unique_ptr<Backend> make_backend(const Isa& isa, int threads) {
  return std::make_unique<CpuBackend>(isa, threads);
}

}  // namespace cpu

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options) {
  if (options.threads < 0 || options.threads > cpu::kThreadsMax)
    return fail(Code::kInvalidArgument, "{} threads: it must be 1 to {}, or 0 for one per core", options.threads,
                cpu::kThreadsMax);
  std::string name = options.isa;
  if (name.empty()) {
    // Read once at start, before other threads could change the environment.
    const char* wanted = std::getenv("CAIRN_ISA");
    if (wanted != nullptr) name = wanted;
  }
  CAIRN_TRY(const cpu::Isa isa, cpu::choose_isa(name));
  const int threads = options.threads > 0 ? options.threads : usable_cores();
  auto backend = cpu::make_backend(isa, std::min(threads, cpu::kThreadsMax));
  log_debug("kernels: {}", backend->description());
  return backend;
}

}  // namespace cairn::kernels
