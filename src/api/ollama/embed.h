/// POST /api/embed, and /api/embeddings, its elder, which takes one text and gives its vector as the model has it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "api/embedding/embeddings.h"
#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::ollama {

/// Texts without anything in them are left out, as Ollama does; so there may be no inputs.
Result<EmbeddingsRequest> parse_embed(RequestContext& context, const nlohmann::ordered_json& body);
Result<EmbeddingsRequest> parse_embeddings(RequestContext& context, const nlohmann::ordered_json& body);

void handle_embed(Service& service, RequestContext& context, const net::HttpRequest& request,
                  std::shared_ptr<net::HttpResponse> response);
void handle_embeddings(Service& service, RequestContext& context, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::ollama
