/// GET and POST /v1/power: how much of the time the engines compute.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "api/exchange.h"

namespace cairn::api {

/// What is to change.
struct PowerChange {
  std::optional<int32_t> percent{};
  std::optional<int32_t> on_battery{};
};
/// {"percent": 50, "percent_on_battery": 25}, of which at least one is there.
Result<PowerChange> parse_power(RequestContext& context, const nlohmann::ordered_json& body);

/// -> {"percent", "percent_on_battery", "on_battery", "effective_percent"}.
Result<void> handle_power(Exchange& exchange);
/// The same after the change.
Result<void> handle_set_power(Exchange& exchange);

}  // namespace cairn::api
