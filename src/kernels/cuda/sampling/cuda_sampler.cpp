#include "kernels/cuda/sampling/cuda_sampler.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/sampling/row_parts.h"

namespace cairn::kernels::cuda {
namespace {

template <class T>
int64_t bytes_of(int64_t count) {
  return count * static_cast<int64_t>(sizeof(T));
}

}  // namespace

int64_t CudaSampler::workspace_bytes(const WorkspaceSizes& sizes) {
  if (sizes.sample_rows == 0) return 0;
  return bytes_of<SampleResult>(sizes.sample_rows) + row_parts_bytes(sizes.sample_rows) +
         bytes_of<float>(kChangesAtOnce);
}

int64_t CudaSampler::argument_bytes(const WorkspaceSizes& sizes) {
  return sizes.sample_rows == 0 ? 0
                                : std::max({bytes_of<SampleRequest>(sizes.sample_rows),
                                            bytes_of<LogitChange>(kChangesAtOnce), kMaskBytes});
}

Result<void> CudaSampler::reserve(const WorkspaceSizes& sizes) {
  if (sizes.sample_rows == 0) return {};
  const int64_t bytes = bytes_of<SampleResult>(sizes.sample_rows);
  CAIRN_TRY_VOID(grow(stream_, bytes, sampled_));
  if (static_cast<int64_t>(here_.bytes()) < bytes) {
    CAIRN_TRY(here_, allocate_pinned(stream_, bytes));
  }
  CAIRN_TRY_VOID(grow(stream_, row_parts_bytes(sizes.sample_rows), parts_));
  return grow(stream_, bytes_of<float>(kChangesAtOnce), changed_);
}

void CudaSampler::sample(float* logits, int64_t vocabulary, std::span<const SampleRequest> samples,
                         std::span<const LogitChange> changes, std::span<SampleResult> sampled) {
  CAIRN_CHECK(samples.size() == sampled.size() &&
              bytes_of<SampleResult>(std::ssize(samples)) <= static_cast<int64_t>(sampled_.bytes()));
  CAIRN_CHECK(std::ranges::all_of(
      samples, [](const SampleRequest& request) { return request.change_count() <= kSampleChangesMax; }));
  auto* const results = static_cast<SampleResult*>(sampled_.data());
  for (size_t begin = 0; begin < samples.size();) {
    const int64_t first_change = samples[begin].changes;
    int64_t change_count = 0;
    size_t end = begin;
    for (; end < samples.size() && change_count + samples[end].change_count() <= kChangesAtOnce; ++end) {
      CAIRN_CHECK(samples[end].changes == first_change + change_count);
      change_count += samples[end].change_count();
    }
    const std::span<const SampleRequest> now = samples.subspan(begin, end - begin);
    const auto* there = static_cast<const SampleRequest*>(
        arguments_.put(stream_, now.data(), bytes_of<SampleRequest>(std::ssize(now))));
    const LogitChange* changes_there = nullptr;
    if (change_count > 0) {
      const LogitChange* from = changes.subspan(static_cast<size_t>(first_change)).data();
      changes_there =
          static_cast<const LogitChange*>(arguments_.put(stream_, from, bytes_of<LogitChange>(change_count)));
    }
    const bool wants_sums =
        std::ranges::any_of(now, [&](const SampleRequest& request) { return wanted_sums(request, vocabulary).any(); });
    cuda::sample(stream_.launches(), logits, vocabulary, there, static_cast<int32_t>(now.size()), changes_there,
                 static_cast<int32_t>(first_change), wants_sums, {parts_.data(), changed_.floats()}, results + begin);
    stream_.launched("sample");
    begin = end;
  }
  const size_t bytes = sampled.size_bytes();
  const cudaStream_t stream = stream_.get();
  stream_.check(cudaMemcpyAsync(here_.data(), results, bytes, cudaMemcpyDeviceToHost, stream), "a copy of samples");
  stream_.wait("a kernel");
  std::memcpy(sampled.data(), here_.data(), bytes);
}

void CudaSampler::mask(float* logits, int64_t vocabulary, std::span<const AllowedTokens> rows) {
  CAIRN_CHECK(vocabulary <= kSampleVocabularyMax);
  for (size_t begin = 0; begin < rows.size();) {
    const size_t of_row = rows[begin].words.size();
    CAIRN_CHECK(bytes_of<uint64_t>(static_cast<int64_t>(of_row)) <= kMaskBytes);
    words_.clear();
    rows_.clear();
    for (; begin < rows.size() && bytes_of<uint64_t>(std::ssize(words_) + static_cast<int64_t>(of_row)) <= kMaskBytes;
         ++begin) {
      CAIRN_CHECK(rows[begin].words.size() == of_row);
      words_.insert(words_.end(), rows[begin].words.begin(), rows[begin].words.end());
      rows_.push_back(rows[begin].row);
    }
    const auto* words =
        static_cast<const uint64_t*>(arguments_.put(stream_, words_.data(), bytes_of<uint64_t>(std::ssize(words_))));
    const auto* numbers =
        static_cast<const int32_t*>(arguments_.put(stream_, rows_.data(), bytes_of<int32_t>(std::ssize(rows_))));
    mask_rows(stream_.launches(), logits, vocabulary, words, static_cast<int64_t>(of_row), numbers,
              static_cast<int32_t>(rows_.size()));
    stream_.launched("mask");
  }
}

}  // namespace cairn::kernels::cuda
