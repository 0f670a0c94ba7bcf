/// One endpoint of the API as a row: all that is decided of a request before its handler reads it. Each protocol has
/// its list in its endpoints.cpp, and routes.cpp joins them; docs/adding/endpoint.md shows how a row is added.
#pragma once

#include <span>
#include <string_view>

#include "api/access/access.h"
#include "api/exchange.h"
#include "api/models/model_request.h"
#include "api/telemetry/telemetry.h"
#include "base/log.h"

namespace cairn::api {

/// The thread on which a handler is called. What takes time, or may wait for a disk, goes to a worker: bodies, and
/// stored responses.
enum class RunsOn { kServer, kWorker };

/// The constructor has no defaults, so that a row which leaves something out does not compile.
struct Endpoint {
  /// Answers through the exchange's response, now or later. An Error is the answer, in the format of `errors`.
  using Handler = Result<void> (*)(Exchange& exchange);
  /// Called on the server's thread before a worker has the request. True: the request is answered.
  using AtOnce = Result<bool> (*)(Exchange& exchange);

  constexpr Endpoint(std::string_view its_method, std::string_view its_pattern, Protocol its_protocol,
                     ErrorFormat its_errors, Needs what_it_needs, AccessRule its_access, RunsOn where_it_runs,
                     Handler its_handler, AtOnce what_it_tries_first = nullptr)
      : method(its_method),
        pattern(its_pattern),
        protocol(its_protocol),
        errors(its_errors),
        needs(what_it_needs),
        access(its_access),
        runs_on(where_it_runs),
        handle(its_handler),
        at_once(what_it_tries_first) {}

  /// The row, of whose requests the log has lines at debug alone: probes, lists, and what a page asks every moment.
  constexpr Endpoint quiet() const {
    Endpoint row = *this;
    row.log_level = LogLevel::kDebug;
    return row;
  }

  std::string_view method;   ///< "POST"; a GET takes HEAD too
  std::string_view pattern;  ///< a path; in it {id} stands for a part without a slash, {id...} for all the rest
  Protocol protocol;
  ErrorFormat errors;
  Needs needs;
  AccessRule access;
  RunsOn runs_on;
  Handler handle;
  AtOnce at_once;  ///< null: nothing is tried before
  LogLevel log_level = LogLevel::kInfo;
};

/// The lists, each beside its handlers.
std::span<const Endpoint> model_endpoints();
std::span<const Endpoint> monitoring_endpoints();
namespace openai {
std::span<const Endpoint> endpoints();
}
namespace anthropic {
std::span<const Endpoint> endpoints();
}
namespace responses {
std::span<const Endpoint> endpoints();
}
namespace ollama {
std::span<const Endpoint> endpoints();
}
namespace llama_cpp {
std::span<const Endpoint> endpoints();
}

}  // namespace cairn::api
