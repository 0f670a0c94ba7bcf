#include "kernels/cpu/matmul/products.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/cpu/packed/panel.h"

namespace cairn::kernels::cpu {
namespace {

// Bytes of weights of a chunk over which several products pass, each for some of the tokens: the part of the L2 cache
// that they leave free.
constexpr int64_t kChunkBytesMax = 512 * 1024;
// Weight rows of a chunk are a multiple of this, two panels, so that outputs of two threads do not share a cache line.
constexpr int64_t kRowMultiple = 32;
// Approximate throughput of one thread per nanosecond; only used to choose the size of chunks.
constexpr double kWeightBytesPerNs = 12;
constexpr double kInt8ProductsPerNs = 50;
constexpr double kFloatProductsPerNs = 12;
// Weights packed into panels per nanosecond.
constexpr double kPackedPerNs = 4;
// More projections than any product has.
constexpr int64_t kJobsMin = 64;

// Whether the file's rows are packed each time they are multiplied: there was no room to keep their panels, and the
// sums must be those of panels.
bool packs(const Weight& weight) { return !weight.panels && has_panels(weight.type) && panels_grow(weight.type); }

// Bytes of one thread's packed rows.
int64_t packed_bytes_of(int64_t cols) { return kRowMultiple / kPanelRows * kPanelCodes.panel_bytes(cols); }

}  // namespace

int64_t expert_stride(const Weight& weight) {
  if (!weight.panels) return weight.rows * row_bytes(weight.type, weight.cols);
  return (weight.rows + kPanelRows - 1) / kPanelRows * panel_format(weight.type).panel_bytes(weight.cols);
}

void decode_weight_row(const Weight& weight, int64_t row, float* out) {
  const auto* data = static_cast<const std::byte*>(weight.data);
  if (weight.panels) {
    const int64_t block_cols = panel_format(weight.type).block_cols;
    for (int64_t b = 0; b < weight.cols / block_cols; ++b) {
      decode_panel_block(weight.type, data, weight.cols, row, b, out + b * block_cols);
    }
  } else {
    decode_weights(weight.type, data + row * row_bytes(weight.type, weight.cols), weight.cols, out);
  }
  for (int64_t c = 0; c < weight.cols && !weight.scales.empty(); ++c) out[c] *= weight.scales[0];
}

int64_t Products::quantized_bytes(const WorkspaceSizes& sizes) {
  int64_t bytes = 0;
  for (const WorkspaceSizes::Input& input : sizes.inputs) {
    bytes = std::max(bytes, input.rows * static_cast<int64_t>(int8_row_bytes(input.cols)));
  }
  return bytes;
}

int64_t Products::rounded_bytes(const WorkspaceSizes& sizes) const {
  int64_t bytes = 0;
  for (const WorkspaceSizes::Input& input : sizes.inputs) {
    bytes = std::max(bytes, input.rows * static_cast<int64_t>(bf16_row_bytes(input.cols)));
  }
  return kernels_.round_row == nullptr ? 0 : bytes;
}

int64_t Products::order_bytes(const WorkspaceSizes& sizes) {
  if (sizes.expert_choices == 0) return 0;
  return (sizes.experts + 1 + sizes.expert_choices) * static_cast<int64_t>(sizeof(int32_t));
}

// The maximum number of jobs: one for each projection of a product, or two for each chosen expert.
int64_t Products::jobs_max(const WorkspaceSizes& sizes) {
  return std::max(kJobsMin, 2 * std::min(sizes.experts, sizes.expert_choices));
}

int64_t Products::packed_bytes(const WorkspaceSizes& sizes) const {
  int64_t cols = 0;
  for (const WorkspaceSizes::Input& input : sizes.inputs) cols = std::max(cols, input.cols);
  return team_.threads() * packed_bytes_of(cols);
}

Result<void> Products::reserve(const WorkspaceSizes& sizes) {
  CAIRN_TRY_VOID(quantized_memory_.reserve(quantized_bytes(sizes)));
  CAIRN_TRY_VOID(rounded_memory_.reserve(rounded_bytes(sizes)));
  CAIRN_TRY_VOID(order_.reserve(order_bytes(sizes)));
  CAIRN_TRY_VOID(packed_.reserve(packed_bytes(sizes)));
  jobs_.reserve(static_cast<size_t>(jobs_max(sizes)));
  return {};
}

int64_t Products::workspace_bytes(const WorkspaceSizes& sizes) const {
  return quantized_bytes(sizes) + rounded_bytes(sizes) + order_bytes(sizes) + packed_bytes(sizes) +
         jobs_max(sizes) * static_cast<int64_t>(sizeof(Job));
}

void Products::matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows) {
  if (projections.empty() || rows == 0) return;
  prepare(projections, x, rows);
  jobs_.clear();
  total_ns_ = 0;
  for (const MatmulTarget& projection : projections) add_job(projection, 0, nullptr, rows);
  run_jobs(x, 1);
}

