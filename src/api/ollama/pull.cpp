#include "api/ollama/pull.h"

#include "api/ollama/models.h"
#include "api/serialization/json_text.h"
#include "api/service.h"
#include "base/log.h"
#include "base/system/random_id.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "loader/catalog/made_model.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

/// A model of the folder is pulled again, which brings its newest files; one that is served from elsewhere is there.
bool is_served_from_elsewhere(const Exchange& exchange, const std::string& model) {
  if (!find_model_exactly(exchange, model)) return false;
  const auto name = hub::parse_model_name(model);
  return !name || !hub::find_pulled(*name, exchange.service.pulls().settings()->options.folder, 0);
}

Result<void> answer_served(Exchange& exchange, bool stream) {
  if (!stream) return send_json(exchange, {{"status", "success"}});
  std::string lines = "{\"status\":\"pulling manifest\"}\n{\"status\":\"success\"}\n";
  add_to_first_event(lines, exchange.context.wanted_warnings());
  exchange.response->send(200, "application/x-ndjson", std::move(lines));
  return {};
}

}  // namespace

bool is_forbidden(Exchange& exchange, std::string_view what) {
  if (exchange.service.pulls().settings() != nullptr) return false;
  const std::string message = fmt::format(
      "this server does not let clients {} models: it was started with --no-pull, or is reached from other machines "
      "and was started without --pull",
      what);
  exchange.response->send(403, "application/json", error_body(403, message, exchange.errors));
  return true;
}

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

Result<void> handle_pull(Exchange& exchange) {
  if (is_forbidden(exchange, "pull")) return {};
  CAIRN_TRY(const PullRequest request, read_body(exchange, parse_pull));
  if (is_served_from_elsewhere(exchange, request.model)) return answer_served(exchange, request.stream);
  auto name = hub::parse_model_name(request.model);
  if (!name) return fail_at("model", name.error().code, "{}", name.error().message);
  return exchange.service.pulls().start(std::move(*name), request.stream, exchange.context.wanted_warnings(),
                                        exchange.response);
}

Result<void> handle_delete(Exchange& exchange) {
  if (is_forbidden(exchange, "delete")) return {};
  CAIRN_TRY(const std::string model, read_body(exchange, parse_delete));
  const PullSettings& settings = *exchange.service.pulls().settings();
  CAIRN_TRY(const bool made, loader::remove_made(settings.options.folder, model));
  if (made) {
    log_info("{} has deleted {}, which was made of another model", logged_id(exchange.request.id), printable(model));
    if (settings.on_removed) settings.on_removed(settings.options.folder);
    exchange.response->send(200, "text/plain; charset=utf-8", "");
    return {};
  }
  const auto name = hub::parse_model_name(model);
  if (!name) return fail_at("model", name.error().code, "{}", name.error().message);
  const auto removed = hub::remove_pulled(*name, settings.options.folder);
  if (!removed && removed.error().code == Code::kNotFound)
    return fail(Code::kNotFound, "model '{}' not found in {}: only models that were pulled or made are deleted",
                printable(model), settings.options.folder.string());
  if (!removed) return std::unexpected(removed.error());
  log_info("{} has deleted {}, {}", logged_id(exchange.request.id), name->text(), bytes_text(removed->bytes));
  if (settings.on_removed)
    for (const auto& path : removed->files) settings.on_removed(path);
  exchange.response->send(200, "text/plain; charset=utf-8", "");
  return {};
}

}  // namespace cairn::api::ollama
