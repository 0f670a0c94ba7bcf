/// One line of the log for each request that failed by our fault.
#pragma once

#include <string_view>

namespace cairn::net {

/// Lines in kFailurePeriodS seconds; of more, the next line tells how many there were.
inline constexpr int kFailureLinesMax = 10;
inline constexpr int kFailurePeriodS = 10;
/// Of what the client was told.
inline constexpr size_t kFailureBytesShown = 400;

/// Whether an answer of that status has a line: 500 and what is above, but 503, which says "not now" and is not our
/// fault.
bool is_failure(int status);
/// `request_id` is what the answer's X-Request-Id says, `told` what the client was told. Thread-safe.
void log_failure(std::string_view request_id, int status, std::string_view told);

}  // namespace cairn::net
