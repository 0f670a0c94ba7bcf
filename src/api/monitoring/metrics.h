/// GET /metrics: all that the server counts, for Prometheus.
#pragma once

#include <string>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Server's thread.
std::string prometheus_metrics(Service& service);
void send_prometheus(Service& service, net::HttpResponse& response);

}  // namespace cairn::api
