/// GET /metrics: all that the server counts, for Prometheus.
#pragma once

#include "api/exchange.h"

namespace cairn::api {

Result<void> handle_prometheus(Exchange& exchange);

}  // namespace cairn::api
