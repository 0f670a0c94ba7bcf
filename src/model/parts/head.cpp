#include "model/parts/head.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/backend.h"

namespace cairn::model {

namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

}  // namespace

int64_t Head::bytes(const HeadConfig& config, int64_t logit_rows, int64_t hidden_rows) {
  return (logit_rows * config.vocabulary + hidden_rows * config.embedding) * kFloatBytes;
}

void Head::reserve(int64_t logit_rows, int64_t hidden_rows) {
  here_ = std::make_unique_for_overwrite<float[]>(logit_rows * config_.vocabulary);
  hidden_ = std::make_unique_for_overwrite<float[]>(hidden_rows * config_.embedding);
}

bool Head::samples_on_device() const {
  return backend_.sampler() != nullptr && config_.vocabulary <= kernels::kSampleVocabularyMax;
}

Result<LogitsView> Head::run(const Linear& output, const float* x, const HeadRows& rows, float* logits) {
  if (rows.logits > 0) {
    const kernels::MatmulTarget products[] = {output.to(logits)};
    backend_.matmul(products, x, rows.logits);
    if (config_.logit_scale != 1 || config_.soft_cap > 0) {
      backend_.scale_and_softcap(logits, rows.logits * config_.vocabulary, config_.logit_scale, config_.soft_cap);
    }
  }
  const int64_t hidden = rows.hidden * config_.embedding;
  if (hidden > 0) backend_.read(x + rows.logits * config_.embedding, hidden * kFloatBytes, hidden_.get());
  CAIRN_TRY(LogitsView view, take(logits, rows.logits, rows.keep_logits));
  view.hidden = std::span(hidden_.get(), hidden);
  return view;
}

Result<LogitsView> Head::take(float* there, int64_t rows, bool keep) {
  there_ = there;
  rows_ = rows;
  const int64_t read = keep ? 0 : rows;
  if (read > 0) backend_.read(there, read * config_.vocabulary * kFloatBytes, here_.get());
  if (!keep || rows == 0) CAIRN_TRY_VOID(backend_.finish());
  return LogitsView{std::span(here_.get(), read * config_.vocabulary), config_.vocabulary};
}

Result<void> Head::sample(std::span<const kernels::SampleRequest> samples,
                          std::span<const kernels::LogitChange> changes,
                          std::span<const kernels::AllowedTokens> allowed, std::span<kernels::SampleResult> sampled) {
  CAIRN_CHECK(std::ranges::all_of(
      samples, [this](const kernels::SampleRequest& request) { return request.row >= 0 && request.row < rows_; }));
  if (!allowed.empty()) backend_.sampler()->mask(there_, config_.vocabulary, allowed);
  if (!samples.empty()) backend_.sampler()->sample(there_, config_.vocabulary, samples, changes, sampled);
  return backend_.finish();
}

Result<std::span<const float>> Head::row(int64_t i) {
  CAIRN_CHECK(i >= 0 && i < rows_);
  float* const to = here_.get() + i * config_.vocabulary;
  backend_.read(there_ + i * config_.vocabulary, config_.vocabulary * kFloatBytes, to);
  CAIRN_TRY_VOID(backend_.finish());
  return std::span<const float>(to, static_cast<size_t>(config_.vocabulary));
}

}  // namespace cairn::model
