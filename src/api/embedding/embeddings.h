/// What OpenAI's and Ollama's endpoints for embeddings share.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "loader/registry.h"

namespace cairn::api {

using EmbeddingInput = std::variant<std::string, std::vector<TokenId>>;
struct EmbeddingsRequest {
  std::string model;
  std::vector<EmbeddingInput> inputs;
  bool is_array = false;   ///< errors name inputs by their number
  int32_t dimensions = 0;  ///< 0: all
  bool base64 = false;
  bool truncate = false;
};

/// Whether the model gives such vectors, and not too many of them.
Result<void> check_embeddings(const LoadedModel& model, const EmbeddingsRequest& request);
/// The tokens of an input that is called `path`.
Result<std::vector<TokenId>> embedding_prompt(const LoadedModel& model, EmbeddingInput input, bool truncate,
                                              const std::string& path);
/// The first `dimensions` of the vector (0: all), brought to length 1. Error: kInternal (there is no such vector).
Result<std::vector<float>> normalised(std::vector<float> embedding, int32_t dimensions);

}  // namespace cairn::api
