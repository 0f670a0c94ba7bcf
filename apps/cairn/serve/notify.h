/// Tells the service manager that started the program how it is (sd_notify(3)'s protocol, without its library).
#pragma once

#include <string_view>

namespace cairn {

/// Sends "READY=1", "STOPPING=1", ... to the socket that NOTIFY_SOCKET names; nothing without one. Never waits.
/// Thread-safe.
void notify_service_manager(std::string_view state);

}  // namespace cairn
