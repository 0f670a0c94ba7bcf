/// A drafter that decodes greedily with a second, smaller model of the same vocabulary.
///
/// It has KV pages of its own and keeps for each sequence what it has computed; the rows of rejected drafts are
/// overwritten by the next computation. A long prompt is processed over several calls, and nothing is proposed until it
/// is complete, so that no step waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/speculation/drafter.h"
#include "model/runner.h"

namespace cairn::kernels {
class DeviceMemory;
}  // namespace cairn::kernels

namespace cairn::engine {

/// Maximum rows that one call computes to catch up with sequences that are further behind than kDraftNearRows.
inline constexpr int32_t kDraftCatchUpRowsMax = 64;
/// Rows by which a sequence may fall behind from one call to the next, with a margin.
inline constexpr int32_t kDraftNearRows = 16;

struct DraftModelOptions {
  /// Pages of every KV group of the draft model; when full, those of the least recently used sequences are dropped.
  std::vector<int32_t> kv_pages;
  int32_t vocabulary = 0;  ///< vocabulary of the target model: larger ids are not proposed
};

/// `runner` and `device` outlive the drafter, which is the only user of `runner`. A sequence of which too much memory
/// or context is wanted gets no proposals; so do those of a call that fails. Errors: kUnsupported (a model with
/// recurrent state, which cannot go back), kInvalidArgument (kv_pages), kOutOfMemory.
Result<std::unique_ptr<Drafter>> make_draft_model(model::Runner& runner, kernels::DeviceMemory& device,
                                                  const DraftModelOptions& options);

}  // namespace cairn::engine
