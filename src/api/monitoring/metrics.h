/// GET /metrics: all that the server counts, for Prometheus.
#pragma once

#include <string>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Both tell of the models that the scope shows. Server's thread.
std::string prometheus_metrics(Service& service, const ModelScope& scope);
void send_prometheus(Service& service, const ModelScope& scope, net::HttpResponse& response);

}  // namespace cairn::api
