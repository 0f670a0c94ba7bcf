#include "api/request_handler.h"

#include <memory>
#include <string>
#include <utility>

#include "api/access/gate.h"
#include "api/access/principal.h"
#include "api/errors.h"
#include "api/http/client_request_id.h"
#include "api/http/kept_streams.h"
#include "api/http/tenant.h"
#include "api/params/request_context.h"
#include "api/routes.h"
#include "api/telemetry/request_record.h"
#include "api/web/page.h"
#include "base/log.h"
#include "base/text/printable.h"
#include "net/http/content_coding.h"

namespace cairn::api {
namespace {

void answer_unknown(const net::HttpRequest& request, net::HttpResponse& response, ErrorFormat format) {
  const std::string message =
      fmt::format("there is no {} {}; the nearest are {}", cut_text(request.method, kMethodBytesMax),
                  cut_text(request.path, kEchoBytesMax), nearest_endpoints(request.path));
  response.send(404, "application/json", error_body(404, message, format));
}

/// A stream to a client that names a conversation goes on without it (kept_streams.h). Errors: no such name is kept.
Result<void> keep_stream(Exchange& exchange, Protocol protocol) {
  const std::string_view id = exchange.request.header("x-conversation-id");
  // What asks for something that has an id is no conversation.
  if (id.empty() || !exchange.context.id().empty() || exchange.request.method != "POST") return {};
  if (id.size() > kConversationIdBytesMax)
    return fail(Code::kInvalidArgument, "X-Conversation-Id has more than {} bytes", kConversationIdBytesMax);
  exchange.response =
      exchange.service.kept_streams().keep({tenant_of(exchange.request), std::string(id)}, std::move(exchange.response),
                                           {exchange.errors, protocol == Protocol::kResponses});
  return {};
}

void refuse_coding(const net::HttpRequest& request, net::HttpResponse& response, ErrorFormat format) {
  const std::string message = fmt::format("bodies with the Content-Encoding {} are not taken; {} are",
                                          printable(request.header("content-encoding")), net::kContentCodings);
  response.send(415, "application/json", error_body(415, message, format),
                {{"Accept-Encoding", std::string(net::kContentCodings)}});
}

void call(Service& service, const Route& route, net::HttpRequest request, std::shared_ptr<net::HttpResponse> response) {
  const Endpoint& endpoint = *route.endpoint;
  RequestContext context({.id = route.id,
                          .scope = principal_of(request).models(),
                          .strict_fields = service.options().strict_fields,
                          .record = std::static_pointer_cast<RequestRecord>(request.context)});
  Exchange exchange{service, std::move(request), std::move(response), std::move(context), endpoint.errors};
  if (endpoint.runs_on == RunsOn::kServer) return answer(exchange, endpoint.handle);
  if (endpoint.at_once != nullptr) {
    const auto answered = endpoint.at_once(exchange);
    if (!answered) return send_error(*exchange.response, answered.error(), exchange.errors);
    if (*answered) return;
  }
  if (const auto kept = keep_stream(exchange, endpoint.protocol); !kept)
    return send_error(*exchange.response, kept.error(), route.errors);
  service.hand_over({.exchange = std::move(exchange),
                     .errors = route.errors,
                     .needs = endpoint.needs,
                     .protocol = endpoint.protocol,
                     .handle = endpoint.handle});
}

void handle(Service& service, const Route& route, net::HttpRequest request,
            std::shared_ptr<net::HttpResponse> response) {
  RequestRecord& record = *std::static_pointer_cast<RequestRecord>(request.context);
  const Telemetry& telemetry = service.telemetry();
  // Whoever needs a key sees the page first, which asks for it.
  const web::PageFile* file = service.options().page ? web::asked_file(request) : nullptr;
  if (file != nullptr) {
    telemetry.let_in_quietly(record);
    return web::send_file(*file, request, *response);
  }
  if (Access* access = service.access()) {
    response = let_in(*access, request, std::move(response), route.access, route.errors);
    if (response == nullptr) return;
    if (const std::string& key = principal_of(request).name(); !key.empty()) record.asked_by(key);
  }
  // Probes come every second, and refusals, which have no line at all, as often as a stranger likes.
  if (route.access == AccessRule::kOpen) {
    telemetry.let_in_quietly(record);
  } else {
    telemetry.let_in(record, route.endpoint == nullptr ? LogLevel::kInfo : route.endpoint->log_level);
  }
  const auto client_id = client_request_id(request);
  if (!client_id) return send_error(*response, client_id.error(), route.errors);
  record.called(*client_id);
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (service.stopping() && !reads) return send_error(*response, server_stops(), route.errors);
  if (service.loading() && (route.endpoint == nullptr || route.endpoint->needs.start)) {
    return send_error(*response, {Code::kUnavailable, "the model is still being loaded; try again in a moment", {}},
                      route.errors);
  }
  if (!net::content_coding(request.header("content-encoding"))) return refuse_coding(request, *response, route.errors);
  if (route.endpoint != nullptr) return call(service, route, std::move(request), std::move(response));
  if (!route.methods.empty()) return send_method_not_allowed(*response, request, route.methods, route.errors);
  answer_unknown(request, *response, route.errors);
}

}  // namespace

net::HttpHandler make_handler(Service& service) {
  return [&service](net::HttpRequest request, std::shared_ptr<net::HttpResponse> response) {
    const Route route = route_of(request);
    const bool checks_keys = service.access() != nullptr && service.access()->has_keys();
    request.context = service.telemetry().begin(request, route.protocol, *response, checks_keys);
    answer_throws(*response, route.errors, [&] { handle(service, route, std::move(request), response); });
  };
}

net::HttpBodyCheck make_body_check(Service& service) {
  return [&service](const net::HttpRequest& head) { return service.access()->may_send(head, route_of(head).access); };
}

}  // namespace cairn::api
