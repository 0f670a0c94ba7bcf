#include "model/logit_rows.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/backend.h"

namespace cairn {

void LogitRows::reserve(int64_t batch_tokens_max, int64_t vocabulary) {
  vocabulary_ = vocabulary;
  here_ = std::make_unique_for_overwrite<float[]>(batch_tokens_max * vocabulary);
}

bool LogitRows::samples_on_device() const {
  return backend_.sampler() != nullptr && vocabulary_ <= kSampleVocabularyMax;
}

Result<LogitsView> LogitRows::take(float* there, int64_t rows, bool keep) {
  there_ = there;
  rows_ = rows;
  const int64_t read = keep ? 0 : rows;
  if (read > 0) backend_.read(there, bytes(read, vocabulary_), here_.get());
  if (!keep || rows == 0) CAIRN_TRY_VOID(backend_.finish());
  return LogitsView{std::span(here_.get(), read * vocabulary_), vocabulary_};
}

Result<void> LogitRows::sample(std::span<const SampleRequest> samples, std::span<const LogitChange> changes,
                               std::span<const AllowedTokens> allowed, std::span<SampleResult> sampled) {
  CAIRN_CHECK(std::ranges::all_of(
      samples, [this](const SampleRequest& request) { return request.row >= 0 && request.row < rows_; }));
  if (!allowed.empty()) backend_.sampler()->mask(there_, vocabulary_, allowed);
  if (!samples.empty()) backend_.sampler()->sample(there_, vocabulary_, samples, changes, sampled);
  return backend_.finish();
}

Result<std::span<const float>> LogitRows::row(int64_t i) {
  CAIRN_CHECK(i >= 0 && i < rows_);
  float* const to = here_.get() + i * vocabulary_;
  backend_.read(there_ + i * vocabulary_, bytes(1, vocabulary_), to);
  CAIRN_TRY_VOID(backend_.finish());
  return std::span<const float>(to, static_cast<size_t>(vocabulary_));
}

}  // namespace cairn
