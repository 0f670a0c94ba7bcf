/// POST /api/embed, and /api/embeddings, its elder, which takes one text and gives its vector as the model has it.
#pragma once

#include "api/embedding/embeddings.h"
#include "api/exchange.h"

namespace cairn::api::ollama {

/// Texts without anything in them are left out, as Ollama does; so there may be no inputs.
Result<EmbeddingsRequest> parse_embed(RequestContext& context, const nlohmann::ordered_json& body);
Result<EmbeddingsRequest> parse_embeddings(RequestContext& context, const nlohmann::ordered_json& body);

Result<void> handle_embed(Exchange& exchange);
Result<void> handle_embeddings(Exchange& exchange);

}  // namespace cairn::api::ollama
