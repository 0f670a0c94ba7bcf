/// POST /v1/rerank: which documents go with a query, as Jina's and Cohere's APIs have it, for models that were trained
/// to judge that: encoders and decoders whose file has a head for it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/service.h"
#include "base/error.h"
#include "net/http_server.h"

namespace cairn::api {

struct RerankRequest {
  std::string model;
  std::string query;
  std::vector<std::string> documents;
  size_t top_n = 0;  ///< 0: all
  bool return_documents = false;
  bool truncate = false;
};
Result<RerankRequest> parse_rerank(const nlohmann::ordered_json& body);

/// Thread: the server's.
void handle_rerank(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api
