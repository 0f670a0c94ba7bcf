#include "api/exchange.h"

#include <utility>

#include "api/serialization/json_text.h"

namespace cairn::api {

void answer(Exchange& exchange, FunctionRef<Result<void>(Exchange& exchange)> handler) {
  if (const auto done = handler(exchange); !done) send_error(*exchange.response, done.error(), exchange.errors);
}

Result<void> send_json(Exchange& exchange, const nlohmann::ordered_json& value) {
  return send_json_text(exchange, dump(value));
}

Result<void> send_json_text(Exchange& exchange, std::string body) {
  exchange.response->send(200, "application/json", with_warnings(std::move(body), exchange.context.wanted_warnings()));
  return {};
}

}  // namespace cairn::api
