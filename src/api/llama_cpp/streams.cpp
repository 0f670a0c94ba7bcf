// The endpoints of streams that go on when their client has gone (http/kept_streams.h).
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/http/kept_streams.h"
#include "api/http/tenant.h"
#include "api/llama_cpp/handlers.h"
#include "api/params/request_fields.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;

Result<KeptStreams::Key> key_of(const net::HttpRequest& request) {
  std::string id = request.query_value("conv_id").value_or("");
  if (id.empty()) return fail_at("conv_id", Code::kInvalidArgument, "is missing: which conversation's stream?");
  return KeptStreams::Key{tenant_of(request), std::move(id)};
}

Result<size_t> offset_of(const net::HttpRequest& request) {
  const std::string text = request.query_value("from").value_or("0");
  size_t from = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), from);
  if (error != std::errc() || end != text.data() + text.size())
    return fail_at("from", Code::kInvalidArgument, "must be the number of a byte");
  return from;
}

Result<std::vector<std::string>> ids_of(const net::HttpRequest& request) {
  CAIRN_TRY(const ordered_json body, parse_object(request.body));
  const auto list = body.find("conversation_ids");
  if (list == body.end() || !list->is_array())
    return fail_at("conversation_ids", Code::kInvalidArgument, "must be an array of ids");
  std::vector<std::string> ids;
  for (const ordered_json& id : *list)
    if (id.is_string() && id != "") ids.push_back(id.get<std::string>());
  return ids;
}

Result<void> follow_stream(Service& service, const net::HttpRequest& request,
                           const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const KeptStreams::Key key, key_of(request));
  CAIRN_TRY(const size_t from, offset_of(request));
  return service.kept_streams().follow(key, from, response);
}

}  // namespace

void handle_kept_stream(Service& service, RequestContext&, const net::HttpRequest& request,
                        std::shared_ptr<net::HttpResponse> response) {
  if (const auto followed = follow_stream(service, request, response); !followed)
    send_error(*response, followed.error());
}

void handle_remove_stream(Service& service, RequestContext&, const net::HttpRequest& request,
                          std::shared_ptr<net::HttpResponse> response) {
  auto key = key_of(request);
  if (!key) return send_error(*response, key.error());
  net::HttpResponse& to = *response;
  to.post([&service, key = *std::move(key), response = std::move(response)] {
    service.kept_streams().remove(key);
    constexpr int kNoContent = 204;
    response->send(kNoContent, "application/json", {});
  });
}

void handle_find_streams(Service& service, RequestContext&, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response) {
  auto ids = ids_of(request);
  if (!ids) return send_error(*response, ids.error());
  net::HttpResponse& to = *response;
  to.post([&service, tenant = tenant_of(request), ids = *std::move(ids), response = std::move(response)] {
    send_json(*response, service.kept_streams().list(tenant, ids));
  });
}

}  // namespace cairn::api::llama_cpp
