/// Ollama's endpoints about itself and its models: GET /, /api/tags, /api/ps and /api/version, POST /api/show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/exchange.h"
#include "api/model_list.h"
#include "loader/model_facts.h"
#include "loader/registry.h"

namespace cairn::api::ollama {

inline constexpr size_t kArrayShownMax = 16;  ///< elements of a metadata array that /api/show has without `verbose`

struct ShowRequest {
  std::string model;
  bool verbose = false;  ///< arrays of the metadata whole
};
/// POST /api/show. Errors name their field.
Result<ShowRequest> parse_show(RequestContext& context, const nlohmann::ordered_json& body);

/// What the model can be asked for, in the words of Ollama's API.
std::vector<std::string_view> capabilities(const ListedModel& model, const loader::ModelFacts& facts);

/// What GET /api/version says: the version of Ollama whose protocol these endpoints speak. Clients compare it: Codex
/// wants 0.13.4 or more, VS Code 0.6.4. Cairn's own version is in GET /props and in `cairn --version`.
inline constexpr std::string_view kOllamaVersion = "0.30.0";

Result<void> handle_tags(Exchange& exchange);
Result<void> handle_ps(Exchange& exchange);
Result<void> handle_show(Exchange& exchange);
Result<void> handle_version(Exchange& exchange);
/// Refused: nothing is sent to a registry.
Result<void> handle_push(Exchange& exchange);

/// The same as Service::find_model and Registry::find_exactly; "NAME:latest" is NAME unless a model is called so.
Result<loader::SharedModel> find_model(const Exchange& exchange, std::string_view name);
Result<loader::SharedModel> find_model_exactly(const Exchange& exchange, std::string_view name);
/// The name by which an answer calls the model: the request's if it is one of the model's.
std::string shown_name(const Exchange& exchange, std::string_view name, const loader::LoadedModel& model);

}  // namespace cairn::api::ollama
