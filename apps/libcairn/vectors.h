/// Answers that are numbers: vectors of texts, and logits.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "model.h"

namespace cairn::library {

/// Row after row.
struct Rows {
  std::vector<float> values;
  size_t rows = 0;
  size_t columns = 0;
};

/// The vectors of the texts of a request to /v1/embeddings, in their order. Errors: those of the server.
Result<Rows> embed(Model& model, const std::string& request);

/// The logits behind each of the tokens, or behind the last one alone. Errors: those of the engine; kUnsupported, the
/// model is an encoder.
Result<Rows> logits(Model& model, std::vector<TokenId> tokens, bool last_only);

}  // namespace cairn::library
