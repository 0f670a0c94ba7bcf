/// A response's choices as requests to the engine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/engine.h"

namespace cairn::api {

/// `choices_per_prompt` copies of `common` for each prompt, in the order of prompts. The i-th choice of a prompt is
/// sampled with the seed plus i. The first request has the response's `id`, the others ID-1, ID-2, ...
std::vector<engine::GenerateRequest> choice_requests(const engine::GenerateRequest& common, std::string_view id,
                                                     std::vector<std::vector<TokenId>> prompts, int choices_per_prompt);

}  // namespace cairn::api
