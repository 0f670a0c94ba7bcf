/// Endpoints of the server whose answers are no streams, called by a thread that waits for the answer.
#pragma once

#include <memory>
#include <string>

#include "api/exchange.h"
#include "base/error.h"
#include "model.h"

namespace cairn::library {

using Endpoint = Result<void> (*)(api::Exchange& exchange);

/// The body with which the endpoint answers the request. What the server does on its own thread is done here on the
/// calling one. Errors: what it answers in place of that.
Result<std::string> call(Model& model, Endpoint endpoint, std::string request);

}  // namespace cairn::library
