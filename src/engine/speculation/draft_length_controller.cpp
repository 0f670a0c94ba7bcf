#include <algorithm>

#include "base/check.h"
#include "engine/speculation/drafter.h"

namespace cairn::engine {
namespace {

// Assumed acceptance after a pause, as one checked proposal: less than at first, so that few are made if it is wrong.
constexpr double kHope = 0.7;
// Weight of earlier observations after each new one: some ten count.
constexpr double kKeep = 0.9;
// Minimum relative gain in tokens per time: a smaller one is lost in the uncertainty of a row's cost.
constexpr double kGainMin = 0.02;
// Number of observations after which proposals that still pay are taken as proven.
constexpr int32_t kProof = 8;

}  // namespace

int32_t DraftLengthController::tokens_wanted(double row_cost, int32_t tokens_max) {
  if (tokens_max <= 0) return 0;
  if (pause_left_ > 0) {
    --pause_left_;
    return 0;
  }
  const double cost = std::max(row_cost, 0.0);
  const double acceptance = right_ / checked_;
  double best = 1 + kGainMin;
  double tokens = 1;  // expected tokens of a step
  double power = 1;
  int32_t wanted = 0;
  for (int32_t k = 1; k <= tokens_max; ++k) {
    power *= acceptance;
    tokens += power;
    const double gain = tokens / (1 + k * cost);
    if (gain <= best) continue;
    best = gain;
    wanted = k;
  }
  if (wanted > 0) {
    if (observed_ >= kProof) pause_ = kDraftPauseMin;
    return wanted;
  }
  pause_left_ = pause_ - 1;
  pause_ = std::min(2 * pause_, kDraftPauseMax);
  checked_ = 1;
  right_ = kHope;
  observed_ = 0;
  return 0;
}

void DraftLengthController::observe(int32_t proposed, int32_t accepted) {
  CAIRN_CHECK(accepted >= 0 && accepted <= proposed);
  if (proposed == 0) return;
  // The first wrong proposal is checked as well; those after it are not.
  checked_ = kKeep * checked_ + accepted + (accepted < proposed ? 1 : 0);
  right_ = kKeep * right_ + accepted;
  observed_ = std::min(observed_ + 1, kProof);
}

}  // namespace cairn::engine
