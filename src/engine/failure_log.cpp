#include "engine/failure_log.h"

#include <new>
#include <string>
#include <utility>

#include "base/log.h"

namespace cairn {

// Short enough to lie in the string itself.
Error out_of_memory() noexcept { return {Code::kOutOfMemory, "out of memory", {}}; }

Error copy_of(const Error& error) noexcept try { return error; } catch (...) {
  return out_of_memory();
}

Error thrown(const std::exception& exception) noexcept try {
  return {Code::kInternal, fmt::format("an exception that nobody expected: {}", exception.what()), {}};
} catch (...) {
  return out_of_memory();
}

bool FailureLog::log(int64_t now_ns, std::string_view request_id, const Error& error) noexcept try {
  if (logged_ns_ >= 0 && now_ns - logged_ns_ < std::chrono::nanoseconds(kFailureLogInterval).count()) {
    ++unlogged_;
    return false;
  }
  const std::string others =
      unlogged_ > 0 ? fmt::format(" ({} more have failed since the last such line)", unlogged_) : std::string();
  log_error("request {} failed: {}{}", request_id.empty() ? "without an id" : request_id, error.text(), others);
  logged_ns_ = now_ns;
  unlogged_ = 0;
  return true;
} catch (...) {
  ++unlogged_;
  return false;
}

}  // namespace cairn
