#include "api/params/request_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using testing::EndsWith;

TEST(RequestContext, WarningsAreBoundedInNumberAndLength) {
  RequestContext context;
  EXPECT_EQ(context.wanted_warnings(), "") << "nobody asks for them";
  context.want_warnings();
  for (int i = 0; i < 1'000; ++i) context.note_ignored("x", std::string(10'000, 'x').insert(0, std::to_string(i)));
  EXPECT_EQ(context.warnings().size(), kWarningsMax);
  EXPECT_EQ(context.warnings().front().size(), kWarningBytesMax);
  EXPECT_THAT(context.wanted_warnings(), EndsWith(R"("and 936 more"])"));
}

}  // namespace
}  // namespace cairn::api
