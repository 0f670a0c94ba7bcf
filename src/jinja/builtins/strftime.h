/// Dates as Python's datetime.strftime writes them.
#pragma once

#include <ctime>
#include <string_view>

#include "jinja/value/budget.h"

namespace cairn::jinja {

/// `now` in local time. Month and day names are English; an unknown code stays as it is.
Result<void> put_time(Buffer& out, const Piece& pattern, std::time_t now);

}  // namespace cairn::jinja
