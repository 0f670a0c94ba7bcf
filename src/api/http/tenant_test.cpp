#include "api/http/tenant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/access/credentials.h"

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

std::string client(const std::string& remote) {
  net::HttpRequest request;
  request.remote = remote;
  return client_of(request);
}

TEST(Client, IsTheAddressWithoutItsPort) {
  EXPECT_EQ(client("127.0.0.1:54321"), "127.0.0.1");
  EXPECT_EQ(client("10.1.2.3:1"), "10.1.2.3");
  EXPECT_NE(client("10.1.2.4:1"), client("10.1.2.3:1"));
  EXPECT_EQ(client("::ffff:10.1.2.3:80"), "::ffff:10.1.2.3");
  EXPECT_EQ(client(""), "");
}

TEST(Client, IsTheNetworkOfAnAddressOfIPv6) {
  EXPECT_EQ(client("2001:db8:1:2:3:4:5:6:80"), "2001:db8:1:2::");
  EXPECT_EQ(client("[2001:db8:1:2:ffff::1]:80"), "2001:db8:1:2::");
  EXPECT_NE(client("2001:db8:1:3::1:80"), client("2001:db8:1:2::1:80"));
}

}  // namespace
}  // namespace cairn::api
