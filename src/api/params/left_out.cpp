#include "api/params/left_out.h"

#include <fmt/core.h>

#include "api/params/request_context.h"
#include "base/text/printable.h"

namespace cairn::api {

std::string left_out_text(std::string_view endpoint, const std::set<std::string>& types) {
  std::string names;
  size_t named = 0;
  for (const std::string& type : types) {
    if (named == kLeftOutNamedMax) break;
    names += (named++ == 0 ? "" : ", ") + printable(type);
  }
  if (types.size() > named) names += fmt::format(" and {} more", types.size() - named);
  return fmt::format("{}: left out what this server does not run: {}", endpoint, names);
}

void log_left_out(RequestContext& context, std::string_view endpoint, const std::set<std::string>& types) {
  if (types.empty()) return;
  const std::string text = left_out_text(endpoint, types);
  context.note_ignored(text, text);
}

}  // namespace cairn::api
