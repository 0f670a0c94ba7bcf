/// The lines that the log has of each request: one when it comes, one when it is over (--log-requests).
#pragma once

#include "api/telemetry/request_record.h"

namespace cairn::api {

/// How much of a path, a model's or a key's name a line shows.
inline constexpr size_t kLoggedNameBytesMax = 160;

void log_request_in(const RequestFacts& facts);
/// `facts` of an exchange that has ended.
void log_request_out(const RequestFacts& facts);

}  // namespace cairn::api
