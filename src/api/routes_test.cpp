// The rows of endpoints: which request is whose, who may ask, and that the pages say the same.
#include "api/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "api/access/access.h"
#include "api/access/gate.h"
#include "base/testing/test_data.h"

namespace cairn::api {
namespace {

net::HttpRequest asking(std::string_view method, std::string path, std::string_view key = "") {
  net::HttpRequest request;
  request.method = method;
  request.path = std::move(path);
  request.remote = "10.0.0.1:5";
  if (!key.empty()) request.headers.emplace_back("x-api-key", key);
  return request;
}

/// A path that is the endpoint's, with an id that is no word of another pattern.
std::string path_of(const Endpoint& endpoint) {
  return std::regex_replace(std::string(endpoint.pattern), std::regex(R"(\{id(\.\.\.)?\})"), "some-id");
}

std::string name_of(const Endpoint& endpoint) { return fmt::format("{} {}", endpoint.method, endpoint.pattern); }

std::string read_page(const std::string& path) {
  std::ifstream file(source_file(path), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Routes, ARequestHasOneRow) {
  for (const Endpoint& endpoint : endpoints()) {
    for (const Endpoint& other : endpoints()) {
      const bool same_path = id_in_path(other.pattern, path_of(endpoint)).has_value();
      EXPECT_EQ(same_path && other.method == endpoint.method, &other == &endpoint)
          << name_of(endpoint) << " and " << name_of(other);
      EXPECT_TRUE(endpoint.pattern != other.pattern || endpoint.errors == other.errors) << endpoint.pattern;
    }
    const Route route = route_of(asking(endpoint.method, path_of(endpoint)));
    ASSERT_EQ(route.endpoint, &endpoint) << name_of(endpoint);
    EXPECT_EQ(route.errors, endpoint.errors);
    EXPECT_EQ(route.protocol, endpoint.protocol);
    EXPECT_EQ(route.access, endpoint.access);
  }
}

TEST(Routes, PatternsSayWhatAnIdMayBe) {
  EXPECT_EQ(id_in_path("/a", "/a"), "");
  EXPECT_EQ(id_in_path("/a", "/a/"), std::nullopt);
  EXPECT_EQ(id_in_path("/a/{id}", "/a/b"), "b");
  for (const auto* path : {"/a", "/a/", "/a/b/c", "/a/b/", "/b/a"})
    EXPECT_EQ(id_in_path("/a/{id}", path), std::nullopt);
  EXPECT_EQ(id_in_path("/a/{id}/end", "/a/b/end"), "b");
  for (const auto* path : {"/a/end", "/a//end", "/a/b/c/end", "/a/b/ends"})
    EXPECT_EQ(id_in_path("/a/{id}/end", path), std::nullopt) << path;
  EXPECT_EQ(id_in_path("/a/{id...}", "/a/b/c"), "b/c");
  EXPECT_EQ(id_in_path("/a/{id...}", "/a/"), std::nullopt);
}

TEST(Routes, HeadIsTakenWhereGetIsAndOtherMethodsAreNamed) {
  EXPECT_EQ(route_of(asking("HEAD", "/v1/models")).endpoint, route_of(asking("GET", "/v1/models")).endpoint);
  const Route wrong = route_of(asking("PUT", "/v1/responses/resp_1"));
  EXPECT_EQ(wrong.endpoint, nullptr);
  EXPECT_EQ(wrong.methods, "GET, DELETE");
  EXPECT_EQ(route_of(asking("GET", "/v1/models/load")).methods, "POST") << "a path of its own is no model's name";
  EXPECT_EQ(route_of(asking("GET", "/v1/models/org/name:tag")).id, "org/name:tag");
}

TEST(Routes, ErrorsAreLlamaCppsWhereThePathIsNotOpenAis) {
  for (const Endpoint& endpoint : endpoints()) {
    if (endpoint.errors == ErrorFormat::kAnthropic || endpoint.errors == ErrorFormat::kOllama) continue;
    const bool is_openais = endpoint.pattern.starts_with("/v1/") || endpoint.protocol == Protocol::kLmStudio;
    EXPECT_EQ(endpoint.errors, is_openais ? ErrorFormat::kOpenAi : ErrorFormat::kLlamaCpp) << name_of(endpoint);
  }
}

TEST(Routes, APathThatNoRowHasIsSomeProtocolsAllTheSame) {
  const auto protocol = [](const char* path) { return route_of(asking("GET", path)).protocol; };
  const auto errors = [](const char* path) { return route_of(asking("GET", path)).errors; };
  EXPECT_EQ(protocol("/api/x"), Protocol::kOllama);
  EXPECT_EQ(errors("/api/x"), ErrorFormat::kOllama);
  for (const auto* path : {"/api/v0", "/api/v0/x", "/api/v1/chat", "/api/v1/models/load"}) {
    EXPECT_EQ(protocol(path), Protocol::kLmStudio) << path;
    EXPECT_EQ(errors(path), ErrorFormat::kOpenAi) << path;
  }
  EXPECT_EQ(protocol("/api/v0x"), Protocol::kOllama);
  EXPECT_EQ(protocol("/v1/messages/x"), Protocol::kAnthropic);
  EXPECT_EQ(errors("/v1/messages/x"), ErrorFormat::kAnthropic);
  EXPECT_EQ(protocol("/v1/responses/a/b"), Protocol::kResponses);
  EXPECT_EQ(protocol("/v1/x"), Protocol::kOpenAi);
  EXPECT_EQ(errors("/v1/x"), ErrorFormat::kOpenAi);
  EXPECT_EQ(errors("/x"), ErrorFormat::kLlamaCpp);
  net::HttpRequest anthropics = asking("GET", "/v1/x");
  anthropics.headers.emplace_back("anthropic-version", "2023-06-01");
  EXPECT_EQ(route_of(anthropics).errors, ErrorFormat::kAnthropic);
}

TEST(Routes, OnlyAKeyThatManagesIsLetInWhereARowSaysSoAndEveryRowButAnOpenOneWantsAKey) {
  const std::string file = testing::TempDir() + "cairn-routes-keys";
  std::ofstream(file) << "user user-0123456789abcdef\nadmin admin-0123456789abcdef manage\n";
  const auto access = Access::make({.keys = {}, .key_file = file, .address_limits = {}});
  ASSERT_TRUE(access.has_value()) << access.error().text();
  const auto refused = [&](const net::HttpRequest& request) -> std::optional<RefusalReason> {
    auto outcome = (*access)->admit(request, route_of(request).access);
    const auto* refusal = std::get_if<Refusal>(&outcome);
    return refusal == nullptr ? std::nullopt : std::optional(refusal->reason);
  };
  for (const Endpoint& endpoint : endpoints()) {
    const bool open = endpoint.access == AccessRule::kOpen, manages = endpoint.access == AccessRule::kManagingKey;
    const std::string path = path_of(endpoint);
    EXPECT_EQ(refused(asking(endpoint.method, path)), open ? std::nullopt : std::optional(RefusalReason::kNoKey));
    EXPECT_EQ(refused(asking(endpoint.method, path, "user-0123456789abcdef")),
              manages ? std::optional(RefusalReason::kForbidden) : std::nullopt)
        << name_of(endpoint);
    EXPECT_EQ(refused(asking(endpoint.method, path, "admin-0123456789abcdef")), std::nullopt) << name_of(endpoint);
  }
  // A method that a path does not take is refused as those that it takes, and never open.
  EXPECT_EQ(refused(asking("POST", "/health")), RefusalReason::kNoKey);
  EXPECT_EQ(refused(asking("GET", "/api/delete", "user-0123456789abcdef")), RefusalReason::kForbidden);
  EXPECT_EQ(refused(asking("PUT", "/lora-adapters", "user-0123456789abcdef")), std::nullopt);
}

/// The endpoints of a rule, as docs/access.md has them.
std::string listed(AccessRule rule) {
  std::string list;
  for (const Endpoint& endpoint : endpoints())
    if (endpoint.access == rule) list += fmt::format("{}`{}`", list.empty() ? "" : ", ", name_of(endpoint));
  return list;
}

TEST(Routes, WhoMayAskIsWhatThePageOfAccessSays) {
  const std::string page = read_page("/docs/access.md");
  const std::string open = fmt::format("| no key | {} |", listed(AccessRule::kOpen));
  EXPECT_TRUE(page.contains(open)) << open;
  const std::string managing = fmt::format("| a key that says `manage` | {} |", listed(AccessRule::kManagingKey));
  EXPECT_TRUE(page.contains(managing)) << managing;
}

/// What stands between backquotes.
std::set<std::string> quoted(const std::string& text) {
  std::set<std::string> found;
  const std::regex quotes("`([^`\n]+)`");
  for (std::sregex_iterator at(text.begin(), text.end(), quotes), end; at != end; ++at) found.insert((*at)[1]);
  return found;
}

TEST(Routes, ThePagesOfTheApiNameEveryEndpointAndNoOther) {
  std::string pages;
  for (const auto* page :
       {"README", "openai", "responses", "anthropic", "ollama", "llama_cpp", "lmstudio", "chat", "monitoring"})
    pages += read_page(fmt::format("/docs/api/{}.md", page));
  const std::string readme = read_page("/docs/api/README.md");
  const size_t begin = readme.find("\n## Endpoints\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string table = readme.substr(begin, readme.find("\n## ", begin + 1) - begin);
  const auto shown = [](const Endpoint& endpoint) {
    return std::regex_replace(std::string(endpoint.pattern), std::regex(R"(\{id(\.\.\.)?\})"), "ID");
  };
  for (const Endpoint& endpoint : endpoints())
    EXPECT_TRUE(pages.contains(shown(endpoint))) << "no page of docs/api has " << name_of(endpoint);
  for (std::string text : quoted(table)) {
    if (const size_t blank = text.rfind(' '); blank != std::string::npos) text.erase(0, blank + 1);
    text = text.substr(0, text.find('?'));
    if (!text.starts_with('/') || text == "/api") continue;
    EXPECT_TRUE(std::ranges::any_of(endpoints(), [&](const Endpoint& endpoint) { return shown(endpoint) == text; }))
        << "docs/api/README.md has " << text << ", which no row has";
  }
}

TEST(Routes, APathThatIsNoneNamesTheThreeNearest) {
  EXPECT_EQ(nearest_endpoints("/v1/chat/completion").find("POST /v1/chat/completions"), 0u);
  EXPECT_EQ(nearest_endpoints("/v1/model").find("GET /v1/models"), 0u);
  EXPECT_EQ(nearest_endpoints("/api/tag").find("GET /api/tags"), 0u);
  for (const std::string& path : {std::string("/"), std::string(), std::string(100'000, 'x')}) {
    const std::string nearest = nearest_endpoints(path);
    EXPECT_EQ(std::ranges::count(nearest, ','), 2) << nearest;
    EXPECT_LT(nearest.size(), 200u);
  }
}

}  // namespace
}  // namespace cairn::api
