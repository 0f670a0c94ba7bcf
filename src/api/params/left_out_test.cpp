#include "api/params/left_out.h"

#include <gtest/gtest.h>

namespace cairn::api {
namespace {

TEST(LeftOut, NamesTheFirstFiveAndEscapesThem) {
  EXPECT_EQ(left_out_text("/v1/responses", {"a\nb", "c"}),
            "/v1/responses: left out what this server does not run: a\\nb, c");
  std::set<std::string> many;
  for (int i = 0; i < 1'000; ++i) many.insert(std::string(1'000, 'x') + std::to_string(i));
  const std::string text = left_out_text("/v1/responses", many);
  EXPECT_TRUE(text.ends_with(" and 995 more"));
  EXPECT_LT(text.size(), 700u);
}

}  // namespace
}  // namespace cairn::api
