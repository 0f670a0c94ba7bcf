/// Tokens drawn from rows of logits where those were computed, so that no row has to leave the device. Part of the
/// interface of kernels/backend.h.
///
/// The chain is the one of sampling/sampler.h: bias, penalties, tokens that are not in play, top-k, top-p, min-p,
/// temperature, draw. A draw depends on its row and its own parameters alone.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "kernels/host_device.h"

namespace cairn {

/// Most likely tokens that a draw can report.
inline constexpr int32_t kDrawLikeliestMax = 20;
/// Changes that one draw may have.
inline constexpr int32_t kDrawChangesMax = 4'096;
/// Entries of a row of logits, at most: sums of their weights fit 64 bits.
inline constexpr int64_t kDrawVocabularyMax = int64_t{1} << 19;

/// Of one logit before anything is chosen.
struct LogitChange {
  int32_t token = 0;
  float value = 0;  ///< what is added, or subtracted after the repetition penalty; not read for tokens out of play
};

struct Draw {
  double top_p = 1;  ///< what the sum of probabilities must reach; 1 or more: no limit
  /// Tokens are kept whose logit is at least the largest one plus this, which is at most 0.
  double least = -std::numeric_limits<double>::infinity();
  double random = 0;       ///< in [0, 1): which of what is left
  int32_t row = 0;         ///< of the logits; no two draws of a call have the same
  float temperature = 1;   ///< 0: the largest
  int32_t top_k = 0;       ///< 0: all
  float repetition = 1;    ///< what a penalised logit is divided by, or multiplied with if it is not above 0
  int32_t forced = -1;     ///< the token, whatever the logits say; -1: it is drawn
  int32_t likeliest = -1;  ///< so many of the most likely tokens are reported, and sums for log-probabilities; -1: none
  // Of the call's list of changes, where those of one draw follow those of the one before.
  int32_t changes = 0;      ///< the first one
  int32_t biases = 0;       ///< so many biases, each of another token,
  int32_t penalties = 0;    ///< then so many penalties, the same,
  int32_t out_of_play = 0;  ///< then so many tokens that are out of play

  CAIRN_HOST_DEVICE constexpr int32_t change_count() const { return biases + penalties + out_of_play; }
};

/// All but the token is of the row as the model gave it.
struct Drawn {
  static constexpr int32_t kNothing = -1;  ///< no logit is above -infinity
  static constexpr int32_t kNotHere = -2;  ///< the row has what the device leaves to others: infinite logits, or too
                                           ///< many tokens among which filters would have to choose
  struct Likely {
    int32_t token = 0;
    float logit = 0;
  };

  double sum = 0;  ///< of exp(logit - largest) over the row; like `logit` and what follows only if reported
  float largest = 0;
  float logit = 0;  ///< the token's
  int32_t token = kNothing;
  int32_t likeliest = 0;             ///< how many there are
  Likely likely[kDrawLikeliestMax];  ///< most likely first
};

/// Conventions as in Backend.
class DrawOperations {
 public:
  virtual ~DrawOperations() = default;
  /// Draws from rows of logits [rows, vocabulary], which are as before when it is done. Waits for the results, which
  /// mean something only if Backend::finish() says so. `draws`, `changes` and `drawn` are in host memory; at most
  /// WorkspaceSizes::draw_rows draws.
  virtual void draw(float* logits, int64_t vocabulary, std::span<const Draw> draws,
                    std::span<const LogitChange> changes, std::span<Drawn> drawn) = 0;
};

}  // namespace cairn
