/// POST /api/pull and DELETE /api/delete: models come from the hubs, and go.
#pragma once

#include <string>
#include <string_view>

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

/// True: clients may have no models fetched, made or deleted ("pull", "make", "delete"), and the request is answered
/// so.
bool is_forbidden(Exchange& exchange, std::string_view what);

/// Lines of progress, and `success`; at once for a model that is served from elsewhere than the models folder. 403
/// where pulls are not allowed.
Result<void> handle_pull(Exchange& exchange);
/// 200 without a body; 404 for what was neither pulled nor made. 403 as above.
Result<void> handle_delete(Exchange& exchange);

}  // namespace cairn::api::ollama
