#include "api/responses/handlers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/access/principal.h"
#include "api/chat/run.h"
#include "api/errors.h"
#include "api/http/pagination.h"
#include "api/http/tenant.h"
#include "api/params/left_out.h"
#include "api/params/request_fields.h"
#include "api/responses/compact.h"
#include "api/responses/request.h"
#include "api/responses/serializer.h"
#include "api/serialization/json_text.h"
#include "base/log.h"
#include "base/text/json.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

/// Of stored responses that are read for the items that a request refers to.
constexpr size_t kReferencedBytesMax = 32 << 20;
/// About what items take as a document, for each byte of their text.
constexpr int64_t kDocumentBytesPerByte = 4;

StoredItems stored_items(ResponseStore& store, const std::string& tenant) {
  return {.history = [&store, tenant](const std::string& id) { return store.history(tenant, id); },
          .item = [&store, tenant, bytes = size_t{0}](const std::string& id) mutable -> Result<ordered_json> {
            if (bytes > kReferencedBytesMax)
              return fail(Code::kTooLarge, "is one reference too many: {} bytes have been read for those before it",
                          bytes);
            return store.item(tenant, id, bytes);
          }};
}

ResponseOptions response_options(const ChatStart& start, ResponseStore& store, const std::string& tenant,
                                 ResponsesRequest& request, bool logprobs) {
  ResponseOptions options;
  options.id = start.id;
  options.model = start.model.name;
  options.stream = start.stream;
  options.echo = std::move(request.echo);
  options.tenant = tenant;
  options.store = request.store;
  options.encrypted_reasoning = request.encrypted_reasoning;
  options.raw_reasoning = request.raw_reasoning;
  options.return_progress = request.return_progress;
  options.timings_per_token = request.timings_per_token;
  options.tools = std::move(request.offered);
  if (logprobs) options.tokenizer = start.model.tokenizer.get();
  if (!request.store) return options;
  options.keep = [&store, stored = StoredResponse{tenant, request.previous_id, {}, std::move(request.input)}](
                     const ordered_json& response) mutable {
    stored.response = response;
    const auto done = store.put(stored);
    if (!done) log_error("a response was not stored: {}", done.error().text());
    return done.has_value();
  };
  return options;
}

Result<void> create(Service& service, RequestContext& context, const net::HttpRequest& http,
                    const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  const std::string tenant = tenant_of(http);
  ResponseStore& store = service.response_store();
  CAIRN_TRY(ResponsesRequest request, parse_responses(context, body, stored_items(store, tenant)));
  log_left_out(context, "/v1/responses", request.left_out);
  const bool logprobs = request.chat.generate.sampling.logprobs;
  if (service.stores_on_disk() && principal_of(http).no_disk()) request.store = false;
  request.chat.stored = request.store;
  CAIRN_TRY(const JsonMeasure measure, measure_json(http.body));
  request.chat.kept_bytes = 2 * static_cast<int64_t>(measure.bytes);  // what is echoed, and the input to be stored
  return run_chat(service, context, std::move(request.chat), "resp_", http, response, [&](const ChatStart& start) {
    return std::make_unique<ResponsesSerializer>(response_options(start, store, tenant, request, logprobs),
                                                 service.running_responses());
  });
}

Result<int32_t> count_input(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY(const ordered_json body, parse_object(http.body));
  CAIRN_TRY(ResponsesRequest request,
            parse_responses(context, body, stored_items(service.response_store(), tenant_of(http))));
  return count_chat_tokens(service, context, std::move(request.chat), http);
}

Result<void> compact(Service& service, RequestContext& context, const net::HttpRequest& http,
                     const std::shared_ptr<net::HttpResponse>& response) {
  CAIRN_TRY(ordered_json body, parse_object(http.body));
  body["store"] = true;  // nothing is stored; but the items are wanted
  const StoredItems stored = stored_items(service.response_store(), tenant_of(http));
  CAIRN_TRY(ResponsesRequest request, parse_responses(context, body, stored));
  log_left_out(context, "/v1/responses/compact", request.left_out);
  ordered_json items = ordered_json::array();
  if (!request.previous_id.empty()) {
    CAIRN_TRY(items, stored.history(request.previous_id));
  }
  for (auto& item : request.input) items.push_back(std::move(item));
  ask_for_summary(request.chat);
  request.chat.kept_bytes = kDocumentBytesPerByte * static_cast<int64_t>(dump(items).size());
  return run_chat(service, context, std::move(request.chat), "resp_", http, response, [&](const ChatStart& start) {
    return std::make_unique<CompactionSerializer>(start.id, std::move(items));
  });
}

