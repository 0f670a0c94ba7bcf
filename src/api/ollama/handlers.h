/// POST /api/chat and /api/generate, and how both unload a model.
#pragma once

#include <memory>

#include "api/models/model_request.h"
#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::ollama {

void handle_chat(Service& service, RequestContext& context, const net::HttpRequest& request,
                 std::shared_ptr<net::HttpResponse> response);
void handle_generate(Service& service, RequestContext& context, const net::HttpRequest& request,
                     std::shared_ptr<net::HttpResponse> response);

/// Ollama's clients unload a model by a request without a prompt that is to keep it loaded for no time: see
/// Needs::instead. A model that is pinned is not unloaded.
Result<bool> unload_by_chat(ModelManager& models, const ModelRequest& request, const std::string& model,
                            const ModelScope& scope, net::HttpResponse& response);
Result<bool> unload_by_generate(ModelManager& models, const ModelRequest& request, const std::string& model,
                                const ModelScope& scope, net::HttpResponse& response);

}  // namespace cairn::api::ollama
