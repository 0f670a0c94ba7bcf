/// The gate through which every HTTP request comes: what Access refuses is answered here, and answers tell clients what
/// their limits leave.
#pragma once

#include <memory>

#include "api/access/access.h"
#include "api/errors.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// Sets the request's owner, and gives back the response for what handles it; null if the request was refused and
/// answered. `rule`: of the endpoint that is asked. The request counts as running until the response is let go. The
/// server's thread.
std::shared_ptr<net::HttpResponse> let_in(Access& access, net::HttpRequest& request,
                                          std::shared_ptr<net::HttpResponse> response, AccessRule rule,
                                          ErrorFormat format);

/// "17ms", "2s", "6m0s": how OpenAI's x-ratelimit-reset-* write a time.
std::string reset_text(std::chrono::milliseconds time);

}  // namespace cairn::api