/// Null: no response of that id is being written.
RunningResponse* find_running(Service& service, RequestContext& context, const net::HttpRequest& http) {
  return service.running_responses().find(tenant_of(http), context.id());
}

Result<void> refuse_stream(const net::HttpRequest& http) {
  if (http.query_value("stream") != "true") return {};
  return fail_at("stream", Code::kUnsupported, "a stored response has no stream; leave stream out");
}

Result<ordered_json> stored_response(Service& service, RequestContext& context, const net::HttpRequest& http) {
  return service.response_store().response(tenant_of(http), context.id());
}

Result<ordered_json> retrieve(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY_VOID(refuse_stream(http));
  return stored_response(service, context, http);
}

Result<ordered_json> remove(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY_VOID(refuse_stream(http));
  const std::string& id = context.id();
  CAIRN_TRY_VOID(service.response_store().remove(tenant_of(http), id));
  return ordered_json{{"id", id}, {"object", "response"}, {"deleted", true}};
}

/// `limit` items of `items` in `order`, from the one after `after`.
Result<ordered_json> list_page(const ordered_json& items, const net::HttpRequest& http) {
  const std::string order = http.query_value("order").value_or("desc");
  if (order != "asc" && order != "desc")
    return fail_at("order", Code::kInvalidArgument, "order must be \"asc\" or \"desc\"");
  std::vector<const ordered_json*> sorted;
  for (const auto& item : items) sorted.push_back(&item);
  if (order == "desc") std::ranges::reverse(sorted);
  std::vector<std::string> ids;
  for (const auto* item : sorted) ids.push_back(item->at("id").get<std::string>());  // which all stored items have
  CAIRN_TRY(const Page page, page_of(http, ids, {.limit_max = 100, .after = "after", .before = {}}));
  ordered_json list = {{"object", "list"}, {"data", ordered_json::array()}};
  for (size_t i = page.begin; i < page.end; ++i) list["data"].push_back(*sorted[i]);
  list.update(page_fields(page, ids));
  return list;
}

Result<ordered_json> input_items(Service& service, RequestContext& context, const net::HttpRequest& http) {
  CAIRN_TRY(const ordered_json items, service.response_store().input(tenant_of(http), context.id()));
  return list_page(items, http);
}

void reply(net::HttpResponse& response, const Result<ordered_json>& result) {
  result ? send_json(response, *result) : send_error(response, result.error());
}

}  // namespace

void handle_create(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = create(service, context, request, response); !done) send_error(*response, done.error());
}

void handle_input_tokens(Service& service, RequestContext& context, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response) {
  const auto tokens = count_input(service, context, request);
  if (!tokens) return send_error(*response, tokens.error());
  send_json(*response, {{"object", "response.input_tokens"}, {"input_tokens", *tokens}}, context.wanted_warnings());
}

void handle_compact(Service& service, RequestContext& context, const net::HttpRequest& request,
                    std::shared_ptr<net::HttpResponse> response) {
  if (const auto done = compact(service, context, request, response); !done) send_error(*response, done.error());
}

bool answer_running(Service& service, RequestContext& context, const net::HttpRequest& request,
                    net::HttpResponse& response) {
  RunningResponse* running = find_running(service, context, request);
  if (running == nullptr || !running->stored() || request.query_value("stream") == "true") return false;
  send_json(response, running->now());
  return true;
}

bool refuse_to_remove_running(Service& service, RequestContext& context, const net::HttpRequest& request,
                              net::HttpResponse& response) {
  if (find_running(service, context, request) == nullptr) return false;
  const std::string& id = context.id();
  send_error(response,
             {Code::kInvalidArgument,
              fmt::format("the response {0} is not finished; cancel it first: POST /v1/responses/{0}/cancel", id),
              {}});
  return true;
}

bool cancel_running(Service& service, RequestContext& context, const net::HttpRequest& request,
                    net::HttpResponse& response) {
  RunningResponse* running = find_running(service, context, request);
  if (running == nullptr) return false;
  send_json(response, running->cancel());
  return true;
}

void handle_retrieve(Service& service, RequestContext& context, const net::HttpRequest& request,
                     std::shared_ptr<net::HttpResponse> response) {
  reply(*response, retrieve(service, context, request));
}

void handle_remove(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response) {
  reply(*response, remove(service, context, request));
}

void handle_cancel(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response) {
  reply(*response, stored_response(service, context, request));
}

void handle_input_items(Service& service, RequestContext& context, const net::HttpRequest& request,
                        std::shared_ptr<net::HttpResponse> response) {
  reply(*response, input_items(service, context, request));
}

}  // namespace cairn::api::responses
