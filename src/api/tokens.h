/// POST /tokenize, /detokenize and /apply-template: what a prompt becomes, without running it.
#pragma once

#include "net/http_server.h"
#include "registry/registry.h"

namespace cairn::api {

/// {"content" or "prompt": text, "add_special": false, "parse_special": true, "with_pieces": false} -> {"tokens",
/// "count"}.
void handle_tokenize(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response);
/// {"tokens": [ids]} -> {"content"}.
void handle_detokenize(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response);
/// {"messages": [...]} -> {"prompt"}.
void handle_apply_template(const Registry& registry, const net::HttpRequest& request, net::HttpResponse& response);

}  // namespace cairn::api
