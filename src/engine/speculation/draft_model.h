/// Proposals of a second, smaller model of the same vocabulary: what it would say, greedily.
///
/// It has KV pages of its own and keeps for each sequence what it has computed; tokens that were proposed and not taken
/// are forgotten by computing over them. A long prompt is caught up with over several calls, without proposals until
/// then, so that no step waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/speculation/drafter.h"
#include "model/runner.h"

namespace cairn {

class DeviceMemory;

/// Rows that one call computes at most to catch up with sequences that are further behind than kDraftNearRows.
inline constexpr int32_t kDraftCatchUpRowsMax = 64;
/// As far as a sequence falls behind from one call to the next, and then some.
inline constexpr int32_t kDraftNearRows = 16;

struct DraftModelOptions {
  std::vector<int32_t> kv_pages;  ///< of every KV group of the draft model; when full, the least recently used go
  int32_t vocabulary = 0;         ///< of the model it proposes for: tokens beyond are not proposed
};

/// `runner` and `device` outlive the drafter, which is the only user of `runner`. A sequence of which too much memory
/// or context is wanted gets no proposals; so do those of a call that fails. Errors: kUnsupported (a model with
/// recurrent state, which cannot go back), kInvalidArgument (kv_pages), kOutOfMemory.
Result<std::unique_ptr<Drafter>> make_draft_model(Runner& runner, DeviceMemory& device,
                                                  const DraftModelOptions& options);

}  // namespace cairn
