#include "api/params/generation_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cairn::api {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

const ordered_json kNothing = ordered_json::object();

Result<GenerateRequest> parse(const ordered_json& body) {
  RequestFields fields(body);
  GenerateRequest request;
  read_generation_params(fields, request);
  CAIRN_TRY_VOID(fields.finish());
  return request;
}

GenerateRequest request_of(const ordered_json& body) {
  auto parsed = parse(body);
  EXPECT_TRUE(parsed.has_value()) << parsed.error().text();
  return parsed ? std::move(*parsed) : GenerateRequest{};
}

void expect_refused(const ordered_json& body, const std::string& at, const std::string& words) {
  const auto parsed = parse(body);
  ASSERT_FALSE(parsed.has_value()) << body;
  EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  EXPECT_EQ(parsed.error().at, at);
  EXPECT_THAT(parsed.error().message, testing::HasSubstr(words));
}

TEST(GenerationParams, PriorityIsInteractiveOrBatch) {
  EXPECT_EQ(request_of(kNothing).priority, Priority::kInteractive);
  EXPECT_EQ(request_of({{"priority", nullptr}}).priority, Priority::kInteractive);
  EXPECT_EQ(request_of({{"priority", "interactive"}}).priority, Priority::kInteractive);
  EXPECT_EQ(request_of({{"priority", "batch"}}).priority, Priority::kBatch);
  expect_refused({{"priority", "urgent"}}, "priority", "must be \"interactive\" or \"batch\", not \"urgent\"");
  expect_refused({{"priority", 5}}, "priority", "not 5");  // vLLM's
  expect_refused({{"priority", ordered_json::array()}}, "priority", "not an array");
}

TEST(GenerationParams, LatencyTargetsAreMillisecondsAsNumbersOrText) {
  EXPECT_EQ(request_of(kNothing).target_ttft, 0ms);
  const auto request = request_of({{"metadata", {{"target_ttft_ms", "250"}, {"target_tbt_ms", 40}, {"user", "me"}}}});
  EXPECT_EQ(request.target_ttft, 250ms);
  EXPECT_EQ(request.target_tbt, 40ms);
  for (const ordered_json& bad : {ordered_json(-1), ordered_json(0), ordered_json("-5"), ordered_json("soon"),
                                  ordered_json(""), ordered_json("5 ms"), ordered_json("nan"), ordered_json("1e99"),
                                  ordered_json(3'600'001), ordered_json(true), ordered_json::object()}) {
    expect_refused({{"metadata", {{"target_ttft_ms", bad}}}}, "metadata.target_ttft_ms", "from 1 to 3600000");
    expect_refused({{"metadata", {{"target_tbt_ms", bad}}}}, "metadata.target_tbt_ms", "from 1 to 3600000");
  }
  expect_refused({{"metadata", "x"}}, "metadata", "must be an object, not a string");
}

TEST(GenerationParams, RequestsWithUnlikeCacheSaltsGetUnlikeSalts) {
  EXPECT_EQ(request_of(kNothing).salt, 0u);
  const uint64_t salt = request_of({{"cache_salt", "one"}}).salt;
  EXPECT_NE(salt, 0u);
  EXPECT_EQ(request_of({{"cache_salt", "one"}}).salt, salt);
  EXPECT_NE(request_of({{"cache_salt", "two"}}).salt, salt);
  EXPECT_NE(request_of({{"cache_salt", std::string(kCacheSaltBytesMax, 'a')}}).salt, 0u);
  expect_refused({{"cache_salt", ""}}, "cache_salt", "1 to 256 bytes");
  expect_refused({{"cache_salt", std::string(kCacheSaltBytesMax + 1, 'a')}}, "cache_salt", "1 to 256 bytes");
  expect_refused({{"cache_salt", 7}}, "cache_salt", "must be a string");
}

}  // namespace
}  // namespace cairn::api
