// Passes over rows of logits: a block of threads for each part of a row.
#include "kernels/cuda/sampling/row_parts.h"

#include "kernels/cuda/sampling/logits.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// The tokens of the block's part.
struct Part {
  const float* logits;
  int32_t begin;
  int32_t end;
  int64_t number;  // among the parts of all samples

  __device__ Part(const SampledRows& rows, const SampleRequest& request)
      : logits(rows.logits + request.row * rows.vocabulary),
        begin(static_cast<int32_t>(blockIdx.y) * part_tokens(rows.vocabulary)),
        end(min(begin + part_tokens(rows.vocabulary), static_cast<int32_t>(rows.vocabulary))),
        number(int64_t{blockIdx.x} * kRowParts + blockIdx.y) {}
  template <class F>
  __device__ void for_each(F f) const {
    for_logits(logits, begin, end, static_cast<int32_t>(threadIdx.x), kThreads, f);
  }
};

__global__ void __launch_bounds__(kThreads) firsts_kernel(SampledRows rows, RowParts parts) {
  __shared__ Key of_warps[kWarps];
  trigger_dependents();
  wait_for_dependencies();
  // Each block clears some bins, to which the next kernel adds.
  int32_t* const bins = parts.bins + int64_t{blockIdx.x} * kCandidateBins;
  for (unsigned i = blockIdx.y * kThreads + threadIdx.x; i < kCandidateBins; i += gridDim.y * kThreads) bins[i] = 0;
  const Part part(rows, rows.samples[blockIdx.x]);
  MostLikely most_likely;
  part.for_each([&](float logit, int32_t token) { most_likely(logit, token); });
  const Key own = warp_min(most_likely.key());
  if (own_lane() == 0) of_warps[own_warp()] = own;
  __syncthreads();
  if (own_warp() != 0) return;
  const Key first = warp_min(of_warps[own_lane() % kWarps]);
  if (own_lane() == 0) parts.firsts[part.number] = first;
}

__global__ void __launch_bounds__(kThreads) sums_kernel(SampledRows rows, RowParts parts) {
  __shared__ uint64_t plain_of_warps[kWarps];
  __shared__ uint64_t drawn_of_warps[kWarps];
  __shared__ int32_t bins[kCandidateBins];
  trigger_dependents();
  wait_for_dependencies();
  const SampleRequest request = rows.samples[blockIdx.x];
  const WantedSums wanted = wanted_sums(request, rows.vocabulary);
  const float largest = logit_of(first_of_row(parts, rows.vocabulary));
  if (!wanted.any() || !(largest > -INFINITY && largest < INFINITY)) return;
  const Part part(rows, request);
  for (unsigned i = threadIdx.x; i < kCandidateBins; i += kThreads) bins[i] = 0;
  __syncthreads();
  const double bound = static_cast<double>(largest) + request.min_logit_offset;
  uint64_t plain = 0, drawn = 0;
  part.for_each([&](float logit, int32_t) {
    if (wanted.plain) plain += weight_of(logit, largest, 1);
    if (wanted.drawn && logit >= bound) drawn += weight_of(logit, largest, request.temperature);
    if (wanted.bins && logit > -INFINITY) atomicAdd(bins + bin_of(largest, logit), 1);
  });
  plain = warp_total(plain);
  drawn = warp_total(drawn);
  if (own_lane() == 0) plain_of_warps[own_warp()] = plain, drawn_of_warps[own_warp()] = drawn;
  __syncthreads();
  int32_t* const of_row = parts.bins + int64_t{blockIdx.x} * kCandidateBins;
  for (unsigned i = threadIdx.x; i < kCandidateBins && wanted.bins; i += kThreads) {
    if (bins[i] != 0) atomicAdd(of_row + i, bins[i]);
  }
  if (threadIdx.x != 0) return;
  plain = drawn = 0;
  for (int w = 0; w < kWarps; ++w) plain += plain_of_warps[w], drawn += drawn_of_warps[w];
  parts.plain[part.number] = plain;
  parts.drawn[part.number] = drawn;
}

dim3 grid_of(const SampledRows& rows) {
  return dim3(static_cast<unsigned>(rows.count), static_cast<unsigned>(part_count(rows.vocabulary)));
}

}  // namespace

void find_firsts(LaunchQueue& stream, const SampledRows& rows, const RowParts& parts) {
  launch_dependent(firsts_kernel, grid_of(rows), kThreads, 0, stream, rows, parts);
}

void sum_parts(LaunchQueue& stream, const SampledRows& rows, const RowParts& parts) {
  launch_dependent(sums_kernel, grid_of(rows), kThreads, 0, stream, rows, parts);
}

}  // namespace cairn::kernels::cuda
