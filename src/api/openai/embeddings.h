/// POST /v1/embeddings, and the same for the clients of two other servers: /embedding and /embeddings of llama.cpp's,
/// /embed of Text Embeddings Inference (TEI).
///
/// Source: OpenAI API reference, "Create embeddings". Beyond it: `truncate`, ids and texts in one input, and arrays of
/// any length (kEmbedTextsMax).
#pragma once

#include <span>
#include <string>

#include "api/embedding/embeddings.h"
#include "api/exchange.h"

namespace cairn::api::openai {

Result<EmbeddingsRequest> parse_embeddings(RequestContext& context, const nlohmann::ordered_json& body,
                                           EmbeddingShape shape = EmbeddingShape::kOpenAi);
Result<EmbeddingsRequest> parse_tei_embed(RequestContext& context, const nlohmann::ordered_json& body);
/// Little-endian float32, as OpenAI's clients decode it.
std::string base64_of(std::span<const float> values);

Result<void> handle_embeddings(Exchange& exchange);
Result<void> handle_native_embeddings(Exchange& exchange);
Result<void> handle_tei_embed(Exchange& exchange);

}  // namespace cairn::api::openai
