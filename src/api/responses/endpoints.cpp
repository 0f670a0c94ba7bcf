// The endpoints of OpenAI's Responses API.
#include <algorithm>

#include "api/access/principal.h"
#include "api/chat/run.h"
#include "api/endpoint.h"
#include "api/http/pagination.h"
#include "api/http/tenant.h"
#include "api/params/left_out.h"
#include "api/responses/compact.h"
#include "api/responses/request.h"
#include "api/responses/serializer.h"
#include "api/serialization/json_text.h"
#include "base/log.h"
#include "base/text/json.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

/// Bytes of stored responses that are read for the items that a request refers to.
constexpr size_t kReferencedBytesMax = 32 << 20;
/// About what items take as a document, for each byte of their text.
constexpr int64_t kDocumentBytesPerByte = 4;

StoredItems stored_items(const Exchange& exchange) {
  ResponseStore& store = exchange.service.response_store();
  const std::string tenant = tenant_of(exchange.request);
  return {.history = [&store, tenant](const std::string& id) { return store.history(tenant, id); },
          .item = [&store, tenant, bytes = size_t{0}](const std::string& id) mutable -> Result<ordered_json> {
            if (bytes > kReferencedBytesMax)
              return fail(Code::kTooLarge, "is one reference too many: {} bytes have been read for those before it",
                          bytes);
            return store.item(tenant, id, bytes);
          }};
}

ResponseOptions response_options(const ChatStart& start, const Exchange& exchange, ResponsesRequest& request,
                                 bool logprobs) {
  ResponseOptions options;
  options.id = start.id;
  options.model = start.model.name;
  options.stream = start.stream;
  options.echo = std::move(request.echo);
  options.tenant = tenant_of(exchange.request);
  options.store = request.store;
  options.encrypted_reasoning = request.encrypted_reasoning;
  options.raw_reasoning = request.raw_reasoning;
  options.return_progress = request.return_progress;
  options.timings_per_token = request.timings_per_token;
  options.tools = std::move(request.offered);
  if (logprobs) options.tokenizer = start.model.tokenizer.get();
  if (!request.store) return options;
  options.keep = [&store = exchange.service.response_store(),
                  stored = StoredResponse{options.tenant, request.previous_id, {}, std::move(request.input)}](
                     const ordered_json& response) mutable {
    stored.response = response;
    const auto done = store.put(stored);
    if (!done) log_error("a response was not stored: {}", done.error().text());
    return done.has_value();
  };
  return options;
}

Result<void> handle_create(Exchange& exchange) {
  Service& service = exchange.service;
  CAIRN_TRY(ResponsesRequest request, read_body(exchange, parse_responses, stored_items(exchange)));
  log_left_out(exchange.context, "/v1/responses", request.left_out);
  const bool logprobs = request.chat.generate.sampling.logprobs;
  if (service.stores_on_disk() && principal_of(exchange.request).no_disk()) {
    request.store = false;
    request.echo["store"] = false;
  }
  request.chat.stored = request.store;
  CAIRN_TRY(const JsonMeasure measure, measure_json(exchange.request.body));
  request.chat.kept_bytes = 2 * static_cast<int64_t>(measure.bytes);  // what is echoed, and the input to be stored
  return run_chat(exchange, std::move(request.chat), "resp_", [&](const ChatStart& start) {
    return std::make_unique<ResponsesSerializer>(response_options(start, exchange, request, logprobs),
                                                 service.running_responses());
  });
}

Result<void> handle_count_tokens(Exchange& exchange) {
  CAIRN_TRY(ResponsesRequest request, read_body(exchange, parse_responses, stored_items(exchange)));
  CAIRN_TRY(const int32_t tokens, count_chat_tokens(exchange, std::move(request.chat)));
  return send_json(exchange, {{"object", "response.input_tokens"}, {"input_tokens", tokens}});
}

