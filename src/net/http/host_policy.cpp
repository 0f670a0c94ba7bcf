#include "net/http/host_policy.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/text/glob.h"
#include "net/http/authority.h"

namespace cairn::net {
namespace {

constexpr size_t kOriginMax = 512;  // bytes of an origin that is let in
constexpr size_t kEchoMax = 100;    // bytes of the request's header that an error repeats

std::string without_last_dot(std::string host) {
  if (host.ends_with('.')) host.pop_back();
  return host;
}

bool is_loopback_name(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost")) return true;  // RFC 6761, section 6.3
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == IN_LOOPBACKNET;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/// Whether this is a name by which containers call their host, such as host.docker.internal. No public name ends in
/// ".internal" (reserved by ICANN, 2024), so an attacker cannot make one point here.
bool is_private_name(const std::string& host) { return host.ends_with(".internal") || host.ends_with(".internal."); }

/// The host and port of an origin such as "https://example.org:8443".
std::optional<Authority> web_site(std::string_view origin) {
  const size_t colon = origin.find("://");
  return colon == std::string_view::npos ? std::nullopt : parse_authority(origin.substr(colon + 3));
}

std::string how_to_allow(std::string_view host) {
  return fmt::format("; if \"{}\" is to be let in, start the server with --allow-host {}", host, host);
}

/// Whether a browser leaves its page for this one, which the page that had the link does not see.
bool is_navigation(const HttpRequest& request) {
  return request.method == "GET" && request.header("sec-fetch-mode") == "navigate" &&
         request.header("sec-fetch-dest") == "document";
}

}  // namespace

HostPolicy::HostPolicy(BrowserRules rules, bool checks_host) : checks_origin_(true), checks_host_(checks_host) {
  for (const std::string& name : rules.hosts) {
    // An IPv6 address may come without brackets, and a name with a port, which is ignored here.
    const auto parsed = parse_authority(name);
    names_.push_back(without_last_dot(parsed ? parsed->host : lower_case(name)));
  }
  for (const std::string& origin : rules.origins) {
    origins_.push_back(lower_case(origin));
    if (origins_.back().size() > 1 && origins_.back().ends_with('/')) origins_.back().pop_back();
  }
}

bool HostPolicy::names_us(const std::string& host) const {
  const std::string name = without_last_dot(host);
  return is_loopback_name(name) || std::ranges::find(names_, name) != names_.end();
}

bool HostPolicy::any_origin() const { return std::ranges::find(origins_, "*") != origins_.end(); }

std::optional<std::string> HostPolicy::refusal(const HttpRequest& request) const {
  const std::string_view host = request.header("host").substr(0, kEchoMax);
  const auto asked = parse_authority(request.header("host"));
  if (checks_host_ && !host.empty() && !(asked && (names_us(asked->host) || is_private_name(asked->host)))) {
    return fmt::format("this server listens on a loopback address and was asked for under the name \"{}\"", host) +
           (asked ? how_to_allow(std::string_view(asked->host).substr(0, kEchoMax)) : "");
  }
  if (!checks_origin_ || any_origin() || !readable_by(request).empty()) return std::nullopt;
  const std::string_view origin = request.header("origin");
  if (origin.empty()) {
    if (request.header("sec-fetch-site") != "cross-site" || is_navigation(request)) return std::nullopt;
    return "a web page of another site sent this request (Sec-Fetch-Site: cross-site)";
  }
  const std::string refused = fmt::format(
      "a web page of the origin \"{}\" sent this request, which is not of this machine", origin.substr(0, kEchoMax));
  if (!web_site(origin)) return refused;
  return refused + fmt::format("; if its pages are to be let in, start the server with --cors-origins {}",
                               origin.substr(0, kEchoMax));
}

std::string HostPolicy::readable_by(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || origin.size() > kOriginMax) return {};
  const std::string lower = lower_case(origin);
  if (std::ranges::any_of(origins_, [&](const std::string& pattern) { return glob_matches(pattern, lower); }))
    return std::string(origin);
  const size_t colon = origin.find("://");
  if (colon == std::string_view::npos) return {};
  const std::string scheme = lower.substr(0, colon);
  if (scheme != "http" && scheme != "https") return std::string(origin);
  const auto site = web_site(origin);
  if (!site || site->host.empty()) return {};
  const auto asked = parse_authority(request.header("host"));
  const bool own = asked && asked->host == site->host && asked->port == site->port;
  return own || names_us(site->host) ? std::string(origin) : std::string();
}

}  // namespace cairn::net
