/// Tokens sampled from rows of logits where those were computed, so that no row has to leave the device. Part of the
/// interface of kernels/backend.h.
///
/// The chain is the one of sampling/sampler.h: bias, penalties, tokens that are masked, top-k, top-p, min-p,
/// temperature, sample. A sample depends on its row and its own parameters alone.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "kernels/host_device.h"

namespace cairn::kernels {

/// Most likely tokens that a sample can report.
inline constexpr int32_t kSampleTopMax = 20;
/// Changes that one sample may have.
inline constexpr int32_t kSampleChangesMax = 4'096;
/// Entries of a row of logits, at most: sums of their weights fit 64 bits.
inline constexpr int64_t kSampleVocabularyMax = int64_t{1} << 19;

/// A change of one logit before anything is chosen.
struct LogitChange {
  int32_t token = 0;
  float value = 0;  ///< what is added, or subtracted after the repetition penalty; not read for tokens masked
};

struct SampleRequest {
  double top_p = 1;  ///< what the sum of probabilities must reach; 1 or more: no limit
  /// Tokens are kept whose logit is at least the largest one plus this, which is at most 0.
  double min_logit_offset = -std::numeric_limits<double>::infinity();
  double random = 0;      ///< in [0, 1): which of what is left
  int32_t row = 0;        ///< of the logits; no two samples of a call have the same
  float temperature = 1;  ///< 0: the largest
  int32_t top_k = 0;      ///< 0: all
  float repetition = 1;   ///< what a penalised logit is divided by, or multiplied with if it is not above 0
  int32_t forced = -1;    ///< the token, whatever the logits say; -1: it is sampled
  int32_t top_logprobs =
      -1;  ///< so many of the most likely tokens are reported, and sums for log-probabilities; -1: none
  // The sample's part of the call's list of changes, where those of one sample follow those of the one before.
  int32_t changes = 0;    ///< the first one
  int32_t biases = 0;     ///< so many biases, each of another token,
  int32_t penalties = 0;  ///< then so many penalties, the same,
  int32_t masked = 0;     ///< then so many tokens that are masked

  CAIRN_HOST_DEVICE constexpr int32_t change_count() const { return biases + penalties + masked; }
};

/// The tokens of a row that may be sampled.
struct AllowedTokens {
  int32_t row = 0;  ///< of the logits
  /// A bit for each token, the lowest bit of the first word for token 0; tokens behind the last word may not be
  /// sampled. In host memory.
  std::span<const uint64_t> words{};
};

/// The result of a sample. All but the token is of the row as the model gave it.
struct SampleResult {
  static constexpr int32_t kNoCandidate = -1;  ///< no logit is above -infinity
  static constexpr int32_t kNeedsHost = -2;  ///< the row has what the device leaves to others: infinite logits, or too
                                             ///< many tokens among which filters would have to choose
  struct TopToken {
    int32_t token = 0;
    float logit = 0;
  };

  double sum = 0;  ///< of exp(logit - largest) over the row; like `logit` and what follows only if reported
  float largest = 0;
  float logit = 0;  ///< the token's
  int32_t token = kNoCandidate;
  int32_t top_logprobs = 0;     ///< how many there are
  TopToken top[kSampleTopMax];  ///< most likely first
};

/// Conventions as in Backend.
class SamplerOperations {
 public:
  virtual ~SamplerOperations() = default;
  /// Samples from rows of logits [rows, vocabulary], which are as before when it is done. Waits for the results, which
  /// mean something only if Backend::finish() says so. `samples`, `changes` and `sampled` are in host memory; at most
  /// WorkspaceSizes::sample_rows samples.
  virtual void sample(float* logits, int64_t vocabulary, std::span<const SampleRequest> samples,
                      std::span<const LogitChange> changes, std::span<SampleResult> sampled) = 0;
  /// Sets the logits of all other tokens to -infinity, before sample(). All rows have as many words.
  virtual void mask(float* logits, int64_t vocabulary, std::span<const AllowedTokens> rows) = 0;
};

}  // namespace cairn::kernels
