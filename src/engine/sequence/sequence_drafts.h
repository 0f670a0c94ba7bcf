/// Tokens that are drafted for a sequence's next step, and how many are worth their rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/speculation/drafter.h"

namespace cairn::engine {

/// Maximum number of tokens that a constraint expects and that are drafted in one step: other streams wait for them.
inline constexpr int32_t kExpectedDraftsMax = 8;

/// Thread: the engine's.
class SequenceDrafts {
 public:
  /// `allowed`: whether the request lets tokens be drafted. `drafts_max`: as many as the drafter proposes in a step; 0:
  /// there is none. `constrained`: whether there is a constraint, which may expect tokens.
  SequenceDrafts(bool allowed, int32_t drafts_max, bool constrained);

  bool allowed() const { return allowed_; }
  /// Whether the drafter proposes for it.
  bool speculates() const { return speculates_; }
  /// The drafts of the next step, from the drafter or from expect().
  std::span<const TokenId> tokens() const { return tokens_; }
  /// Where the drafter writes them.
  std::vector<TokenId>& proposed() { return tokens_; }
  void forget();
  /// How many the drafter may propose: see DraftLengthController::tokens_wanted.
  int32_t tokens_wanted(double row_cost, int32_t tokens_max) {
    return proposed_length_.tokens_wanted(row_cost, tokens_max);
  }
  /// Drafts the first of the tokens that the constraint expects: at most `room` and kExpectedDraftsMax, and no more
  /// than pay. `row_cost` as for DraftLengthController.
  void expect(std::span<const TokenId> expected, double row_cost, int32_t room);
  /// The first `accepted` of `proposed` tokens were right.
  void observe(int32_t proposed, int32_t accepted);

 private:
  bool allowed_;
  bool speculates_;
  bool are_expected_ = false;  // the tokens are the constraint's
  std::vector<TokenId> tokens_;
  DraftLengthController proposed_length_;
  DraftLengthController expected_length_;
};

}  // namespace cairn::engine
