/// POST /v1/rerank: which documents go with a query, as the APIs of Jina, Cohere and Text Embeddings Inference (TEI)
/// have it, for models that were trained to judge that: encoders and decoders whose file has a head for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/exchange.h"

namespace cairn::api {

/// Bytes of a request's documents, each with the query.
inline constexpr size_t kRerankBytesMax = 64 << 20;

struct RerankRequest {
  std::string model;
  std::string query;
  std::vector<std::string> documents;
  std::vector<std::string> document_keys;  ///< what a document has besides its text, as a JSON object; empty: nothing
  size_t top_n = 0;                        ///< 0: all
  bool return_documents = false;
  bool truncate = false;                ///< documents that are too long are cut
  std::optional<int32_t> tokens_max{};  ///< as read_prompt_cut() has it, of a document with the query
  size_t document_tokens_max = 0;       ///< more of a document is cut; 0: all
  bool tei = false;                     ///< came as `texts`, and is answered as a list
  bool raw_scores = false;              ///< not brought to 0 to 1
};
Result<RerankRequest> parse_rerank(RequestContext& context, const nlohmann::ordered_json& body);

Result<void> handle_rerank(Exchange& exchange);

}  // namespace cairn::api
