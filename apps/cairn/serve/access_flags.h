/// Flags of `serve` that say who may ask it, and what they set up.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "api/service.h"
#include "base/error.h"
#include "net/http/http_server.h"
#include "serve/life.h"

namespace cairn {

struct AccessFlags {
  std::vector<std::string> keys;
  std::string key_file;    ///< empty: none
  std::string rate_limit;  ///< of addresses; empty: none
  std::vector<std::string> allow_hosts;
  std::vector<std::string> cors_origins;
  std::string tls_certificate;  ///< this and tls_key: empty, or both are files
  std::string tls_key;

  void add_to(CLI::App& command);
  /// "http" or "https".
  std::string_view scheme() const { return tls_certificate.empty() ? "http" : "https"; }
  /// Called before serving; `host` is where the server listens. Warns where everybody may ask. Errors: those of the key
  /// file, the limits and the certificate.
  Result<void> set_up(const std::string& host, api::Service& service, net::HttpServer& server) const;
  /// Has the key file and the certificate read again. All outlive `reloads`.
  void add_to(Reloads& reloads, api::Service& service, net::HttpServer& server) const;
};

}  // namespace cairn
