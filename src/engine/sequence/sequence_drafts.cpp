#include "engine/sequence/sequence_drafts.h"

#include <algorithm>

namespace cairn::engine {

SequenceDrafts::SequenceDrafts(bool allowed, int32_t drafts_max, bool constrained)
    : allowed_(allowed), speculates_(allowed && drafts_max > 0) {
  tokens_.reserve(static_cast<size_t>(std::max(drafts_max, constrained ? kExpectedDraftsMax : 0)));
}

void SequenceDrafts::forget() {
  tokens_.clear();
  are_expected_ = false;
}

void SequenceDrafts::expect(std::span<const TokenId> expected, double row_cost, int32_t room) {
  const int32_t most = std::clamp(room, 0, kExpectedDraftsMax);
  const auto wanted = static_cast<size_t>(expected_length_.tokens_wanted(row_cost, most));
  const auto drafts = expected.first(std::min(expected.size(), wanted));
  tokens_.assign(drafts.begin(), drafts.end());
  are_expected_ = true;
}

void SequenceDrafts::observe(int32_t proposed, int32_t accepted) {
  (are_expected_ ? expected_length_ : proposed_length_).observe(proposed, accepted);
}

}  // namespace cairn::engine
