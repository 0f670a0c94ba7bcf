/// What a request has that this server leaves out, in its log and in the answer's warnings.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cairn::api {

class RequestContext;

/// One line names so many of them.
inline constexpr size_t kLeftOutNamedMax = 5;

/// The line's text, with each type as printable() shows it.
std::string left_out_text(std::string_view endpoint, const std::set<std::string>& types);
/// A note (request_context.h) of the types, or none if there are no types.
void log_left_out(RequestContext& context, std::string_view endpoint, const std::set<std::string>& types);

}  // namespace cairn::api
