#include "api/store/recent_responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

ordered_json recent_item(const std::string& id, size_t bytes = 10) {
  return {{"id", id}, {"text", std::string(bytes, 'x')}};
}

StoredResponse recent(const std::string& id, const std::string& previous = "", size_t bytes = 10) {
  return {.tenant = "me",
          .previous_id = previous,
          .response = {{"id", id}, {"output", ordered_json::array({recent_item("out_" + id, bytes)})}},
          .input = ordered_json::array({recent_item("in_" + id, bytes)})};
}

std::vector<std::string> ids_of(const Result<ordered_json>& items) {
  std::vector<std::string> found;
  if (items)
    for (const auto& one : *items) found.push_back(one["id"]);
  return found;
}

TEST(RecentResponses, AreFoundByTheirTenantAlone) {
  const auto store = make_recent_responses();
  ASSERT_TRUE(store->put(recent("a")).has_value());
  EXPECT_EQ(store->response("me", "a").value()["id"], "a");
  EXPECT_THAT(ids_of(store->input("me", "a")), testing::ElementsAre("in_a"));
  size_t bytes = 0;
  EXPECT_EQ(store->item("me", "in_a", bytes).value()["id"], "in_a");
  EXPECT_EQ(store->item("me", "out_a", bytes).value()["id"], "out_a");
  EXPECT_GT(bytes, 0u);
  for (const auto& missing : {store->response("you", "a"), store->input("me", "b"), store->history("you", "a"),
                              store->item("you", "in_a", bytes), store->item("me", "in_b", bytes)}) {
    ASSERT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().code, Code::kNotFound);
    EXPECT_THAT(missing.error().message, HasSubstr("--store"));
  }
  EXPECT_FALSE(store->remove("you", "a").has_value());
  EXPECT_TRUE(store->remove("me", "a").has_value());
  EXPECT_FALSE(store->response("me", "a").has_value());
  EXPECT_FALSE(store->item("me", "in_a", bytes).has_value());
}

TEST(RecentResponses, AConversationIsTheItemsOfAllItsResponses) {
  const auto store = make_recent_responses({.chain_max = 3});
  ASSERT_TRUE(store->put(recent("a")).has_value());
  ASSERT_TRUE(store->put(recent("b", "a")).has_value());
  ASSERT_TRUE(store->put(recent("c", "b")).has_value());
  EXPECT_THAT(ids_of(store->history("me", "c")),
              testing::ElementsAre("in_a", "out_a", "in_b", "out_b", "in_c", "out_c"));
  ASSERT_TRUE(store->put(recent("d", "c")).has_value());
  EXPECT_EQ(store->history("me", "d").error().code, Code::kTooLarge);
  ASSERT_TRUE(store->remove("me", "a").has_value());
  EXPECT_THAT(store->history("me", "b").error().message, HasSubstr("\"a\""));
}

TEST(RecentResponses, TheLeastRecentlyUsedGoFirst) {
  const auto store = make_recent_responses({.responses_max = 2});
  ASSERT_TRUE(store->put(recent("a")).has_value());
  ASSERT_TRUE(store->put(recent("b")).has_value());
  EXPECT_TRUE(store->response("me", "a").has_value());
  ASSERT_TRUE(store->put(recent("c")).has_value());
  EXPECT_FALSE(store->response("me", "b").has_value());
  EXPECT_TRUE(store->response("me", "a").has_value());
  EXPECT_TRUE(store->response("me", "c").has_value());
}

TEST(RecentResponses, TheirBytesHaveABound) {
  const auto store = make_recent_responses({.bytes_max = 10'000});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(store->put(recent(std::to_string(i), "", 1'000)).has_value());
  int found = 0;
  for (int i = 0; i < 50; ++i) found += store->response("me", std::to_string(i)).has_value() ? 1 : 0;
  EXPECT_GE(found, 2);
  EXPECT_LE(found, 4);
  const auto large = store->put(recent("large", "", 6'000));
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, Code::kTooLarge);
}

TEST(RecentResponses, AnItemIsThatOfTheNewestResponseThatHasIt) {
  const auto store = make_recent_responses();
  StoredResponse first = recent("a"), second = recent("b");
  first.input = ordered_json::array({recent_item("msg", 1)});
  second.input = ordered_json::array({recent_item("msg", 2)});
  ASSERT_TRUE(store->put(first).has_value());
  ASSERT_TRUE(store->put(second).has_value());
  ASSERT_TRUE(store->remove("me", "a").has_value());
  size_t bytes = 0;
  EXPECT_EQ(store->item("me", "msg", bytes).value()["text"], "xx");
}

}  // namespace
}  // namespace cairn::api
