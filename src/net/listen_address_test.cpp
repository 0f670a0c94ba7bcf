#include "net/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/utf8.h"
#include "net/unix_socket.h"

namespace cairn::net {
namespace {

using testing::HasSubstr;

/// "HOST", "HOST PORT" or "unix PATH", or the error.
std::string read(std::string_view text) {
  const auto address = parse_listen_address(text);
  if (!address) return "error: " + address.error().text();
  if (!address->socket.empty()) return "unix " + address->socket;
  return address->host + (address->port ? " " + std::to_string(*address->port) : "");
}

TEST(ListenAddress, IsReadInEveryForm) {
  EXPECT_EQ(read("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(read("box.lan:8080"), "box.lan 8080");
  EXPECT_EQ(read("0.0.0.0:0"), "0.0.0.0 0");
  EXPECT_EQ(read("::"), "::");
  EXPECT_EQ(read("::1"), "::1");
  EXPECT_EQ(read("[::1]"), "::1");
  EXPECT_EQ(read("[::1]:11434"), "::1 11434");
  EXPECT_EQ(read("fe80::1%eth0"), "fe80::1%eth0");
  EXPECT_EQ(read("[fe80::1%eth0]:80"), "fe80::1%eth0 80");
  EXPECT_EQ(read("::ffff:127.0.0.1"), "::ffff:127.0.0.1");
  EXPECT_EQ(read("unix:/run/cairn.sock"), "unix /run/cairn.sock");
  EXPECT_EQ(read("unix:///run/cairn.sock"), "unix /run/cairn.sock");
  EXPECT_EQ(read("unix:cairn.sock"), "unix cairn.sock");
}

TEST(ListenAddress, WhatIsNoneIsRefusedByName) {
  EXPECT_EQ(read(""), "error: is empty");
  for (const std::string text : {"[::1",
                                 "[::1]8080",
                                 "]808$0",
                                 "box[1]",
                                 "box]:80",
                                 "[127.0.0.1]",
                                 "[]",
                                 "[::1]:",
                                 "[::1]:x",
                                 "[::1]:65536",
                                 "box:",
                                 "box:-1",
                                 "box:80 ",
                                 ":8080",
                                 "1:2:3",
                                 "http://127.0.0.1:8080",
                                 "fe80::1%",
                                 "[fe80::1%]",
                                 "[fe80::1%[e]:80",
                                 "fe80::1%]",
                                 "bo x"})
    EXPECT_THAT(read(text), testing::StartsWith("error: " + text)) << text;
  EXPECT_THAT(read("unix:"), HasSubstr("path is empty"));
  EXPECT_THAT(read("unix:/" + std::string(kSocketPathMax, 'x')), HasSubstr("bytes and the system takes"));
  EXPECT_TRUE(utf8_valid(read("unix:/" + std::string(kSocketPathMax, '\xdf')))) << "no byte of it is told as it is";
}

TEST(ListenAddress, HasBracketsInUrls) {
  EXPECT_EQ(url_host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(url_host("::1"), "[::1]");
  EXPECT_EQ(url_host("fe80::1%eth0"), "[fe80::1%25eth0]");
}

}  // namespace
}  // namespace cairn::net
