/// POST /api/pull and DELETE /api/delete: models come from the hubs, and go.
#pragma once

#include <string>

#include "api/exchange.h"

namespace cairn::api::ollama {

struct PullRequest {
  std::string model;
  bool stream = true;
};
/// Errors name their field.
Result<PullRequest> parse_pull(RequestContext& context, const nlohmann::ordered_json& body);
/// The model's name in DELETE /api/delete. Errors name their field.
Result<std::string> parse_delete(RequestContext& context, const nlohmann::ordered_json& body);

/// Lines of progress, and `success`; at once for a model that is served from elsewhere than the models folder. 403
/// where pulls are not allowed.
Result<void> handle_pull(Exchange& exchange);
/// 200 without a body; 404 for what was not pulled. 403 as above.
Result<void> handle_delete(Exchange& exchange);

}  // namespace cairn::api::ollama
