/// Times as protocols write them.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::api {

int64_t unix_seconds_now();
/// "2026-11-22T08:30:00.123456Z".
std::string rfc3339(int64_t unix_microseconds);
std::string rfc3339_now();

}  // namespace cairn::api
