#include "serve/access_flags.h"

#include <memory>

#include "api/access/access.h"
#include "api/request_handler.h"
#include "base/log.h"
#include "net/http/tls.h"
#include "values.h"

namespace cairn {
namespace {

Result<void> read_certificate(const AccessFlags& flags, net::HttpServer& server) {
  if (flags.tls_certificate.empty()) return {};
  CAIRN_TRY(auto tls, net::TlsContext::load(flags.tls_certificate, flags.tls_key));
  log_info("TLS certificate {}, valid until {}", flags.tls_certificate, tls->valid_until());
  server.set_tls(std::move(tls));
  return {};
}

void warn_of_strangers(const std::string& host, const AccessFlags& flags) {
  log_warning("listening on {}: EVERYBODY who reaches that address may use this server, and nobody is asked for a key",
              host);
  log_warning("if that is not meant: make keys with `cairn key NAME --add-to FILE` and serve with --api-key-file FILE");
  if (flags.tls_certificate.empty())
    log_warning("what is asked and answered can be read on the way: --tls-cert and --tls-key encrypt it");
}

}  // namespace

void AccessFlags::add_to(CLI::App& command) {
  const std::string group = "Who may ask";
  add_list(command, "--api-key", keys,
           "Key that requests must show, with commas between several; any of them will do. Other users see it in the "
           "list of processes: the variable CAIRN_API_KEY and --api-key-file hide it")
      ->envname("CAIRN_API_KEY")
      ->group(group);
  command
      .add_option("--api-key-file", key_file,
                  "File of keys, one a line with its name and what it may do (docs/access.md); `cairn key` makes them; "
                  "read again on SIGHUP")
      ->envname("CAIRN_API_KEY_FILE")
      ->group(group);
  command
      .add_option("--rate-limit", rate_limit,
                  "What each address may ask for that shows no valid key, e.g. rpm=60,tpm=20000,concurrent=4: requests "
                  "and tokens per minute, requests at once (default: no limit)")
      ->check(readable_by(api::parse_rate_limits))
      ->group(group);
  command
      .add_option("--allow-host", allow_hosts,
                  "Name under which clients and web pages may ask a server on a loopback address, beside localhost and "
                  "--host (once for each name)")
      ->allow_extra_args(false)
      ->group(group);
  add_list(command, "--cors-origins", cors_origins,
           "Origins whose web pages may ask, with commas between, beside pages of this machine, apps and browser "
           "extensions; * in one stands for anything, e.g. https://chat.example,https://*.example")
      ->group(group);
  auto* certificate = command
                          .add_option("--tls-cert", tls_certificate,
                                      "Certificate (PEM, with those that link it to a known one behind it): serves "
                                      "HTTPS; read again on SIGHUP")
                          ->group(group);
  auto* key = command.add_option("--tls-key", tls_key, "The certificate's key (PEM, without a passphrase)")
                  ->needs(certificate)
                  ->group(group);
  certificate->needs(key);
}

Result<void> AccessFlags::set_up(const std::string& host, api::Service& service, net::HttpServer& server) const {
  api::AccessOptions options{.keys = keys, .key_file = key_file, .address_limits = {}};
  if (!rate_limit.empty()) {
    CAIRN_TRY(options.address_limits, api::parse_rate_limits(rate_limit));
  }
  CAIRN_TRY(auto access, api::Access::make(std::move(options)));
  const bool has_keys = access->has_keys();
  if (has_keys || !rate_limit.empty()) service.set_access(std::move(access));
  if (has_keys) server.set_body_check(api::make_body_check(service));
  CAIRN_TRY_VOID(read_certificate(*this, server));
  server.set_browser_rules({.hosts = allow_hosts, .origins = cors_origins, .any_host = has_keys});
  if (!has_keys && !server.on_loopback()) warn_of_strangers(host, *this);
  if (has_keys && !server.on_loopback() && tls_certificate.empty()) {
    log_warning("listening on {} without TLS: keys can be read on the way, unless a proxy or a VPN encrypts it", host);
  }
  return {};
}

void AccessFlags::add_to(Reloads& reloads, api::Service& service, net::HttpServer& server) const {
  if (api::Access* access = service.access(); access != nullptr && access->reloads())
    reloads.add("the API keys", [access] { return access->reload(); });
  if (!tls_certificate.empty())
    reloads.add("the TLS certificate", [this, &server] { return read_certificate(*this, server); });
}

}  // namespace cairn
