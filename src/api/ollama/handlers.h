/// POST /api/chat and /api/generate.
#pragma once

#include <memory>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::ollama {

void handle_chat(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
void handle_generate(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::ollama