void Products::grouped_matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows,
                              const int32_t* ids, int32_t used, bool input_per_choice) {
  if (projections.empty() || rows == 0) return;
  const int64_t pairs = int64_t{rows} * used;
  prepare(projections, x, input_per_choice ? pairs : rows);
  // Sorts the pairs by expert: counts, then places them. first[e] ends as the end of expert e, which is the beginning
  // of e + 1.
  const int64_t experts = projections[0].weight->experts;
  auto* first = order_.get_array<int32_t>(experts + 1 + pairs);
  int32_t* order = first + experts + 1;
  std::fill_n(first, experts + 1, 0);
  for (int64_t i = 0; i < pairs; ++i) {
    CAIRN_DCHECK(ids[i] >= 0 && ids[i] < experts);
    ++first[ids[i] + 1];
  }
  for (int64_t e = 0; e < experts; ++e) first[e + 1] += first[e];
  for (int64_t i = 0; i < pairs; ++i) order[first[ids[i]]++] = static_cast<int32_t>(i);
  jobs_.clear();
  total_ns_ = 0;
  for (int64_t e = 0, begin = 0; e < experts; begin = first[e++]) {
    const auto tokens = static_cast<int32_t>(first[e] - begin);
    if (tokens == 0) continue;
    for (const MatmulTarget& projection : projections) add_job(projection, e, order + begin, tokens);
  }
  run_jobs(x, input_per_choice ? 1 : used);
}

bool Products::takes_rounded(const Weight& weight) const {
  return weight.type == TensorType::kBF16 && kernels_.round_row != nullptr;
}

void Products::prepare(std::span<const MatmulTarget> projections, const float* x, int64_t rows) {
  const int64_t cols = projections[0].weight->cols;
  const auto convert = [&](auto of, Scratch& memory, size_t row_bytes,
                           void (*function)(const float*, int64_t, std::byte*)) -> const std::byte* {
    if (std::ranges::none_of(projections, [&](const MatmulTarget& p) { return of(*p.weight); })) return nullptr;
    const auto stride = static_cast<int64_t>(row_bytes);
    auto* out = memory.get_array<std::byte>(rows * stride);
    team_.run_items(rows, static_cast<double>(cols) * 0.5, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) function(x + r * cols, cols, out + r * stride);
    });
    return out;
  };
  const auto takes_int8 = [](const Weight& weight) { return weight.panels || packs(weight); };
  quantized_ = convert(takes_int8, quantized_memory_, int8_row_bytes(cols), kernels_.quantize_row);
  rounded_ = convert([&](const Weight& weight) { return takes_rounded(weight); }, rounded_memory_, bf16_row_bytes(cols),
                     kernels_.round_row);
}

void Products::add_job(const MatmulTarget& projection, int64_t expert, const int32_t* outputs, int32_t tokens) {
  const Weight& weight = *projection.weight;
  const int64_t bytes = expert_stride(weight) / weight.rows;
  Job job{.projection = &projection,
          .weights = static_cast<const std::byte*>(weight.data) + expert * expert_stride(weight),
          .bias = projection.bias == nullptr ? nullptr : projection.bias + expert * weight.rows,
          .scale = weight.scales.empty() ? 1 : weight.scales[expert],
          .outputs = outputs,
          .tokens = tokens,
          .packs = packs(weight)};
  const bool read_at_once = job.scale != 1 || job.bias != nullptr;
  // Slightly fewer tokens, still a multiple of tiles' tokens.
  job.tokens_at_once = read_at_once ? kNonTemporalTokensMin - 4 : kTokensAtOnce;
  // Panels are prefetched, activations are not: they stay in the L2 cache for many rows.
  job.chunk_tokens = weight.panels ? std::min(tokens, job.tokens_at_once) : tokens;
  const double products = static_cast<double>(job.chunk_tokens) * static_cast<double>(weight.cols);
  double row_ns = std::max(static_cast<double>(bytes) / kWeightBytesPerNs,
                           products / (job.int8() ? kInt8ProductsPerNs : kFloatProductsPerNs));
  if (job.packs) row_ns += static_cast<double>(weight.cols) / kPackedPerNs;
  const int64_t passes = (tokens + job.chunk_tokens - 1) / job.chunk_tokens;
  total_ns_ += row_ns * static_cast<double>(weight.rows * passes);
  // With several passes each may have fewer chunks, which are longer.
  const bool long_chunks = tokens >= kNonTemporalTokensMin && weight.rows >= 2 * kRowsAtOnce * team_.threads();
  const int64_t multiple = long_chunks ? kRowsAtOnce : kRowMultiple;
  job.chunk_rows = team_.chunk_items(weight.rows * passes, row_ns, multiple);
  if (job.chunk_tokens > job.tokens_at_once) {
    const int64_t cached = std::max(kRowMultiple, kChunkBytesMax / bytes / kRowMultiple * kRowMultiple);
    job.chunk_rows = std::min(job.chunk_rows, cached);
  }
  job.chunk_rows = std::min(team_.balanced_chunk(weight.rows, job.chunk_rows, multiple), weight.rows);
  if (!jobs_.empty()) job.chunk_begin = jobs_.back().chunk_end();
  jobs_.push_back(job);
}

