/// The part of a list that a query asks for, in OpenAI's and in Anthropic's names.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/http/http_server.h"

namespace cairn::api {

inline constexpr size_t kPageLimitMissing = 20;

struct PaginationRules {
  int limit_max;
  std::string_view after;   ///< the query's name for the id before the page
  std::string_view before;  ///< and for the one behind it; empty: there is none
};
struct Page {
  size_t begin = 0;
  size_t end = 0;
  bool has_more = false;  ///< in the direction asked for
};

/// `ids`: of the whole list. Errors name the query's field: a limit out of range, an id that is not in the list, both
/// directions at once.
Result<Page> page_of(const net::HttpRequest& http, std::span<const std::string> ids, const PaginationRules& rules);
/// {"first_id", "last_id", "has_more"}; ids are null of a page with nothing on it.
nlohmann::ordered_json page_fields(const Page& page, std::span<const std::string> ids);

}  // namespace cairn::api
