#include "net/http/host_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/http/authority.h"

namespace cairn::net {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

HttpRequest with(Headers headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

const HostPolicy& policy() {
  static const HostPolicy kPolicy({.hosts = {"127.0.0.1", "Box.lan", "fd00::7"}}, true);
  return kPolicy;
}

const HostPolicy& network_policy() {
  static const HostPolicy kPolicy({.hosts = {"0.0.0.0"}, .origins = {"https://Chat.example/", "https://*.app.example"}},
                                  false);
  return kPolicy;
}

TEST(HostPolicy, AcceptsNamesOfThisMachine) {
  const std::vector<Headers> cases = {
      {},  // a program that sends no such headers
      {{"host", ""}},
      {{"host", "localhost"}},
      {{"host", "LocalHost:8080"}},
      {{"host", "localhost."}},
      {{"host", "app.localhost:1"}},
      {{"host", "127.0.0.1:8080"}},
      {{"host", "127.8.9.1"}},
      {{"host", "[::1]:8080"}},
      {{"host", "[0:0:0:0:0:0:0:1]"}},
      {{"host", "box.lan:99"}},
      {{"host", "[fd00::7]"}},
      {{"host", "host.docker.internal:8080"}},
      {{"host", "localhost"}, {"origin", "http://localhost:3000"}},
      {{"host", "localhost"}, {"origin", "https://127.0.0.1"}},
      {{"host", "localhost"}, {"origin", "http://[::1]:5173"}, {"sec-fetch-site", "cross-site"}},
      {{"host", "localhost"}, {"origin", "http://box.lan"}},
      {{"host", "localhost"}, {"origin", "http://tauri.localhost"}},
      {{"host", "localhost"}, {"origin", "app://obsidian.md"}, {"sec-fetch-site", "cross-site"}},
      {{"host", "localhost"}, {"origin", "file://"}},
      {{"host", "localhost"}, {"origin", "tauri://localhost"}},
      {{"host", "localhost"}, {"origin", "vscode-webview://0a1b2c"}, {"sec-fetch-site", "cross-site"}},
      {{"host", "localhost"}, {"origin", "vscode-file://vscode-app"}},
      {{"host", "localhost"}, {"origin", "chrome-extension://abcdef"}},
      {{"host", "localhost"}, {"sec-fetch-site", "none"}},
      {{"host", "localhost"}, {"sec-fetch-site", "same-origin"}},
      {{"host", "localhost"}, {"sec-fetch-site", "same-site"}},
  };
  for (const Headers& headers : cases) {
    EXPECT_EQ(policy().refusal(with(headers)), std::nullopt) << testing::PrintToString(headers);
  }
}

TEST(HostPolicy, RefusesOtherNamesAndPagesOfOtherSites) {
  const std::vector<Headers> cases = {
      {{"host", "internal.evil.example"}},
      {{"host", "host.docker.internal"}, {"origin", "http://wiki.internal"}},
      {{"host", "evil.example"}},
      {{"host", "localhost.evil.example"}},
      {{"host", "notlocalhost"}},
      {{"host", "127.0.0.1.evil.example"}},
      {{"host", "128.0.0.1"}},
      {{"host", "0177.0.0.1"}},
      {{"host", "[::2]"}},
      {{"host", "localhost"}, {"origin", "http://evil.example"}},
      {{"host", "localhost"}, {"origin", "https://localhost.evil.example"}},
      {{"host", "localhost"}, {"origin", "HTTP://evil.example"}},
      {{"host", "localhost"}, {"origin", "http://localhost@evil.example"}},
      {{"host", "localhost"}, {"origin", "http://"}},
      {{"host", "localhost"}, {"origin", "null"}},
      {{"host", "localhost"}, {"origin", "null"}, {"sec-fetch-site", "same-origin"}},
      {{"host", "localhost"}, {"sec-fetch-site", "cross-site"}},
      {{"host", "evil.example"}, {"origin", "http://evil.example"}, {"sec-fetch-site", "same-origin"}},  // rebinding
  };
  for (const Headers& headers : cases) {
    EXPECT_NE(policy().refusal(with(headers)), std::nullopt) << testing::PrintToString(headers);
  }
}

TEST(HostPolicy, TheRefusalNamesTheFlagThatAllowsTheName) {
  EXPECT_THAT(*policy().refusal(with({{"host", "evil.example:80"}})), testing::HasSubstr("--allow-host evil.example"));
  EXPECT_THAT(*policy().refusal(with({{"host", "localhost"}, {"origin", "https://chat.example:444"}})),
              testing::HasSubstr("--cors-origins https://chat.example:444"));
  EXPECT_LT(policy().refusal(with({{"host", std::string(60'000, 'a')}}))->size(), 500u);
}

TEST(HostPolicy, OnlyPagesThatAreLetInMayReadAnswers) {
  for (const HostPolicy& one : {policy(), network_policy(), HostPolicy()}) {
    for (const auto* origin : {"http://localhost:3000", "https://127.0.0.1", "app://obsidian.md", "tauri://localhost",
                               "vscode-webview://0a1b2c", "file://", "chrome-extension://abcdef"})
      EXPECT_EQ(one.readable_by(with({{"origin", origin}})), origin);
    for (const auto* origin : {"", "null", "http://evil.example", "https://localhost.evil.example", "http://"})
      EXPECT_EQ(one.readable_by(with({{"origin", origin}})), "") << origin;
    EXPECT_EQ(one.readable_by(with({{"origin", "app://" + std::string(1'000, 'a')}})), "");
  }
  EXPECT_EQ(policy().readable_by(with({{"origin", "http://box.lan"}})), "http://box.lan");
}

TEST(HostPolicy, BeyondLoopbackOnlyOtherPagesAreRefused) {
  for (const Headers& headers :
       std::vector<Headers>{{{"host", "box.lan:8080"}},
                            {{"host", "evil.example"}},
                            {{"host", "box.lan:8080"}, {"origin", "http://box.lan:8080"}},  // its own page
                            {{"host", "Box.lan"}, {"origin", "https://box.lan"}},           // behind a proxy
                            {{"host", "box.lan"}, {"origin", "https://chat.example"}},
                            {{"host", "box.lan"}, {"origin", "https://a.b.app.example"}},
                            {{"host", "box.lan"}, {"origin", "http://localhost:5173"}},
                            {{"host", "box.lan"}, {"origin", "app://obsidian.md"}}})
    EXPECT_EQ(network_policy().refusal(with(headers)), std::nullopt) << testing::PrintToString(headers);
  for (const Headers& headers : std::vector<Headers>{{{"host", "box.lan:8080"}, {"origin", "http://box.lan:3000"}},
                                                     {{"host", "box.lan"}, {"origin", "http://chat.example"}},
                                                     {{"host", "box.lan"}, {"origin", "https://chat.example.evil"}},
                                                     {{"host", "box.lan"}, {"origin", "null"}},
                                                     {{"host", "box.lan"}, {"sec-fetch-site", "cross-site"}}})
    EXPECT_NE(network_policy().refusal(with(headers)), std::nullopt) << testing::PrintToString(headers);
}

TEST(HostPolicy, AnyOriginMeansAnyAndStillChecksTheName) {
  const HostPolicy any({.origins = {"*"}}, true);
  EXPECT_EQ(any.refusal(with({{"host", "localhost"}, {"origin", "http://evil.example"}})), std::nullopt);
  EXPECT_EQ(any.refusal(with({{"host", "localhost"}, {"sec-fetch-site", "cross-site"}})), std::nullopt);
  EXPECT_EQ(any.readable_by(with({{"origin", "null"}})), "null");
  EXPECT_NE(any.refusal(with({{"host", "evil.example"}, {"origin", "http://evil.example"}})), std::nullopt);
}

TEST(HostPolicy, ALinkOfAnotherSiteMayBeFollowed) {
  HttpRequest link = with({{"host", "localhost"},
                           {"sec-fetch-site", "cross-site"},
                           {"sec-fetch-mode", "navigate"},
                           {"sec-fetch-dest", "document"}});
  link.method = "GET";
  EXPECT_EQ(policy().refusal(link), std::nullopt);
  link.method = "POST";
  EXPECT_NE(policy().refusal(link), std::nullopt);
  link.method = "GET";
  link.headers.back().second = "iframe";
  EXPECT_NE(policy().refusal(link), std::nullopt);
}

TEST(HostPolicy, TheDefaultPolicyAcceptsEverything) {
  EXPECT_EQ(HostPolicy().refusal(with({{"host", "evil.example"}, {"origin", "null"}})), std::nullopt);
}

TEST(Authority, ParsesAHostWithAnOptionalPort) {
  EXPECT_EQ(parse_authority("Example.ORG:80")->host, "example.org");
  EXPECT_EQ(parse_authority("example.org:80")->port, "80");
  EXPECT_EQ(parse_authority("[FE80::1]:8")->host, "fe80::1");
  EXPECT_EQ(parse_authority("")->host, "");
  EXPECT_EQ(parse_authority("h:")->port, "");
  for (const auto* bad : {"a b", "a/b", "a@b", "[::1", "[]", "[::1]x", "a:b", "a:1:2", "::1", "a\"b", "[g::]"}) {
    EXPECT_EQ(parse_authority(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace cairn::net
