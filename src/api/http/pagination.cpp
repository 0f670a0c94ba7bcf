#include "api/http/pagination.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

Result<size_t> limit_of(const net::HttpRequest& http, int limit_max) {
  const auto text = http.query_value("limit");
  if (!text) return kPageLimitMissing;
  int limit = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
  if (error != std::errc() || end != text->data() + text->size() || limit < 1 || limit > limit_max)
    return fail_at("limit", Code::kInvalidArgument, "limit must be from 1 to {}", limit_max);
  return static_cast<size_t>(limit);
}

// Where the id that the query names stands in the list; nullopt: it names none.
Result<std::optional<size_t>> place_of(const net::HttpRequest& http, std::span<const std::string> ids,
                                       std::string_view name) {
  const auto id = name.empty() ? std::nullopt : http.query_value(name);
  if (!id) return std::nullopt;
  const auto found = std::ranges::find(ids, *id);
  if (found == ids.end()) return fail_at(std::string(name), Code::kNotFound, "{} names nothing of this list", name);
  return static_cast<size_t>(found - ids.begin());
}

}  // namespace

Result<Page> page_of(const net::HttpRequest& http, std::span<const std::string> ids, const PaginationRules& rules) {
  CAIRN_TRY(const size_t limit, limit_of(http, rules.limit_max));
  CAIRN_TRY(const auto after, place_of(http, ids, rules.after));
  CAIRN_TRY(const auto before, place_of(http, ids, rules.before));
  if (after && before) {
    return fail_at(std::string(rules.before), Code::kInvalidArgument, "{} and {} are both there: give one of them",
                   rules.before, rules.after);
  }
  if (before) {
    const size_t begin = *before - std::min(*before, limit);
    return Page{begin, *before, begin > 0};
  }
  const size_t begin = after ? *after + 1 : 0;
  const size_t end = begin + std::min(limit, ids.size() - begin);
  return Page{begin, end, end < ids.size()};
}

ordered_json page_fields(const Page& page, std::span<const std::string> ids) {
  const bool empty = page.begin == page.end;
  return {{"first_id", empty ? ordered_json(nullptr) : ordered_json(ids[page.begin])},
          {"last_id", empty ? ordered_json(nullptr) : ordered_json(ids[page.end - 1])},
          {"has_more", page.has_more}};
}

}  // namespace cairn::api
