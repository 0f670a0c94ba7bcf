/// POST /v1/responses: the request's body -> what the templates and the engine take.
///
/// Source: OpenAI API reference, "Responses". docs/api/responses.md lists every field.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "api/chat/request.h"
#include "api/responses/tools.h"
#include "base/error.h"

namespace cairn::api {
class RequestContext;
}  // namespace cairn::api

namespace cairn::api::responses {

/// kNotFound: nothing has the id.
Result<nlohmann::ordered_json> nothing_kept(const std::string& id);

/// What a request may refer to by id. Errors: kNotFound and others, without `at`.
struct StoredItems {
  /// Input and output items of a response and of all before it, oldest first.
  std::function<Result<nlohmann::ordered_json>(const std::string& response_id)> history = nothing_kept;
  std::function<Result<nlohmann::ordered_json>(const std::string& item_id)> item = nothing_kept;
};

struct ResponsesRequest {
  ChatRequest chat;
  /// Fields of the response object that repeat the request, in the order in which they are shown; no model.
  nlohmann::ordered_json echo;
  nlohmann::ordered_json input;  ///< the request's own items, whole and each with an id, to be stored
  std::string previous_id;
  bool store = true;
  bool encrypted_reasoning = false;  ///< asked for; clients then look for the field
  bool raw_reasoning = false;        ///< thinking is sent as it is, not in the place of its summary
  bool return_progress = false;
  bool timings_per_token = false;
  OfferedTools offered;            ///< what the functions that the model may call are in the protocol
  std::set<std::string> left_out;  ///< types of tools, items and parts that have no part in the prompt
};

Result<ResponsesRequest> parse_responses(RequestContext& context, const nlohmann::ordered_json& body,
                                         const StoredItems& stored);

}  // namespace cairn::api::responses
