#include "kernels/cpu/rows/compressor_op.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/cpu/attention/kv_page.h"
#include "kernels/simulated_rounding.h"

namespace cairn::kernels::cpu {
namespace {

// Approximate nanoseconds; only used to choose the size of chunks.
constexpr double kPoolingNs = 1.0;
constexpr double kRoundNs = 3.0;

float largest_magnitude(const float* x, int32_t n) {
  float largest = 0;
  for (int32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

void round_block(const SimulatedFormat& format, float* x, int32_t n) {
  const float scale = simulated_scale(format, largest_magnitude(x, n));
  for (int32_t i = 0; i < n; ++i) x[i] = simulated_rounded(format, scale, x[i]);
}

void round_row(const SimulatedFormat& format, float* x, int32_t dims) {
  for (int32_t i = 0; i < dims; i += format.block) round_block(format, x + i, std::min(format.block, dims - i));
}

void hadamard(float* x, int32_t dims) {
  for (int32_t half = 1; half < dims; half *= 2) {
    for (int32_t begin = 0; begin < dims; begin += 2 * half) {
      for (int32_t i = begin; i < begin + half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
  const float factor = 1 / std::sqrt(static_cast<float>(dims));
  for (int32_t i = 0; i < dims; ++i) x[i] *= factor;
}

const float* input_row(const KvView& kv, const AttentionSlice& slice, int32_t position) {
  return reinterpret_cast<const float*>(latent_row(kv, slice.pages, position));
}

}  // namespace

void CompressorOp::compress_row(const Call& call, const AttentionSlice& slice, int32_t row, float* out) const {
  const CompressorParams& params = call.params;
  const float* values[kCompressorSpanMax];
  const float* scores[kCompressorSpanMax];
  const float* biases[kCompressorSpanMax];
  const int32_t own = row * params.ratio, end = own + params.ratio;
  int32_t count = 0;
  for (int32_t position = std::max(0, end - params.span()); position < end; ++position, ++count) {
    const int32_t half = params.overlapping && position >= own ? params.dim : 0;
    values[count] = input_row(call.values, slice, position) + half;
    scores[count] = input_row(call.scores, slice, position) + half;
    biases[count] = params.biases + int64_t{position % params.ratio} * params.width() + half;
  }
  kernels_.softmax_pool(values, scores, biases, count, params.dim, out);
}

void CompressorOp::compress(const CompressorParams& params, const KvView& values, const KvView& scores,
                            std::span<const AttentionSlice> slices, float* out) {
  CAIRN_DCHECK(values.type == KvType::kF32 && values.key_dim == params.width() && values.tokens_per_row == 1);
  CAIRN_DCHECK(scores.type == KvType::kF32 && scores.key_dim == params.width() && scores.tokens_per_row == 1);
  CAIRN_DCHECK(params.span() <= kCompressorSpanMax);
  const Call call{params, values, scores};
  int64_t done = 0;
  for (const AttentionSlice& slice : slices) {
    const int32_t first = kv_rows(slice.position_begin, params.ratio);
    const int32_t count = kv_rows(slice.position_begin + slice.rows, params.ratio) - first;
    float* to = out + done * params.dim;
    const double row_ns = kPoolingNs * params.span() * params.dim;
    team_.run_items(count, row_ns, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        compress_row(call, slice, first + static_cast<int32_t>(i), to + i * params.dim);
    });
    done += count;
  }
}

void CompressorOp::round_fp8(float* x, int64_t rows, int64_t stride, int32_t dims) {
  team_.run_items(rows, kRoundNs * dims, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      round_row(kSimulatedE4m3, x + r * stride, dims);
    }
  });
}

void CompressorOp::hadamard_fp4(float* x, int64_t rows, int32_t dims) {
  team_.run_items(rows, kRoundNs * dims, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x + r * dims;
      hadamard(row, dims);
      round_row(kSimulatedE2m1, row, dims);
    }
  });
}

}  // namespace cairn::kernels::cpu
