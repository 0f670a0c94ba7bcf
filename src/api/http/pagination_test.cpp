#include "api/http/pagination.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cairn::api {
namespace {

const std::vector<std::string> kIds = {"a", "b", "c", "d", "e"};

/// "bc+" for a page of b and c with more behind it, or the path of the field that is wrong.
std::string page(const std::string& query, std::string_view before = "before_id",
                 std::span<const std::string> ids = kIds) {
  net::HttpRequest http;
  http.query = query;
  const auto found = page_of(http, ids, {.limit_max = 100, .after = "after_id", .before = before});
  if (!found) return found.error().at;
  std::string text;
  for (size_t i = found->begin; i < found->end; ++i) text += ids[i];
  return text + (found->has_more ? "+" : "");
}

TEST(Page, IsWhatTheQueryAsksFor) {
  EXPECT_EQ(page(""), "abcde");
  EXPECT_EQ(page("limit=2"), "ab+");
  EXPECT_EQ(page("limit=5"), "abcde");
  EXPECT_EQ(page("limit=2&after_id=b"), "cd+");
  EXPECT_EQ(page("limit=2&after_id=c"), "de");
  EXPECT_EQ(page("after_id=e"), "");
  EXPECT_EQ(page("limit=2&before_id=d"), "bc+");
  EXPECT_EQ(page("limit=2&before_id=c"), "ab");
  EXPECT_EQ(page("before_id=a"), "");
  EXPECT_EQ(page("", "before_id", {}), "");
  const std::vector<std::string> many(kPageLimitMissing + 1, "x");
  EXPECT_EQ(page("", "before_id", many), std::string(kPageLimitMissing, 'x') + "+");
}

TEST(Page, ErrorsNameTheField) {
  for (const std::string limit : {"0", "101", "-1", "x", "2x", "", "99999999999"})
    EXPECT_EQ(page("limit=" + limit), "limit");
  EXPECT_EQ(page("after_id=f"), "after_id");
  EXPECT_EQ(page("before_id=f"), "before_id");
  EXPECT_EQ(page("after_id=a&before_id=c"), "before_id");
  EXPECT_EQ(page("before_id=f", ""), "abcde");  // where there is no such field
}

TEST(Page, FieldsOfNothingAreNull) {
  EXPECT_EQ(page_fields({1, 3, true}, kIds).dump(), R"({"first_id":"b","last_id":"c","has_more":true})");
  EXPECT_EQ(page_fields({5, 5, false}, kIds).dump(), R"({"first_id":null,"last_id":null,"has_more":false})");
}

}  // namespace
}  // namespace cairn::api
