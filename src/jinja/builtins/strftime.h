/// Formats dates as Python's datetime.strftime does.
#pragma once

#include <ctime>
#include <string_view>

#include "jinja/value/budget.h"

namespace cairn::jinja {

/// Writes `now` in local time. Month and day names are English; an unknown code is left unchanged.
Result<void> put_time(Buffer& out, const Piece& pattern, std::time_t now);

}  // namespace cairn::jinja
