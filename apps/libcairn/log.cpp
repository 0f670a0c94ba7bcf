// The log of the library: silent, until a program asks for it.
#include <mutex>
#include <string>

#include "base/log.h"
#include "base/recent_log.h"
#include "cairn.h"

namespace {

struct Listener {
  std::mutex mutex;
  cairn_log_function function = nullptr;
  void* user = nullptr;
};

Listener& listener() {
  static auto& instance = *new Listener;  // lines may come until the process ends
  return instance;
}

cairn_log_level level_of(cairn::LogLevel level) { return static_cast<cairn_log_level>(static_cast<int>(level)); }
static_assert(static_cast<int>(cairn::LogLevel::kDebug) == CAIRN_LOG_DEBUG);
static_assert(static_cast<int>(cairn::LogLevel::kInfo) == CAIRN_LOG_INFO);
static_assert(static_cast<int>(cairn::LogLevel::kWarning) == CAIRN_LOG_WARNING);
static_assert(static_cast<int>(cairn::LogLevel::kError) == CAIRN_LOG_ERROR);
static_assert(static_cast<int>(cairn::LogLevel::kOff) == CAIRN_LOG_OFF);

void hear(cairn::LogLevel level, std::string_view text) {
  Listener& to = listener();
  const std::string line(text);
  const std::lock_guard lock(to.mutex);
  if (to.function != nullptr && cairn::log_enabled(level)) to.function(level_of(level), line.c_str(), to.user);
}

/// Silence from the moment the library is loaded.
[[maybe_unused]] const bool silent = [] {
  cairn::set_log_level(cairn::LogLevel::kOff);
  cairn::set_log_sink(hear);
  return true;
}();

}  // namespace

void cairn_set_log(cairn_log_level level, cairn_log_function function, void* user) {
  Listener& to = listener();
  const std::lock_guard lock(to.mutex);
  to.function = function;
  to.user = user;
  const bool off = function == nullptr || level < CAIRN_LOG_DEBUG || level >= CAIRN_LOG_OFF;
  cairn::set_log_level(off ? cairn::LogLevel::kOff : static_cast<cairn::LogLevel>(static_cast<int>(level)));
}
