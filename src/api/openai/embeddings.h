/// POST /v1/embeddings.
///
/// Source: OpenAI API reference, "Create embeddings". Beyond it: `truncate`, and arrays of any length (kEmbedTextsMax).
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "api/embedding/embeddings.h"
#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::openai {

Result<EmbeddingsRequest> parse_embeddings(const nlohmann::ordered_json& body);
/// Little-endian float32, as OpenAI's clients decode it.
std::string base64_of(std::span<const float> values);

/// Thread: the server's.
void handle_embeddings(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::openai
