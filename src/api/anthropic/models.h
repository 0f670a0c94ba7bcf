/// GET /v1/models and /v1/models/ID in Anthropic's words.
///
/// Source: Anthropic API reference, "List Models" and "Get a Model".
#pragma once

#include <string_view>

#include "loader/registry.h"
#include "net/http/http_server.h"

namespace cairn::api::anthropic {

inline constexpr int kModelsMax = 1'000;  ///< of one page

/// Whether the request is of a client of Anthropic's, which shares these paths with OpenAI's: they name their version.
bool speaks_anthropic(const net::HttpRequest& request);

/// `id`: empty for the list.
void handle_models(const Registry& registry, const net::HttpRequest& request, std::string_view id,
                   net::HttpResponse& response);

}  // namespace cairn::api::anthropic
