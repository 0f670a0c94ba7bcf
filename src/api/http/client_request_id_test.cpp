#include "api/http/client_request_id.h"

#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// The id, or "refused: " and the header that is wrong.
std::string id_of(Headers headers) {
  net::HttpRequest request;
  request.headers = std::move(headers);
  const auto id = client_request_id(request);
  return id ? std::string(*id) : "refused: " + id.error().at;
}

TEST(ClientRequestId, IsTheClientsOwnBeforeAProxys) {
  EXPECT_EQ(id_of({}), "");
  EXPECT_EQ(id_of({{"x-client-request-id", "abc {1}~"}}), "abc {1}~");
  EXPECT_EQ(id_of({{"x-request-id", "proxy"}}), "proxy");
  EXPECT_EQ(id_of({{"x-request-id", "proxy"}, {"x-client-request-id", "client"}}), "client");
  EXPECT_EQ(id_of({{"x-request-id", "proxy"}, {"x-client-request-id", ""}}), "proxy");
  const std::string longest(kClientRequestIdBytesMax, 'x');
  EXPECT_EQ(id_of({{"x-client-request-id", longest}}), longest);
}

TEST(ClientRequestId, WhatCannotBeLoggedIsRefusedOrLeftAlone) {
  for (const std::string& bad : {std::string(kClientRequestIdBytesMax + 1, 'x'), std::string("a\tb"),
                                 std::string("\x1b[2J"), std::string("a\x7f"), std::string("h\xc3\xa9")}) {
    EXPECT_EQ(id_of({{"x-client-request-id", bad}}), "refused: X-Client-Request-Id") << bad;
    EXPECT_EQ(id_of({{"x-request-id", bad}}), "") << bad;
  }
}

}  // namespace
}  // namespace cairn::api
