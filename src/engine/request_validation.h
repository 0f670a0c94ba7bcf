/// Checks a request before it enters the queue: every refusal says what is wrong with which field.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/page_pool.h"
#include "engine/request.h"
#include "engine/scheduling/request_queue.h"

namespace cairn::engine {

/// Limits of a model and its memory.
struct AdmissionLimits {
  int32_t vocabulary = 0;
  int32_t context_tokens = 0;
  model::EmbeddingAbility embedding;
  int32_t pool_tokens = 0;  ///< positions that the pages of one sequence could hold if it had all of them
  const tokenizer::Tokenizer* tokenizer = nullptr;  ///< of the texts of GenerateRequest::text_bias
};

/// Positions that one sequence could hold with all pages of the pool. A window group never limits it: the pages behind
/// the window come back, and one whole window fits (checked at Engine::create).
int32_t pool_tokens_of(const cache::PagePool& pool);
/// Pages of the group that a sequence needs at once to compute `rows` rows up to position `tokens`.
int32_t pages_needed(const cache::KvGroup& group, int64_t tokens, int32_t rows);

/// Checks a request and fills Submission::request and tokens_max; the engine fills the rest. Thread-safe. Errors: as
/// Engine::submit.
Result<std::unique_ptr<Submission>> check_request(GenerateRequest&& request, const AdmissionLimits& limits);

}  // namespace cairn::engine
