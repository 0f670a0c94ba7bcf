/// An HTTP request and its answer: what the handler of an endpoint is given.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "api/errors.h"
#include "api/params/request_context.h"
#include "api/params/request_fields.h"
#include "base/error.h"
#include "base/function_ref.h"
#include "net/http/http_server.h"

namespace cairn::api {

class Service;

/// It goes with the request from thread to thread, and ends when the handler has returned: what answers later keeps
/// the response, and copies of what else it needs.
struct Exchange {
  Service& service;
  net::HttpRequest request;
  std::shared_ptr<net::HttpResponse> response;
  RequestContext context;
  ErrorFormat errors{};  ///< of what the handler finds wrong
};

/// Calls the handler. The Error that it returns is the answer.
void answer(Exchange& exchange, FunctionRef<Result<void>(Exchange& exchange)> handler);

/// Answers 200 with the value, and with the warnings that the request asks for. No Error is returned, so that a handler
/// may end with the call.
Result<void> send_json(Exchange& exchange, const nlohmann::ordered_json& value);
/// The same for text that is JSON already.
Result<void> send_json_text(Exchange& exchange, std::string body);

/// What `parse` makes of the request's body, which must be a JSON object, and of `more`.
template <class Parse, class... More>
std::invoke_result_t<Parse, RequestContext&, const nlohmann::ordered_json&, const More&...> read_body(
    Exchange& exchange, const Parse& parse, const More&... more) {
  CAIRN_TRY(const nlohmann::ordered_json body, parse_object(exchange.request.body));
  return parse(exchange.context, body, more...);
}

}  // namespace cairn::api
