// The endpoints of streams that go on when their client has gone (http/kept_streams.h).
#include <charconv>
#include <set>
#include <string>
#include <vector>

#include "api/http/tenant.h"
#include "api/llama_cpp/handlers.h"
#include "api/service.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;

/// Conversations of a request, which are looked up on the server's thread.
constexpr size_t kLookupIdsMax = 1'024;

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

Result<std::vector<std::string>> parse_ids(RequestContext&, const ordered_json& body) {
  const auto list = body.find("conversation_ids");
  if (list == body.end() || !list->is_array())
    return fail_at("conversation_ids", Code::kInvalidArgument, "must be an array of ids");
  std::set<std::string> ids;
  for (const ordered_json& id : *list) {
    if (id.is_string() && id != "") ids.insert(id.get<std::string>());
    if (ids.size() > kLookupIdsMax)
      return fail_at("conversation_ids", Code::kTooLarge, "has more than {} ids: ask for fewer at once", kLookupIdsMax);
  }
  return std::vector<std::string>(ids.begin(), ids.end());
}

}  // namespace

Result<void> handle_kept_stream(Exchange& exchange) {
  CAIRN_TRY(const KeptStreams::Key key, key_of(exchange.request));
  CAIRN_TRY(const size_t from, offset_of(exchange.request));
  return exchange.service.kept_streams().follow(key, from, exchange.response);
}

Result<void> handle_remove_stream(Exchange& exchange) {
  CAIRN_TRY(KeptStreams::Key key, key_of(exchange.request));
  exchange.response->post([&service = exchange.service, key = std::move(key), response = exchange.response] {
    service.kept_streams().remove(key);
    constexpr int kNoContent = 204;
    response->send(kNoContent, "application/json", {});
  });
  return {};
}

Result<void> handle_find_streams(Exchange& exchange) {
  CAIRN_TRY(auto ids, read_body(exchange, parse_ids));
  exchange.response->post(
      [&service = exchange.service, tenant = tenant_of(exchange.request), ids = std::move(ids),
       response = exchange.response] { send_json(*response, service.kept_streams().list(tenant, ids)); });
  return {};
}

}  // namespace cairn::api::llama_cpp
