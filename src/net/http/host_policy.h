/// Decides which web pages and host names a server accepts. Browsers run pages of strangers, which can send requests to
/// 127.0.0.1 and to addresses of the network that they are in: under a name of their own that they let point there (DNS
/// rebinding), or across sites.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/http/http_server.h"

namespace cairn::net {

class HostPolicy {
 public:
  /// Accepts everything.
  HostPolicy() = default;
  /// `checks_host`: a request's Host must be a name of this machine (localhost, names below it, 127.0.0.0/8, ::1, names
  /// below "internal", which containers have for it) or one of rules.hosts, on any port.
  HostPolicy(BrowserRules rules, bool checks_host);

  /// Why the request is refused; nullopt if it is accepted. Its Host must be a name that is let in, if that is checked,
  /// and its Origin must be one of
  /// * a page of this machine, or of one of rules.hosts, on any port;
  /// * a page of the server itself, whose Host it has;
  /// * another scheme than http and https (app, file, tauri, vscode-webview, extensions): programs that the user has
  ///   installed, which a page cannot forge;
  /// * rules.origins.
  /// "null" is the origin of a page in a sandboxed frame. Without an Origin, `Sec-Fetch-Site: cross-site` shows a page
  /// of another site, which may only link here. Requests without these headers come from programs.
  std::optional<std::string> refusal(const HttpRequest& request) const;
  /// The request's Origin, if a browser may show its pages the answer (CORS): one of those above. Empty: it may not, or
  /// no page asks.
  std::string readable_by(const HttpRequest& request) const;

 private:
  bool names_us(const std::string& host) const;
  bool any_origin() const;

  bool checks_origin_ = false;
  bool checks_host_ = false;
  std::vector<std::string> names_;    // in the form of Authority::host
  std::vector<std::string> origins_;  // patterns, in lower case
};

}  // namespace cairn::net
