#include "api/tenant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

std::string tenant(const std::string& authorization) {
  net::HttpRequest request;
  request.headers.emplace_back("authorization", authorization);
  return tenant_of(request);
}

TEST(Tenant, IsAHashOfTheTokenAndNeverTheToken) {
  const std::string one = tenant("Bearer sk-secret");
  EXPECT_EQ(one.size(), 16u);
  EXPECT_THAT(one, testing::Not(testing::HasSubstr("secret")));
  EXPECT_EQ(tenant("bearer   sk-secret "), one);
  EXPECT_NE(tenant("Bearer sk-other"), one);
}

TEST(Tenant, MayComeAsAnthropicsClientsSendIt) {
  net::HttpRequest request;
  request.headers.emplace_back("x-api-key", " sk-secret ");
  EXPECT_EQ(tenant_of(request), tenant("Bearer sk-secret"));
  request.headers.emplace_back("authorization", "Bearer sk-other");
  EXPECT_EQ(tenant_of(request), tenant("Bearer sk-other"));
}

TEST(Tenant, IsEmptyWithoutAToken) {
  EXPECT_EQ(tenant_of({}), "");
  for (const auto* none : {"", "Bearer", "Bearer ", "Bearer    ", "Basic dXNlcjpwYXNz"})
    EXPECT_EQ(tenant(none), "") << none;
}

}  // namespace
}  // namespace cairn::api
