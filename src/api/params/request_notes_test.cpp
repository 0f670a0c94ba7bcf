#include "api/params/request_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using testing::EndsWith;

TEST(RequestNotes, AreBoundedInNumberAndLength) {
  RequestNotes notes;
  notes.want();
  for (int i = 0; i < 1'000; ++i) notes.add(std::string(10'000, 'x').insert(0, std::to_string(i)));
  EXPECT_EQ(notes.all().size(), kWarningsMax);
  EXPECT_EQ(notes.all().front().size(), kWarningBytesMax);
  EXPECT_THAT(wanted_warnings(), EndsWith(R"("and 936 more"])"));
}

TEST(RequestNotes, WarningsAreTheLastMemberOfTheAnswer) {
  EXPECT_EQ(with_warnings(R"({"a":{"b":1}})", R"(["w"])"), R"({"a":{"b":1},"warnings":["w"]})");
  EXPECT_EQ(with_warnings("{}", "[]"), R"({"warnings":[]})");
  EXPECT_EQ(with_warnings(R"([{"a":1},{"a":2}])", "[]"), R"([{"a":1},{"a":2,"warnings":[]}])");
  EXPECT_EQ(with_warnings(R"({"a":1})", ""), R"({"a":1})") << "nobody asks for them";
}

TEST(RequestNotes, WarningsOfAStreamAreInItsFirstEvent) {
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
