/// Ollama's endpoints about itself and its models: GET /, /api/tags, /api/ps and /api/version, POST /api/show, and
/// those that would change which models there are.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::ollama {

inline constexpr size_t kArrayShownMax = 16;  ///< elements of a metadata array that /api/show has without `verbose`

struct ShowRequest {
  std::string model;
  bool verbose = false;  ///< arrays of the metadata whole
};
/// POST /api/show. Errors name their field.
Result<ShowRequest> parse_show(const nlohmann::ordered_json& body);

/// GET /: clients look here whether a server is running.
void handle_root(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
void handle_tags(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
void handle_ps(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
void handle_show(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
void handle_version(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
/// pull, push, create, copy, delete: models are files that the server was started with.
void handle_management(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);

/// As Registry::find; "NAME:latest" is NAME unless a model is called so.
Result<LoadedModel*> find_model(const Registry& registry, std::string_view name);
/// 7.6B, 656K: as Ollama writes a number of parameters.
std::string human_number(int64_t number);
/// Whether the model's template speaks of thinking.
bool thinks(const LoadedModel& model);

}  // namespace cairn::api::ollama
