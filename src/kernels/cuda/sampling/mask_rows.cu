// Masks tokens of rows of logits: a thread for each token.
#include <cmath>

#include "base/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    mask_kernel(float* logits, int64_t vocabulary, const uint64_t* words, int64_t row_words, const int32_t* numbers) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t token = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (token >= vocabulary) return;
  const int64_t word = token / 64;
  if (word < row_words && (words[blockIdx.x * row_words + word] >> (token % 64) & 1) != 0) return;
  logits[numbers[blockIdx.x] * vocabulary + token] = -INFINITY;
}

}  // namespace

void mask_rows(LaunchQueue& stream, float* logits, int64_t vocabulary, const uint64_t* words, int64_t row_words,
               const int32_t* numbers, int32_t count) {
  CAIRN_DCHECK(count > 0 && vocabulary > 0 && vocabulary <= kSampleVocabularyMax);
  const dim3 grid(static_cast<unsigned>(count), static_cast<unsigned>((vocabulary + kThreads - 1) / kThreads));
  launch_dependent(mask_kernel, grid, kThreads, 0, stream, logits, vocabulary, words, row_words, numbers);
}

}  // namespace cairn::kernels::cuda
