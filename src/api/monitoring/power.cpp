#include "api/monitoring/power.h"

#include <nlohmann/json.hpp>

#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"
#include "api/service.h"
#include "base/log.h"

namespace cairn::api {
namespace {

Result<engine::PowerLimit*> limit_of(const Exchange& exchange) {
  if (engine::PowerLimit* const limit = exchange.service.options().power.get()) return limit;
  return fail(Code::kUnsupported, "the engines of this server have no limit that could be changed");
}

nlohmann::ordered_json to_json(const engine::PowerLimit& limit) {
  return {{"percent", limit.percent()},
          {"percent_on_battery", limit.on_battery_percent()},
          {"on_battery", limit.on_battery()},
          {"effective_percent", limit.effective_percent()}};
}

}  // namespace

Result<PowerChange> parse_power(RequestContext& context, const nlohmann::ordered_json& body) {
  RequestFields fields(context, body);
  const auto percent = [&](std::string_view name) -> std::optional<int32_t> {
    const auto value = fields.optional_integer(name, engine::kPowerPercentMin, engine::kPowerPercentMax);
    return value ? std::optional(static_cast<int32_t>(*value)) : std::nullopt;
  };
  const PowerChange change{.percent = percent("percent"), .on_battery = percent("percent_on_battery")};
  if (!change.percent && !change.on_battery) fields.reject("percent", "is missing");
  CAIRN_TRY_VOID(fields.finish());
  return change;
}

Result<void> handle_power(Exchange& exchange) {
  CAIRN_TRY(const engine::PowerLimit* limit, limit_of(exchange));
  return send_json(exchange, to_json(*limit));
}

Result<void> handle_set_power(Exchange& exchange) {
  CAIRN_TRY(const PowerChange change, read_body(exchange, parse_power));
  CAIRN_TRY(engine::PowerLimit * limit, limit_of(exchange));
  if (change.percent) limit->set_percent(*change.percent);
  if (change.on_battery) limit->set_on_battery_percent(*change.on_battery);
  log_info("the engines compute {} % of the time now, and {} % on battery", limit->percent(),
           limit->on_battery_percent());
  return send_json(exchange, to_json(*limit));
}

}  // namespace cairn::api
