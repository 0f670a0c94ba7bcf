/// POST /api/create and /api/copy: models that are made of others (loader/catalog/made_model.h).
#pragma once

#include <string>

#include "api/exchange.h"
#include "api/model_list.h"
#include "loader/catalog/made_model.h"

namespace cairn::api::ollama {

struct CreateRequest {
  loader::MadeModel made;  ///< its base as the request names it
  bool has_messages = false;
  bool has_adapters = false;
  bool stream = true;
};
/// Errors name their field.
Result<CreateRequest> parse_create(RequestContext& context, const nlohmann::ordered_json& body);

struct CopyRequest {
  std::string source;
  std::string destination;
};
/// Errors name their field.
Result<CopyRequest> parse_copy(RequestContext& context, const nlohmann::ordered_json& body);

/// Lines of progress, and `success`. Takes the place of a model that was made under that name before. 404: there is no
/// such base. 403 where pulls are not allowed.
Result<void> handle_create(Exchange& exchange);
/// 200 without a body. 403 and 404 as above.
Result<void> handle_copy(Exchange& exchange);

/// The model as a Modelfile, and its parameters as lines of one.
std::string modelfile_of(const ListedModel& model);
std::string parameters_text(const ListedModel& model);

}  // namespace cairn::api::ollama
