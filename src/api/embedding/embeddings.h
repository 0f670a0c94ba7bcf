/// What OpenAI's and Ollama's endpoints for embeddings share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/engine.h"
#include "loader/loaded_model.h"
#include "net/http/http_server.h"

namespace cairn::api {

class RequestContext;
class RequestFields;

/// A text; token ids; or pieces of both, one behind the other.
using EmbeddingPieces = std::vector<std::variant<std::string, TokenId>>;
using EmbeddingInput = std::variant<std::string, std::vector<TokenId>, EmbeddingPieces>;
/// What the answer looks like.
enum class EmbeddingShape {
  kOpenAi,
  kLlamaCpp,  ///< [{"index": 0, "embedding": [[...]]}]
  kTei,       ///< [[...]], as Text Embeddings Inference has it
};
struct EmbeddingsRequest {
  std::string model;
  std::vector<EmbeddingInput> inputs;
  std::string field = "input";  ///< of the request, which has the inputs
  bool is_array = false;        ///< errors name inputs by their number
  int32_t dimensions = 0;       ///< 0: all
  bool base64 = false;
  bool truncate = false;                ///< a text that is too long is cut
  std::optional<int32_t> tokens_max{};  ///< as read_prompt_cut() has it
  bool normalise = true;
  EmbeddingShape shape = EmbeddingShape::kOpenAi;

  /// What errors call an input: "input", or "input[2]" of an array.
  std::string path(size_t i) const { return is_array ? fmt::format("{}[{}]", field, i) : field; }
};

/// Refuses what other servers take for a part of the text or for another vector, which is not had here.
void refuse_embedding_fields(RequestFields& fields);
/// TEI's `truncation_direction`: texts are cut at their end alone.
void check_truncation_direction(RequestFields& fields);
/// Whether the model gives such vectors, and not too many of them.
Result<void> check_embeddings(const loader::LoadedModel& model, const EmbeddingsRequest& request);
/// The tokens of an input that is called `path`, cut at its end to `tokens_max` if it is set, which is told.
Result<std::vector<TokenId>> embedding_prompt(const loader::LoadedModel& model, EmbeddingInput input,
                                              std::optional<size_t> tokens_max, const std::string& path,
                                              RequestContext& context);
/// What the requests to the engine have in common: whose they are, the pooling, and the priority, which is lower for
/// many texts.
engine::GenerateRequest embedding_request(const loader::LoadedModel& model, const net::HttpRequest& http, size_t texts);
/// The first `dimensions` of the vector (0: all), brought to length 1. Error: kInternal (there is no such vector).
Result<std::vector<float>> normalised(std::vector<float> embedding, int32_t dimensions);
/// "[0.5,-0.25]": each number as the shortest text that is read back as the same float.
std::string vector_json(std::span<const float> values);

}  // namespace cairn::api
