/// The rows of logits that a step has computed: read into host memory, or left where they are to be sampled from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "model/runner.h"

namespace cairn {

class Backend;

class LogitRows {
 public:
  explicit LogitRows(Backend& backend) : backend_(backend) {}

  /// Bytes of host memory that reserve() asks for.
  static int64_t bytes(int64_t batch_tokens_max, int64_t vocabulary) {
    return batch_tokens_max * vocabulary * static_cast<int64_t>(sizeof(float));
  }
  void reserve(int64_t batch_tokens_max, int64_t vocabulary);
  /// As Runner's.
  bool samples_on_device() const;

  /// Those of a step, [rows, vocabulary] in the backend's memory until the next one. With `keep` none is read, and
  /// sample() waits for the step, so that a device takes samples without returning to the host. Otherwise this waits,
  /// for steps without logits too: how long they take is measured by who runs them.
  Result<LogitsView> take(float* there, int64_t rows, bool keep);
  /// As Runner's.
  Result<void> sample(std::span<const SampleRequest> samples, std::span<const LogitChange> changes,
                      std::span<const AllowedTokens> allowed, std::span<SampleResult> sampled);
  Result<std::span<const float>> row(int64_t i);

 private:
  Backend& backend_;
  int64_t vocabulary_ = 0;
  std::unique_ptr<float[]> here_;  // [batch_tokens_max, vocabulary_], whose pages are taken when rows are read
  float* there_ = nullptr;         // of the last step
  int64_t rows_ = 0;
};

}  // namespace cairn
