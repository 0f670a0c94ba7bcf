/// Writes one line to the log for each request that failed by the server's fault.
#pragma once

#include <string_view>

namespace cairn::net {

/// Maximum lines in kFailurePeriodS seconds; if there are more failures, the next line gives their number.
inline constexpr int kFailureLinesMax = 10;
inline constexpr int kFailurePeriodS = 10;
/// Bytes of the answer's text that a line shows.
inline constexpr size_t kFailureBytesShown = 400;

/// Whether an answer of that status gets a line: 500 and above, except 503, which means "not now" and is not the
/// server's fault.
bool is_failure(int status);
/// `request_id` is the answer's X-Request-Id, `told` the text that the client got. Thread-safe.
void log_failure(std::string_view request_id, int status, std::string_view told);

}  // namespace cairn::net
