/// Recent responses in memory: what previous_response_id, item_reference, GET and DELETE find without --store.
#pragma once

#include <memory>

#include "api/store/response_store.h"

namespace cairn::api {

/// --response-bytes where nobody has said.
inline constexpr int64_t kRecentResponseBytes = 64ll << 20;

struct RecentResponseLimits {
  int64_t bytes_max = kRecentResponseBytes;  ///< of all responses with their input, as JSON, with their ids
  size_t responses_max = 65'536;             ///< and of their number
  size_t chain_max = 4'096;                  ///< responses of one conversation
  size_t history_bytes_max = 32ull << 20;    ///< of their items, as JSON
};

/// The least recently used go first: a response is used when it is read, also for one that goes on from it. Never
/// waits. What is larger than all that may be kept is refused (kTooLarge).
std::unique_ptr<ResponseStore> make_recent_responses(const RecentResponseLimits& limits = {});

}  // namespace cairn::api