Result<void> handle_compact(Exchange& exchange) {
  CAIRN_TRY(ordered_json body, parse_object(exchange.request.body));
  body["store"] = true;  // nothing is stored; but the items are wanted
  const StoredItems stored = stored_items(exchange);
  CAIRN_TRY(ResponsesRequest request, parse_responses(exchange.context, body, stored));
  log_left_out(exchange.context, "/v1/responses/compact", request.left_out);
  ordered_json items = ordered_json::array();
  if (!request.previous_id.empty()) {
    CAIRN_TRY(items, stored.history(request.previous_id));
  }
  for (auto& item : request.input) items.push_back(std::move(item));
  ask_for_summary(request.chat);
  request.chat.kept_bytes = kDocumentBytesPerByte * static_cast<int64_t>(dump(items).size());
  return run_chat(exchange, std::move(request.chat), "resp_", [&](const ChatStart& start) {
    return std::make_unique<CompactionSerializer>(start.id, std::move(items));
  });
}

/// Null: no response of that id is being written.
RunningResponse* find_running(const Exchange& exchange) {
  return exchange.service.running_responses().find(tenant_of(exchange.request), exchange.context.id());
}

/// A response that is being written and is to be stored is answered as it is now.
Result<bool> answer_running(Exchange& exchange) {
  RunningResponse* running = find_running(exchange);
  if (running == nullptr || !running->stored() || exchange.request.query_value("stream") == "true") return false;
  send_json(exchange, running->now());
  return true;
}

Result<bool> refuse_to_remove_running(Exchange& exchange) {
  if (find_running(exchange) == nullptr) return false;
  return fail(Code::kInvalidArgument,
              "the response {0} is not finished; cancel it first: POST /v1/responses/{0}/cancel",
              exchange.context.id());
}

Result<bool> cancel_running(Exchange& exchange) {
  RunningResponse* running = find_running(exchange);
  if (running == nullptr) return false;
  send_json(exchange, running->cancel());
  return true;
}

Result<void> refuse_stream(const Exchange& exchange) {
  if (exchange.request.query_value("stream") != "true") return {};
  return fail_at("stream", Code::kUnsupported, "a stored response has no stream; leave stream out");
}

/// A response that is finished, as it is; it is also what a request to cancel it gets.
Result<void> send_stored(Exchange& exchange) {
  CAIRN_TRY(const ordered_json response,
            exchange.service.response_store().response(tenant_of(exchange.request), exchange.context.id()));
  return send_json(exchange, response);
}

Result<void> handle_retrieve(Exchange& exchange) {
  CAIRN_TRY_VOID(refuse_stream(exchange));
  return send_stored(exchange);
}

Result<void> handle_remove(Exchange& exchange) {
  CAIRN_TRY_VOID(refuse_stream(exchange));
  const std::string& id = exchange.context.id();
  CAIRN_TRY_VOID(exchange.service.response_store().remove(tenant_of(exchange.request), id));
  return send_json(exchange, {{"id", id}, {"object", "response"}, {"deleted", true}});
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

Result<void> handle_input_items(Exchange& exchange) {
  CAIRN_TRY(const ordered_json items,
            exchange.service.response_store().input(tenant_of(exchange.request), exchange.context.id()));
  CAIRN_TRY(const ordered_json page, list_page(items, exchange.request));
  return send_json(exchange, page);
}

}  // namespace

std::span<const Endpoint> endpoints() {
  using enum AccessRule;
  using enum RunsOn;
  constexpr auto kProtocol = Protocol::kResponses;
  constexpr auto kOpenAi = ErrorFormat::kOpenAi, kLlamaCpp = ErrorFormat::kLlamaCpp;
  static constexpr Endpoint kRows[] = {
      {"POST", "/v1/responses", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_create},
      {"POST", "/responses", kProtocol, kLlamaCpp, kNeedsChat, kAnyKey, kWorker, handle_create},
      {"POST", "/v1/responses/input_tokens", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_count_tokens},
      {"POST", "/v1/responses/compact", kProtocol, kOpenAi, kNeedsChat, kAnyKey, kWorker, handle_compact},
      {"GET", "/v1/responses/{id}", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kWorker, handle_retrieve, answer_running},
      {"DELETE", "/v1/responses/{id}", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kWorker, handle_remove,
       refuse_to_remove_running},
      {"POST", "/v1/responses/{id}/cancel", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kWorker, send_stored,
       cancel_running},
      {"GET", "/v1/responses/{id}/input_items", kProtocol, kOpenAi, kNeedsStart, kAnyKey, kWorker, handle_input_items},
  };
  return kRows;
}

}  // namespace cairn::api::responses
