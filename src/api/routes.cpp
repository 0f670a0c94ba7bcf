#include "api/routes.h"

#include <nlohmann/json.hpp>
#include <string>

#include "api/access/gate.h"
#include "api/access/principal.h"
#include "api/anthropic/handlers.h"
#include "api/embedding/rerank.h"
#include "api/errors.h"
#include "api/http/client_request_id.h"
#include "api/http/kept_streams.h"
#include "api/http/tenant.h"
#include "api/llama_cpp/handlers.h"
#include "api/models/model_list.h"
#include "api/ollama/embed.h"
#include "api/ollama/handlers.h"
#include "api/ollama/models.h"
#include "api/ollama/pull.h"
#include "api/openai/embeddings.h"
#include "api/openai/handlers.h"
#include "api/responses/handlers.h"
#include "api/serialization/json_text.h"
#include "api/stats.h"
#include "api/telemetry/metrics.h"
#include "api/telemetry/request_record.h"
#include "api/tokenize_endpoints.h"
#include "api/web/page.h"
#include "base/log.h"
#include "base/text/printable.h"
#include "loader/model_scope.h"
#include "net/http/content_coding.h"

namespace cairn::api {
namespace {

struct Route {
  std::string_view method;
  std::string_view path;
  void (*handle)(Service&, const net::HttpRequest&, std::shared_ptr<net::HttpResponse>);
};

constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kMessagesPath = "/v1/messages";

/// `id`: empty for the list.
void handle_model(Service& service, const net::HttpRequest& request, std::string_view id, net::HttpResponse& response) {
  if (anthropic::speaks_anthropic(request)) {
    return anthropic::handle_models(service, request, id, response);
  }
  openai::handle_models(service, id, response);
}
void handle_models(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
  handle_model(service, request, "", *response);
}

/// Whether requests are answered: for load balancers, which ask no further once the server begins to stop.
void handle_ready(Service& service, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
  if (service.loading() || service.stopping()) {
    const char* state = service.stopping() ? "stopping" : "loading";
    return response->send(503, "application/json", dump({{"status", state}}), {{"Retry-After", "1"}});
  }
  send_json(*response, {{"status", "ready"}});
}

void handle_health(Service&, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
  send_json(*response, {{"status", "ok"}});
}

constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", openai::handle_chat},
    {"POST", "/v1/completions", openai::handle_completion},
    {"POST", "/v1/messages", anthropic::handle_messages},
    {"POST", "/v1/messages/count_tokens", anthropic::handle_count_tokens},
    {"POST", "/v1/embeddings", openai::handle_embeddings},
    {"POST", "/embedding", openai::handle_native_embeddings},
    {"POST", "/embeddings", openai::handle_native_embeddings},
    {"POST", "/embed", openai::handle_tei_embed},
    {"POST", "/v1/rerank", handle_rerank},
    {"POST", "/rerank", handle_rerank},
    {"POST", "/v1/reranking", handle_rerank},
    {"POST", "/reranking", handle_rerank},
    {"POST", "/v2/rerank", handle_rerank},
    {"POST", "/v1/responses", responses::handle_create},
    {"POST", "/v1/responses/input_tokens", responses::handle_input_tokens},
    {"POST", "/v1/responses/compact", responses::handle_compact},
    {"POST", "/v1/chat/completions/input_tokens", openai::handle_input_tokens},
    {"POST", "/chat/completions/input_tokens", openai::handle_input_tokens},
    {"GET", "/v1/models", handle_models},
    {"GET", "/", web::handle_root},
    {"GET", "/v1/requests",
     [](Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
       service.monitor().handle_requests(request, *response);
     }},
    {"GET", "/v1/metrics/stream",
     [](Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
       service.monitor().handle_stream(request, std::move(response));
     }},
    {"POST", "/v1/models/load", handle_load},
    {"POST", "/v1/models/unload", handle_unload},
    {"POST", "/models/load", handle_load},
    {"POST", "/models/unload", handle_unload},
    {"POST", "/api/chat", ollama::handle_chat},
    {"POST", "/api/generate", ollama::handle_generate},
    {"POST", "/api/embed", ollama::handle_embed},
    {"POST", "/api/embeddings", ollama::handle_embeddings},
    {"GET", "/api/tags", ollama::handle_tags},
    {"GET", "/api/ps", ollama::handle_ps},
    {"POST", "/api/show", ollama::handle_show},
    {"GET", "/api/version", ollama::handle_version},
    {"POST", "/api/pull", ollama::handle_pull},
    {"POST", "/api/push", ollama::handle_management},
    {"POST", "/api/create", ollama::handle_management},
    {"POST", "/api/copy", ollama::handle_management},
    {"DELETE", "/api/delete", ollama::handle_delete},
    {"POST", "/completion", llama_cpp::handle_completion},
    {"POST", "/infill", llama_cpp::handle_infill},
    {"GET", "/props", llama_cpp::handle_props},
    {"GET", "/slots", llama_cpp::handle_slots},
    {"GET", "/lora-adapters", llama_cpp::handle_lora_adapters},
    {"POST", "/lora-adapters", llama_cpp::handle_set_lora_adapters},
    {"POST", "/completions", llama_cpp::handle_completion},
    {"POST", "/responses", responses::handle_create},
    {"POST", "/chat/completions", openai::handle_chat},
    {"GET", "/models", handle_models},
    {"GET", "/health", handle_health},
    {"GET", "/v1/health", handle_health},
    {"GET", "/ready", handle_ready},
    {"GET", "/metrics",
     [](Service& service, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
       handle_prometheus(service, *response);
     }},
    {"GET", "/stats",
     [](Service& service, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
       handle_stats(service.registry(), *response);
     }},
    {"GET", "/v1/metrics",
     [](Service& service, const net::HttpRequest&, std::shared_ptr<net::HttpResponse> response) {
       handle_metrics(service.registry(), *response);
     }},
    {"GET", "/debug/prefix",
     [](Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
       handle_prefix(service.registry(), request, *response);
     }},
    {"GET", "/v1/stream", handle_kept_stream},
    {"DELETE", "/v1/stream", handle_remove_stream},
    {"POST", "/v1/streams/lookup", handle_find_streams},
    {"POST", "/tokenize", handle_tokenize},
    {"POST", "/detokenize", handle_detokenize},
    {"POST", "/apply-template", handle_apply_template},
};

/// What the request's client takes for an error where no endpoint's protocol says so.
ErrorFormat error_format_for(const net::HttpRequest& request) {
  const std::string_view path = request.path;
  if (path.starts_with("/api/")) return ErrorFormat::kOllama;
  const bool messages =
      path.starts_with(kMessagesPath) && (path.size() == kMessagesPath.size() || path[kMessagesPath.size()] == '/');
  return messages || anthropic::speaks_anthropic(request) ? ErrorFormat::kAnthropic : openai_format(path);
}

void handle_unknown(const net::HttpRequest& request, net::HttpResponse& response) {
  std::string known;
  for (const Route& route : kRoutes)
    known += fmt::format("{}{} {}", known.empty() ? "" : ", ", route.method, route.path);
  const std::string message = fmt::format("there is no {} {}; there is {}", cut_text(request.method, kMethodBytesMax),
                                          cut_text(request.path, kEchoBytesMax), known);
  response.send(404, "application/json", error_body(404, message, error_format_for(request)));
}

bool is_health(const net::HttpRequest& request) { return request.path == "/health" || request.path == "/v1/health"; }

/// What is answered instead of beginning anything while the answers in progress have time to end.
void answer_stopping(const net::HttpRequest& request, net::HttpResponse& response) {
  if (!is_health(request)) return send_error(response, server_stops(), error_format_for(request));
  response.send(503, "application/json", dump({{"status", "stopping"}}), {{"Retry-After", "1"}});
}

/// As llama.cpp's server has it, for whoever waits for this one to be ready.
void answer_loading(const net::HttpRequest& request, net::HttpResponse& response) {
  if (!is_health(request)) {
    return send_error(response, {Code::kUnavailable, "the model is still being loaded; try again in a moment", {}},
                      error_format_for(request));
  }
  const nlohmann::ordered_json body = {
      {"error", {{"code", 503}, {"message", "Loading model"}, {"type", "unavailable_error"}}}};
  response.send(503, "application/json", dump(body), {{"Retry-After", "1"}});
}

/// A stream to a client that names a conversation goes on without it (kept_streams.h). Errors: no such name is kept.
Result<void> keep_stream(Service& service, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse>& response) {
  const std::string_view id = request.header("x-conversation-id");
  if (id.empty()) return {};
  if (id.size() > kConversationIdBytesMax)
    return fail(Code::kInvalidArgument, "X-Conversation-Id has more than {} bytes", kConversationIdBytesMax);
  response = service.kept_streams().keep({tenant_of(request), std::string(id)}, std::move(response));
  return {};
}

void refuse_coding(const net::HttpRequest& request, net::HttpResponse& response) {
  const std::string message = fmt::format("bodies with the Content-Encoding {} are not taken; {} are",
                                          printable(request.header("content-encoding")), net::kContentCodings);
  response.send(415, "application/json", error_body(415, message, error_format_for(request)),
                {{"Accept-Encoding", std::string(net::kContentCodings)}});
}

/// What takes time, or may wait for a disk, goes to the workers: bodies, and stored responses.
void handle(Service& service, net::HttpRequest request, std::shared_ptr<net::HttpResponse> response) {
  const ErrorFormat format = error_format_for(request);
  // Whoever needs a key sees the page first, which asks for it.
  if (web::handle_page(service, request, *response)) return;
  if (Access* access = service.access()) {
    response = let_in(*access, request, std::move(response), format);
    if (response == nullptr) return;
    if (const std::string& key = principal_of(request).name(); !key.empty())
      std::static_pointer_cast<RequestRecord>(request.context)->asked_by(key);
  }
  const ModelScope scope(principal_of(request).models());
  const auto client_id = client_request_id(request);
  if (!client_id) return send_error(*response, client_id.error(), format);
  if (!client_id->empty()) log_info("{} from {}: its client calls it \"{}\"", request.id, request.remote, *client_id);
  const bool get = request.method == "GET" || request.method == "HEAD";
  const bool any_time = get && (request.path == "/ready" || request.path == "/metrics");
  if (service.stopping() && (!get || is_health(request))) return answer_stopping(request, *response);
  if (service.loading() && !any_time) return answer_loading(request, *response);
  if (!net::content_coding(request.header("content-encoding"))) return refuse_coding(request, *response);
  std::string methods;
  for (const Route& route : kRoutes) {
    if (route.path != request.path) continue;
    if (route.method != request.method && !(route.method == "GET" && get)) {
      methods += fmt::format("{}{}", methods.empty() ? "" : ", ", route.method);
      continue;
    }
    if (get) return route.handle(service, request, std::move(response));
    if (const auto kept = keep_stream(service, request, response); !kept)
      return send_error(*response, kept.error(), format);
    return service.hand_over(std::move(request), std::move(response), format, route.handle);
  }
  if (!methods.empty()) return send_method_not_allowed(*response, request, methods, format);
  if (request.path.starts_with(kModelPrefix) && request.path.size() > kModelPrefix.size()) {
    if (!get) return send_method_not_allowed(*response, request, "GET", format);
    return handle_model(service, request, std::string_view(request.path).substr(kModelPrefix.size()), *response);
  }
  if (request.path.starts_with(web::kRequestsPrefix) && request.path.ends_with(web::kCancelSuffix)) {
    if (request.method != "POST") return send_method_not_allowed(*response, request, "POST", format);
    std::string_view id = request.path;
    id.remove_prefix(web::kRequestsPrefix.size());
    return service.monitor().handle_cancel(request, id.substr(0, id.size() - web::kCancelSuffix.size()), *response);
  }
  if (request.path.starts_with(responses::kResponsesPrefix)) {
    if (responses::handle_running(service, request, *response)) return;
    return service.hand_over(std::move(request), std::move(response), format, responses::handle_stored);
  }
  if (request.path.starts_with(llama_cpp::kSlotsPrefix)) {
    if (request.method != "POST") return send_method_not_allowed(*response, request, "POST", format);
    return service.hand_over(std::move(request), std::move(response), format, llama_cpp::handle_slot_action);
  }
  handle_unknown(request, *response);
}

}  // namespace

net::HttpHandler make_handler(Service& service) {
  return [&service](net::HttpRequest request, std::shared_ptr<net::HttpResponse> response) {
    request.context = service.telemetry().begin(request, *response);
    const ErrorFormat format = error_format_for(request);
    answer_throws(*response, format, [&] { handle(service, std::move(request), response); });
  };
}

}  // namespace cairn::api