void Products::run_jobs(const float* x, int32_t outputs_per_input) {
  const int64_t chunks = jobs_.back().chunk_end();
  const int64_t packed = packed_bytes_of(jobs_.front().projection->weight->cols);
  const bool packs_some = std::ranges::any_of(jobs_, &Job::packs);
  auto* scratch = packs_some ? packed_.get_array<std::byte>(team_.threads() * packed) : nullptr;
  team_.run(
      chunks, ThreadTeam::chunk_least(total_ns_ / static_cast<double>(chunks)), [&](int64_t begin, int64_t end, int m) {
        for (int64_t chunk = begin; chunk < end; ++chunk) {
          const auto after = std::ranges::upper_bound(jobs_, chunk, {}, &Job::chunk_begin);
          const Job& job = *(after - 1);
          run_chunk(job, chunk - job.chunk_begin, x, outputs_per_input, job.packs ? scratch + m * packed : nullptr);
        }
      });
}

void Products::run_chunk(const Job& job, int64_t chunk, const float* x, int32_t outputs_per_input,
                         std::byte* packed) const {
  const Weight& weight = *job.projection->weight;
  const int64_t row_begin = chunk % job.row_chunks() * job.chunk_rows;
  const int64_t row_end = std::min(row_begin + job.chunk_rows, weight.rows);
  const int64_t token = chunk / job.row_chunks() * job.chunk_tokens;
  const Range tokens{token, std::min<int64_t>(token + job.chunk_tokens, job.tokens)};
  if (!job.packs) return run_rows(job, job.weights, {row_begin, row_end}, 0, tokens, x, outputs_per_input);
  const int64_t bytes = row_bytes(weight.type, weight.cols);
  for (int64_t row = row_begin; row < row_end; row += kRowMultiple) {
    const int64_t rows = std::min(kRowMultiple, row_end - row);
    pack_panels(weight.type, job.weights + row * bytes, rows, weight.cols, 0, (rows + kPanelRows - 1) / kPanelRows,
                packed);
    run_rows(job, packed, {0, rows}, row, tokens, x, outputs_per_input);
  }
}

// Multiplies rows of `weights`, whose first row is `first_row` of the job's.
void Products::run_rows(const Job& job, const std::byte* weights, Range rows, int64_t first_row, Range tokens,
                        const float* x, int32_t outputs_per_input) const {
  const Weight& weight = *job.projection->weight;
  const bool int8 = job.int8();
  const bool rounded = takes_rounded(weight);
  const std::byte* input = int8 ? quantized_ : rounded ? rounded_ : reinterpret_cast<const std::byte*>(x);
  const MatmulFunction product = int8 ? kernels_.matmul_panels : kernels_.matmul_rows;
  const size_t stride = int8      ? int8_row_bytes(weight.cols)
                        : rounded ? bf16_row_bytes(weight.cols)
                                  : static_cast<size_t>(weight.cols) * sizeof(float);
  std::array<const std::byte*, kTokensAtOnce> inputs;
  std::array<float*, kTokensAtOnce> outputs;
  for (int64_t begin = tokens.begin; begin < tokens.end; begin += job.tokens_at_once) {
    const auto count = static_cast<int32_t>(std::min<int64_t>(job.tokens_at_once, tokens.end - begin));
    for (int32_t t = 0; t < count; ++t) {
      const int64_t output = job.outputs == nullptr ? begin + t : job.outputs[begin + t];
      inputs[t] = input + output / outputs_per_input * static_cast<int64_t>(stride);
      outputs[t] = job.projection->out + output * weight.rows + first_row;
    }
    product(weight.type, weights, weight.cols, rows.begin, rows.end, inputs.data(), count, outputs.data());
    for (int32_t t = 0; t < count && job.scale != 1; ++t) {
      for (int64_t r = rows.begin; r < rows.end; ++r) outputs[t][r] *= job.scale;
    }
    for (int32_t t = 0; t < count && job.bias != nullptr; ++t) {
      for (int64_t r = rows.begin; r < rows.end; ++r) outputs[t][r] += job.bias[first_row + r];
    }
  }
}

}  // namespace cairn::kernels::cpu
