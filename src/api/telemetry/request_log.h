/// The line that the log has of a request once it is over, at RequestFacts::log_level (--log-requests). In JSON there
/// is one when it comes as well; in text that one is for debugging.
#pragma once

#include "api/telemetry/request_record.h"

namespace cairn::api {

/// How much of a path, a model's or a key's name a line shows.
inline constexpr size_t kLoggedNameBytesMax = 160;

void log_request_in(const RequestFacts& facts);
/// `facts` of an exchange that has ended.
void log_request_out(const RequestFacts& facts);

}  // namespace cairn::api
