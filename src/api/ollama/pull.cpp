#include "api/ollama/pull.h"

#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/models/model_pulls.h"
#include "api/ollama/models.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"
#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

void forbid(const net::HttpRequest& request, net::HttpResponse& response) {
  const std::string message = fmt::format(
      "this server does not let clients {} models: it was started with --no-pull, or is reached from other machines "
      "and "
      "was started without --pull",
      request.method == "DELETE" ? "delete" : "pull");
  response.send(403, "application/json", error_body(403, message, ErrorFormat::kOllama));
}

/// A model of the folder is pulled again, which brings its newest files; one that is served from elsewhere is there.
bool is_served_from_elsewhere(Service& service, const std::string& model, const ModelScope& scope) {
  if (!find_model_exactly(service.registry(), model, scope)) return false;
  const auto name = hub::parse_model_name(model);
  return !name || !hub::find_pulled(*name, service.pulls().settings()->options.folder, 0);
}

void answer_served(bool stream, std::string_view warnings, net::HttpResponse& response) {
  if (!stream) return send_json(response, {{"status", "success"}}, warnings);
  std::string lines = "{\"status\":\"pulling manifest\"}\n{\"status\":\"success\"}\n";
  add_to_first_event(lines, warnings);
  response.send(200, "application/x-ndjson", std::move(lines));
}

Result<void> pull(Service& service, RequestContext& context, const net::HttpRequest& http,
                  const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(const PullRequest request, parse_pull(context, body));
  if (is_served_from_elsewhere(service, request.model, context.scope())) {
    answer_served(request.stream, context.wanted_warnings(), *response);
    return {};
  }
  auto name = hub::parse_model_name(request.model);
  if (!name) return fail_at("model", name.error().code, "{}", name.error().message);
  return service.pulls().start(std::move(*name), request.stream, context.wanted_warnings(), response);
}

Result<void> remove(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(const std::string model, parse_delete(context, body));
  const PullSettings& settings = *service.pulls().settings();
  const auto name = hub::parse_model_name(model);
  if (!name) return fail_at("model", name.error().code, "{}", name.error().message);
  const auto removed = hub::remove_pulled(*name, settings.options.folder);
  if (!removed && removed.error().code == Code::kNotFound)
    return fail(Code::kNotFound, "model '{}' not found in {}: only models that were pulled are deleted",
                printable(model), settings.options.folder.string());
  if (!removed) return std::unexpected(removed.error());
  log_info("{} has deleted {}, {}", http.id, name->text(), bytes_text(removed->bytes));
  if (settings.on_removed)
    for (const auto& path : removed->files) settings.on_removed(path);
  return {};
}

}  // namespace

Result<PullRequest> parse_pull(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  PullRequest request;
  const std::string old_name = fields.string("name", "");
  request.model = fields.string("model", old_name);
  if (request.model.empty()) fields.reject("model", "is missing");
  request.stream = fields.boolean("stream", true);
  fields.accept("insecure", "the hubs' addresses are the server's own");
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

Result<std::string> parse_delete(RequestContext& context, const ordered_json& body) {
  RequestFields fields(context, body);
  const std::string old_name = fields.string("name", "");
  std::string model = fields.string("model", old_name);
  if (model.empty()) fields.reject("model", "is missing");
  CAIRN_TRY_VOID(fields.finish());
  return model;
}

void handle_pull(Service& service, RequestContext& context, const net::HttpRequest& request,
                 std::shared_ptr<net::HttpResponse> response) {
  if (service.pulls().settings() == nullptr) return forbid(request, *response);
  if (const auto done = pull(service, context, request, response); !done)
    send_error(*response, done.error(), ErrorFormat::kOllama);
}

void handle_delete(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response) {
  if (service.pulls().settings() == nullptr) return forbid(request, *response);
  if (const auto done = remove(service, context, request); !done)
    return send_error(*response, done.error(), ErrorFormat::kOllama);
  response->send(200, "text/plain; charset=utf-8", "");
}

}  // namespace cairn::api::ollama
