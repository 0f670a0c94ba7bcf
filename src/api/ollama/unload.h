/// How Ollama's clients unload a model: a request without a prompt that is to keep it loaded for no time.
#pragma once

#include <string>
#include <string_view>

#include "api/model_request.h"
#include "net/http/http_server.h"

namespace cairn::api::ollama {

bool unloads(std::string_view path, const ModelRequest& request);
/// The answer, as a stream of one line if the request wants a stream.
void send_unloaded(std::string_view path, const ModelRequest& request, const std::string& model,
                   net::HttpResponse& response);

}  // namespace cairn::api::ollama
