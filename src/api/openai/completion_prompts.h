/// From a completion's request to what its prompts ask of the engine.
#pragma once

#include <vector>

#include "api/openai/completion_serializer.h"
#include "api/openai/request.h"
#include "engine/engine.h"
#include "loader/loaded_model.h"

namespace cairn::api::openai {

struct PreparedCompletion {
  std::vector<engine::GenerateRequest> requests;  ///< of every choice of every prompt
  CompletionOptions options;                      ///< of the serializer
};

/// Whose request it is, `request.common.generate` says already. Errors: a prompt is too long or cannot be made; too
/// many scores are asked for.
Result<PreparedCompletion> prepare_prompts(RequestContext& context, const loader::LoadedModel& model,
                                           const CompletionRequest& request);

}  // namespace cairn::api::openai
