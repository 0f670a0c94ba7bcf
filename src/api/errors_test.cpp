#include "api/errors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/serialization/json_text.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

TEST(Errors, NothingLongReachesTheWire) {
  const Error error{Code::kInvalidArgument, std::string(1 << 20, 'm') + "\xc3\xa9", std::string(1 << 20, 'p')};
  const auto openai = openai_error(error);
  EXPECT_EQ(openai.at("error").at("message").get<std::string>().size(), kErrorMessageBytesMax);
  EXPECT_EQ(openai.at("error").at("param").get<std::string>().size(), kEchoBytesMax);
  for (const auto format : {ErrorFormat::kOpenAi, ErrorFormat::kAnthropic, ErrorFormat::kOllama}) {
    EXPECT_LT(dump(error_body(error, format)).size(), kErrorMessageBytesMax + 500);
    EXPECT_LT(error_body(500, error.message, format).size(), kErrorMessageBytesMax + 500);
  }
}

TEST(Errors, ShortOnesAreWhole) {
  EXPECT_EQ(openai_error({Code::kNotFound, "no", "here"}).at("error").at("message"), "no");
  EXPECT_EQ(openai_error({Code::kNotFound, "no", "here"}).at("error").at("param"), "here");
  EXPECT_EQ(error_body({Code::kNotFound, "no", {}}, ErrorFormat::kOllama).at("error"), "no");
}

}  // namespace
}  // namespace cairn::api
