/// POST /v1/embeddings.
///
/// Source: OpenAI API reference, "Create embeddings". Beyond it: `truncate`, and arrays of any length (kEmbedTextsMax).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "api/service.h"
#include "base/error.h"
#include "base/ids.h"
#include "engine/engine.h"
#include "net/http/http_server.h"

namespace cairn::api::openai {

using EmbeddingInput = std::variant<std::string, std::vector<TokenId>>;
struct EmbeddingsRequest {
  std::string model;
  std::vector<EmbeddingInput> inputs;
  bool is_array = false;   ///< errors name inputs by their number
  int32_t dimensions = 0;  ///< 0: all
  bool base64 = false;
  bool truncate = false;
};
Result<EmbeddingsRequest> parse_embeddings(const nlohmann::ordered_json& body);

/// Whether the model gives such vectors, and not too many of them.
Result<void> check_embeddings(const LoadedModel& model, const EmbeddingsRequest& request);
/// The tokens of an input that is called `path`.
Result<std::vector<TokenId>> embedding_prompt(const LoadedModel& model, EmbeddingInput input, bool truncate,
                                              const std::string& path);
/// The first `dimensions` of the vector (0: all), brought to length 1. Error: kInternal (there is no such vector).
Result<std::vector<float>> normalised(std::vector<float> embedding, int32_t dimensions);
/// Little-endian float32, as OpenAI's clients decode it.
std::string base64_of(std::span<const float> values);

/// Thread: the server's.
void handle_embeddings(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::openai
