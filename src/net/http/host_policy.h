/// Which web pages and names a server on a loopback address listens to. Browsers run pages of strangers, and those can
/// send requests to 127.0.0.1: under a name of theirs that they let point there (DNS rebinding), or across sites.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/http/http_server.h"

namespace cairn::net {

class HostPolicy {
 public:
  /// Lets everything in: whoever listens on a network's address has to say who may come by other means.
  HostPolicy() = default;
  /// Lets in what names this machine (localhost, names below it, 127.0.0.0/8, ::1; as a Host also names below
  /// "internal", which containers have for it) or one of `names`, on any port.
  static HostPolicy loopback(const std::vector<std::string>& names);

  /// Why the request is not let in; nullopt if it is. Its Host must name this machine, and so must its Origin if that
  /// is a web page's. Origins of other schemes (app, file, tauri, vscode-webview, extensions) are those of programs
  /// that the user has installed, which no page can put on; "null" is what a page in a sandboxed frame has, and is
  /// refused. Without an Origin, `Sec-Fetch-Site: cross-site` tells a page of another site. Absent headers are those of
  /// programs.
  std::optional<std::string> refusal(const HttpRequest& request) const;

 private:
  bool names_us(const std::string& host) const;

  bool checks_ = false;
  std::vector<std::string> names_;  // as Authority::host has them
};

}  // namespace cairn::net
