/// GET /metrics: all that the server counts, for Prometheus.
#pragma once

#include <string>

#include "api/exchange.h"
#include "loader/model_scope.h"

namespace cairn::api {

class Service;

/// The text of the metrics of the models in `scope`. Server's thread.
std::string prometheus_text(Service& service, const loader::ModelScope& scope);

Result<void> handle_prometheus(Exchange& exchange);

}  // namespace cairn::api
