/// The parameters of a model that was made of another one, in the names of Ollama's options.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "api/params/generation_defaults.h"
#include "api/params/request_context.h"
#include "base/error.h"

namespace cairn::api {

struct MadeParameters {
  GenerationDefaults defaults;
  int32_t context_tokens = 0;  ///< num_ctx; 0: as the base has it
};

/// What has no effect here is told in the context. Errors name their field, with "parameters." in front.
Result<MadeParameters> read_made_parameters(RequestContext& context, const nlohmann::ordered_json& parameters);

}  // namespace cairn::api
