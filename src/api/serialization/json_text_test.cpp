#include "api/serialization/json_text.h"

#include <gtest/gtest.h>

namespace cairn::api {
namespace {

TEST(JsonText, WarningsAreTheLastMemberOfTheAnswer) {
  EXPECT_EQ(with_warnings(R"({"a":{"b":1}})", R"(["w"])"), R"({"a":{"b":1},"warnings":["w"]})");
  EXPECT_EQ(with_warnings("{}", "[]"), R"({"warnings":[]})");
  EXPECT_EQ(with_warnings(R"([{"a":1},{"a":2}])", "[]"), R"([{"a":1},{"a":2,"warnings":[]}])");
  EXPECT_EQ(with_warnings(R"({"a":1})", ""), R"({"a":1})") << "nobody asks for them";
}

TEST(JsonText, WarningsOfAStreamAreInItsFirstEvent) {
  std::string events = "event: message_start\ndata: {\"a\":{}}\n\ndata: {\"b\":1}\n\n";
  EXPECT_TRUE(add_to_first_event(events, R"(["w"])"));
  EXPECT_EQ(events, "event: message_start\ndata: {\"a\":{},\"warnings\":[\"w\"]}\n\ndata: {\"b\":1}\n\n");
  std::string lines = "{\"a\":\"}\"}\n{\"b\":1}\n";
  EXPECT_TRUE(add_to_first_event(lines, "[]"));
  EXPECT_EQ(lines, "{\"a\":\"}\",\"warnings\":[]}\n{\"b\":1}\n");
  std::string none = "data: [DONE]\n\n";
  EXPECT_FALSE(add_to_first_event(none, "[]"));
  EXPECT_EQ(none, "data: [DONE]\n\n");
}

}  // namespace
}  // namespace cairn::api
