#include "api/models/model_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using namespace std::chrono_literals;

std::optional<std::chrono::milliseconds> time_of(std::string_view text) {
  const auto keep = parse_keep_alive(text);
  EXPECT_TRUE(keep.has_value()) << text;
  return keep ? keep->time : 1ms;
}

TEST(KeepAlive, IsReadAsOllamaReadsIt) {
  EXPECT_EQ(time_of("5m"), 5min);
  EXPECT_EQ(time_of("1h30m"), 90min);
  EXPECT_EQ(time_of("1.5s"), 1'500ms);
  EXPECT_EQ(time_of("300ms"), 300ms);
  EXPECT_EQ(time_of("60"), 60s);
  EXPECT_EQ(time_of("0"), 0ms);
  EXPECT_EQ(time_of("-1"), std::nullopt);
  EXPECT_EQ(time_of("-1m"), std::nullopt);
  for (const auto* text : {"", "-", "m", "5x", "5 m", "1h30", "5mm", "nan", "1e3s"})
    EXPECT_FALSE(parse_keep_alive(text).has_value()) << text;
}

TEST(ModelRequest, IsReadFromTheOuterObjectAlone) {
  const auto request = read_model_request(
      R"( { "messages": [{"model": "inner", "x": "}\"]"}] , "stream":true,"model":"qwen\u0033:4b", "n": 1 } )", false);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->model, "qwen3:4b");
  EXPECT_TRUE(request->stream);
  EXPECT_FALSE(request->asks_nothing);
}

TEST(ModelRequest, WhatIsWrongElsewhereIsLeftToTheEndpoint) {
  for (const auto* body :
       {"", "[", "{", "{\"model", "{\"model\":", "{\"model\":3}", "nonsense", "{\"a\":\"\\", "{}}}"}) {
    const auto request = read_model_request(body, false);
    ASSERT_TRUE(request.has_value()) << body;
    EXPECT_EQ(request->model, "") << body;
  }
}

TEST(ModelRequest, OllamasStreamAndStay) {
  const auto request = read_model_request(R"({"model": "m", "keep_alive": -1, "prompt": ""})", true);
  ASSERT_TRUE(request.has_value());
  EXPECT_TRUE(request->stream);
  EXPECT_TRUE(request->asks_nothing);
  ASSERT_TRUE(request->keep_alive.has_value());
  EXPECT_EQ(request->keep_alive->time, std::nullopt);
  EXPECT_EQ(read_model_request(R"({"keep_alive": "soon"})", true).error().at, "keep_alive");
  EXPECT_EQ(read_model_request(R"({"keep_alive": 0})", true)->keep_alive->time, 0ms);
}

}  // namespace
}  // namespace cairn::api
