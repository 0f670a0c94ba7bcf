/// Decides which web pages and host names a server on a loopback address accepts. Browsers run pages of strangers,
/// which can send requests to 127.0.0.1: under a name of their own that they let point there (DNS rebinding), or across
/// sites.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/http/http_server.h"

namespace cairn::net {

class HostPolicy {
 public:
  /// Accepts everything: a server that listens on a network's address restricts its clients by other means.
  HostPolicy() = default;
  /// Accepts names of this machine (localhost, names below it, 127.0.0.0/8, ::1; as a Host also names below "internal",
  /// which containers have for it) and `names`, on any port.
  static HostPolicy loopback(const std::vector<std::string>& names);

  /// Why the request is refused; nullopt if it is accepted. Its Host must name this machine, and so must its Origin if
  /// that is a web page's. Origins of other schemes (app, file, tauri, vscode-webview, extensions) are those of
  /// programs that the user has installed, which a page cannot forge. "null" is the origin of a page in a sandboxed
  /// frame, and is refused. Without an Origin, `Sec-Fetch-Site: cross-site` shows a page of another site. Requests
  /// without these headers come from programs.
  std::optional<std::string> refusal(const HttpRequest& request) const;
  /// The request's Origin, if a browser may show its pages the answer (CORS): a page of this machine, or one of those
  /// programs. Empty: it may not, or no page asks.
  std::string readable_by(const HttpRequest& request) const;

 private:
  bool names_us(const std::string& host) const;

  bool checks_ = false;
  std::vector<std::string> names_;  // in the form of Authority::host
};

}  // namespace cairn::net
