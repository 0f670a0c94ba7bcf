/// The end of a model, a part of it: rows of the residual stream, normalised, become logits, or are read as they are.
/// The rows of logits are read into host memory, or left where they are to be sampled from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/sampler_operations.h"
#include "model/runner.h"
#include "model/weights/linear.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

struct HeadConfig {
  int64_t vocabulary = 0;
  int64_t embedding = 0;
  float logit_scale = 1;
  float soft_cap = 0;  ///< > 0: logits are cap * tanh(logit / cap)
};

/// The rows that a step gives.
struct HeadRows {
  int32_t logits = 0;
  int32_t hidden = 0;        ///< behind those of logits
  bool keep_logits = false;  ///< as in Batch
};

class Head {
 public:
  Head(kernels::Backend& backend, const HeadConfig& config) : backend_(backend), config_(config) {}

  /// Bytes of host memory that reserve() asks for.
  static int64_t bytes(const HeadConfig& config, int64_t logit_rows, int64_t hidden_rows);
  void reserve(int64_t logit_rows, int64_t hidden_rows);
  /// The same as Runner's.
  bool samples_on_device() const;

  /// x [rows, embedding] by the output matrix; `logits` [logit rows, vocabulary] in the backend's memory hold those
  /// until the next step.
  Result<LogitsView> run(const Linear& output, const float* x, const HeadRows& rows, float* logits);
  /// Takes logits that are there already. With `keep` none is read, and sample() waits for the step, so that a device
  /// takes samples without returning to the host. Otherwise this waits, for steps without logits too: how long they
  /// take is measured by who runs them.
  Result<LogitsView> take(float* there, int64_t rows, bool keep);
  /// The same as Runner's.
  Result<void> sample(std::span<const kernels::SampleRequest> samples, std::span<const kernels::LogitChange> changes,
                      std::span<const kernels::AllowedTokens> allowed, std::span<kernels::SampleResult> sampled);
  Result<std::span<const float>> row(int64_t i);

 private:
  kernels::Backend& backend_;
  const HeadConfig config_;
  // Pages of these two are taken when rows are read.
  std::unique_ptr<float[]> here_;    // [logit rows, vocabulary]
  std::unique_ptr<float[]> hidden_;  // [hidden rows, embedding]
  float* there_ = nullptr;           // of the last step
  int64_t rows_ = 0;
};

}  // namespace cairn::model
