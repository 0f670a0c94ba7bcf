#include "api/access/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/access/gate.h"
#include "api/http/tenant.h"

namespace cairn::api {
namespace {

using testing::HasSubstr;

using Headers = std::vector<std::pair<std::string, std::string>>;

net::HttpRequest asking(Headers headers, std::string path = "/v1/models", std::string method = "GET",
                        std::string remote = "10.0.0.1:5") {
  net::HttpRequest request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.headers = std::move(headers);
  request.remote = std::move(remote);
  return request;
}

class AccessTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    file_ = std::filesystem::path(testing::TempDir()) / ("cairn-access-" + name);
  }
  void TearDown() override { std::filesystem::remove(file_); }
  void write_keys(std::string_view text) {
    std::ofstream(file_) << text;
    std::filesystem::permissions(file_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  std::unique_ptr<Access> with_keys(std::string_view text, RateLimits address_limits = {}) {
    write_keys(text);
    auto made = Access::make({.keys = {}, .key_file = file_, .address_limits = address_limits});
    EXPECT_TRUE(made.has_value()) << made.error().text();
    return *std::move(made);
  }

  std::string file_;
};

std::optional<RefusalReason> refused(Access& access, const net::HttpRequest& request,
                                     AccessRule rule = AccessRule::kAnyKey) {
  auto outcome = access.admit(request, rule);
  const auto* refusal = std::get_if<Refusal>(&outcome);
  return refusal == nullptr ? std::nullopt : std::optional(refusal->reason);
}

std::string let_in_as(Access& access, const net::HttpRequest& request, AccessRule rule = AccessRule::kAnyKey) {
  auto outcome = access.admit(request, rule);
  const auto* ticket = std::get_if<AccessTicket>(&outcome);
  return ticket == nullptr ? "nobody" : ticket->principal()->name();
}

constexpr auto kTwo =
    "alice alice-0123456789abcdef\n"
    "bob bob-0123456789abcdef models=small-* rpm=2\n";

TEST_F(AccessTest, AKeyMayComeInEveryHeaderThatClientsUse) {
  const auto access = with_keys(kTwo);
  for (const auto& [header, value] : Headers{{"authorization", "Bearer alice-0123456789abcdef"},
                                             {"authorization", "bearer  alice-0123456789abcdef "},
                                             {"x-api-key", "alice-0123456789abcdef"},
                                             {"api-key", "alice-0123456789abcdef"}})
    EXPECT_EQ(let_in_as(*access, asking({{header, value}})), "alice") << header << value;
  EXPECT_EQ(let_in_as(*access, asking({{"authorization", "Bearer unused"}, {"x-api-key", "alice-0123456789abcdef"}})),
            "alice");
}

TEST_F(AccessTest, WrongAndMissingKeysAreRefused) {
  const auto access = with_keys(kTwo);
  for (const Headers& headers :
       std::vector<Headers>{{},
                            {{"authorization", "Bearer "}},
                            {{"authorization", "Bearer alice-0123456789abcde"}},
                            {{"authorization", "Bearer alice-0123456789abcdef0"}},
                            {{"authorization", "Basic alice-0123456789abcdef"}},
                            {{"authorization", "alice-0123456789abcdef"}},
                            {{"x-api-key", "ALICE-0123456789ABCDEF"}},
                            {{"x-api-key", net::hex_text(net::sha256("alice-0123456789abcdef"))}}})
    EXPECT_EQ(refused(*access, asking(headers)), RefusalReason::kNoKey) << testing::PrintToString(headers);
}

TEST_F(AccessTest, WhetherTheServerIsThereMayBeAskedWithoutAKey) {
  const auto access = with_keys(kTwo);
  EXPECT_EQ(let_in_as(*access, asking({}), AccessRule::kOpen), "");
  EXPECT_EQ(refused(*access, asking({}), AccessRule::kAnyKey), RefusalReason::kNoKey);
  EXPECT_FALSE(access->may_send(asking({}), AccessRule::kOpen)) << "a body that nobody has asked for";
}

TEST_F(AccessTest, AKeysModelsAreThoseThatItsPatternsName) {
  const auto access = with_keys(kTwo);
  auto outcome = access->admit(asking({{"x-api-key", "bob-0123456789abcdef"}}), AccessRule::kAnyKey);
  const Principal& bob = *std::get<AccessTicket>(outcome).principal();
  EXPECT_TRUE(bob.may_use("small-1b"));
  EXPECT_TRUE(bob.may_use("large", {"small-alias"}));
  EXPECT_FALSE(bob.may_use("large", {"big"}));
}

TEST_F(AccessTest, OnlyKeysThatManageMayChangeModels) {
  const auto access = with_keys("user user-0123456789abcdef\nadmin admin-0123456789abcdef manage\n");
  const auto user = asking({{"x-api-key", "user-0123456789abcdef"}});
  EXPECT_EQ(refused(*access, user, AccessRule::kManagingKey), RefusalReason::kForbidden);
  EXPECT_EQ(let_in_as(*access, user, AccessRule::kAnyKey), "user");
  EXPECT_FALSE(access->may_send(user, AccessRule::kManagingKey));
  EXPECT_TRUE(access->may_send(user, AccessRule::kAnyKey));
  const auto admin = asking({{"x-api-key", "admin-0123456789abcdef"}});
  EXPECT_EQ(let_in_as(*access, admin, AccessRule::kManagingKey), "admin");
  EXPECT_TRUE(access->may_send(admin, AccessRule::kManagingKey));
  const auto flags = Access::make({.keys = {"flag-0123456789abcdef"}, .key_file = {}, .address_limits = {}});
  EXPECT_THAT(let_in_as(**flags, asking({{"x-api-key", "flag-0123456789abcdef"}}), AccessRule::kManagingKey),
              testing::StartsWith("key-"));
}

TEST_F(AccessTest, LimitsAreOfEachKey) {
  const auto access = with_keys(kTwo);
  const auto bob = asking({{"x-api-key", "bob-0123456789abcdef"}});
  EXPECT_EQ(let_in_as(*access, bob), "bob");
  EXPECT_EQ(let_in_as(*access, bob), "bob");
  EXPECT_EQ(refused(*access, bob), RefusalReason::kOverLimit);
  EXPECT_EQ(let_in_as(*access, asking({{"x-api-key", "alice-0123456789abcdef"}})), "alice");
}

TEST_F(AccessTest, WrongKeysCountAgainstTheAddressAndKeysDoNot) {
  const auto access = with_keys(kTwo, {.requests_per_minute = 2});
  const auto wrong = asking({{"x-api-key", "wrong"}});
  EXPECT_EQ(refused(*access, wrong), RefusalReason::kNoKey);
  EXPECT_EQ(refused(*access, wrong), RefusalReason::kNoKey);
  EXPECT_EQ(refused(*access, wrong), RefusalReason::kOverLimit);
  EXPECT_EQ(let_in_as(*access, asking({{"x-api-key", "alice-0123456789abcdef"}})), "alice");
  EXPECT_EQ(refused(*access, asking({}, "/v1/models", "GET", "10.0.0.2:5")), RefusalReason::kNoKey);
}

TEST_F(AccessTest, WithoutKeysEachAddressHasItsLimit) {
  const auto access = Access::make({.keys = {}, .key_file = {}, .address_limits = {.concurrent = 1}});
  auto first = (*access)->admit(asking({}), AccessRule::kAnyKey);
  EXPECT_TRUE(std::holds_alternative<AccessTicket>(first));
  EXPECT_EQ(refused(**access, asking({})), RefusalReason::kOverLimit);
  EXPECT_EQ(let_in_as(**access, asking({}, "/v1/models", "GET", "10.0.0.2:5")), "");
  std::get<AccessTicket>(first).end();
  EXPECT_EQ(let_in_as(**access, asking({})), "");
}

TEST_F(AccessTest, AddressesThatHaveNotAskedForLongAreForgotten) {
  constexpr size_t kRemembered = 100;
  const auto access = Access::make(
      {.keys = {}, .key_file = {}, .address_limits = {.requests_per_minute = 1}, .addresses_max = kRemembered});
  const auto from = [](size_t i) { return asking({}, "/v1/models", "GET", fmt::format("10.0.0.{}:1", i)); };
  for (size_t i = 0; i < kRemembered; ++i) EXPECT_EQ(let_in_as(**access, from(i)), "");
  EXPECT_EQ(refused(**access, from(0)), RefusalReason::kOverLimit) << "it is remembered, and the last to be forgotten";
  EXPECT_EQ(let_in_as(**access, from(kRemembered)), "");
  EXPECT_EQ(refused(**access, from(0)), RefusalReason::kOverLimit);
  EXPECT_EQ(let_in_as(**access, from(1)), "") << "it was forgotten";
}

TEST_F(AccessTest, ReloadingTakesNewKeysAndKeepsWhatLimitsHaveCounted) {
  const auto access = with_keys(kTwo);
  const auto bob = asking({{"x-api-key", "bob-0123456789abcdef"}});
  EXPECT_EQ(let_in_as(*access, bob), "bob");
  EXPECT_EQ(let_in_as(*access, bob), "bob");
  write_keys("bob bob-0123456789abcdef rpm=3\ncarol carol-0123456789abcdef\n");
  ASSERT_TRUE(access->reload().has_value());
  EXPECT_EQ(let_in_as(*access, asking({{"x-api-key", "carol-0123456789abcdef"}})), "carol");
  EXPECT_EQ(refused(*access, asking({{"x-api-key", "alice-0123456789abcdef"}})), RefusalReason::kNoKey);
  EXPECT_EQ(let_in_as(*access, bob), "bob");
  EXPECT_EQ(refused(*access, bob), RefusalReason::kOverLimit);
  write_keys("carol\n");
  EXPECT_FALSE(access->reload().has_value());
  EXPECT_EQ(let_in_as(*access, asking({{"x-api-key", "carol-0123456789abcdef"}})), "carol");
}

TEST_F(AccessTest, TheEngineKnowsAKeyByItsName) {
  const auto access = with_keys("carol carol-0123456789abcdef priority=batch tpm=5\n");
  net::HttpRequest request = asking({{"x-api-key", "carol-0123456789abcdef"}});
  auto outcome = access->admit(request, AccessRule::kAnyKey);
  request.owner = std::get<AccessTicket>(outcome).principal();
  engine::GenerateRequest generate;
  name_owner(request, generate);
  EXPECT_EQ(generate.tenant, "carol");
  EXPECT_EQ(generate.client, "key carol");
  EXPECT_EQ(generate.priority, engine::Priority::kBatch);
  ASSERT_NE(generate.usage_listener, nullptr);
  generate.usage_listener->request_ended({.prompt_tokens = 10, .completion_tokens = 0, .cached_tokens = 0});
  EXPECT_EQ(refused(*access, asking({{"x-api-key", "carol-0123456789abcdef"}})), RefusalReason::kOverLimit);
}

TEST(Gate, WritesTimesAsOpenAiDoes) {
  using namespace std::chrono_literals;
  EXPECT_EQ(reset_text(0ms), "0ms");
  EXPECT_EQ(reset_text(999ms), "999ms");
  EXPECT_EQ(reset_text(1'001ms), "2s");
  EXPECT_EQ(reset_text(60s), "1m0s");
  EXPECT_EQ(reset_text(59'001ms), "1m0s");
}

}  // namespace
}  // namespace cairn::api
