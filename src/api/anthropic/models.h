/// GET /v1/models and /v1/models/ID in Anthropic's words.
///
/// Source: Anthropic API reference, "List Models" and "Get a Model".
#pragma once

#include "api/exchange.h"

namespace cairn::api::anthropic {

inline constexpr int kModelsMax = 1'000;  ///< of one page

/// Whether the request is of a client of Anthropic's, which shares these paths with OpenAI's: they name their version.
bool speaks_anthropic(const net::HttpRequest& request);

/// One model, or all of them where the path has no id.
Result<void> handle_models(Exchange& exchange);

}  // namespace cairn::api::anthropic
