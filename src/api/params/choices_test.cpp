#include "api/params/choices.h"

#include <gtest/gtest.h>

namespace cairn::api {
namespace {

TEST(Choices, EveryPromptHasItsChoicesWithIdsAndSeedsOfTheirOwn) {
  engine::GenerateRequest common;
  common.sampling.seed = 7;
  common.max_tokens = 3;
  const std::vector<TokenId> first{TokenId{1}}, second{TokenId{2}, TokenId{3}};
  const auto requests = choice_requests(common, "cmpl-x", {first, second}, 2);
  ASSERT_EQ(requests.size(), 4u);
  const std::string ids[] = {"cmpl-x", "cmpl-x-1", "cmpl-x-2", "cmpl-x-3"};
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].id, ids[i]);
    EXPECT_EQ(requests[i].prompt, i < 2 ? first : second);
    EXPECT_EQ(requests[i].sampling.seed, 7 + i % 2);
    EXPECT_EQ(requests[i].max_tokens, 3);
  }
}

}  // namespace
}  // namespace cairn::api
