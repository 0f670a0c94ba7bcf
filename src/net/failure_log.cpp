#include "net/failure_log.h"

#include "base/log.h"
#include "base/system/random_id.h"
#include "base/text/printable.h"

namespace cairn::net {

bool is_failure(int status) { return status >= 500 && status != 503; }

void log_failure(std::string_view request_id, int status, std::string_view told) {
  static LogRate rate(kFailureLinesMax, std::chrono::seconds(kFailurePeriodS));
  int64_t left_out = 0;
  if (!rate.admits(std::chrono::steady_clock::now(), left_out)) return;
  log_error("{} was answered {}: {}{}", logged_id(request_id), status, cut_text(told, kFailureBytesShown),
            left_out == 0 ? "" : fmt::format("; {} failed requests before it have no line", left_out));
}

}  // namespace cairn::net
