/// POST /v1/embeddings, and the same for the clients of two other servers: /embedding and /embeddings of llama.cpp's,
/// /embed of Text Embeddings Inference (TEI).
///
/// Source: OpenAI API reference, "Create embeddings". Beyond it: `truncate`, ids and texts in one input, and arrays of
/// any length (kEmbedTextsMax).
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "api/embedding/embeddings.h"
#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::openai {

Result<EmbeddingsRequest> parse_embeddings(RequestContext& context, const nlohmann::ordered_json& body,
                                           EmbeddingShape shape = EmbeddingShape::kOpenAi);
Result<EmbeddingsRequest> parse_tei_embed(RequestContext& context, const nlohmann::ordered_json& body);
/// Little-endian float32, as OpenAI's clients decode it.
std::string base64_of(std::span<const float> values);

/// Called on a worker.
void handle_embeddings(Service& service, RequestContext& context, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response);
void handle_native_embeddings(Service& service, RequestContext& context, const net::HttpRequest& request,
                              std::shared_ptr<net::HttpResponse> response);
void handle_tei_embed(Service& service, RequestContext& context, const net::HttpRequest& request,
                      std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::openai
