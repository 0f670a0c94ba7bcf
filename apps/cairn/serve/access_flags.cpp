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
  log_warning("listening on {}: EVERYBODY who can reach that address may use this server, without a key", host);
  log_warning("to require keys, make them with cairn key NAME --add-to FILE, and start with --api-key-file FILE");
  if (flags.tls_certificate.empty())
    log_warning("requests and answers are not encrypted; --tls-cert and --tls-key encrypt them");
}

}  // namespace

void AccessFlags::add_to(CLI::App& command) {
  const std::string group = "Who may ask";
  add_list(command, "--api-key", keys,
           "Key that requests must send; separate several with commas. Other users of this machine can see it in the "
           "process list, so CAIRN_API_KEY or --api-key-file is safer (default: none, everybody may ask)")
      ->envname("CAIRN_API_KEY")
      ->group(group);
  command
      .add_option("--api-key-file", key_file,
                  "File of keys, one per line with its name and rules; cairn key makes them. SIGHUP reloads it "
                  "(default: none)")
      ->type_name("FILE")
      ->envname("CAIRN_API_KEY_FILE")
      ->group(group);
  command
      .add_option("--rate-limit", rate_limit,
                  "Limit for each address that sends no valid key, e.g. rpm=60,tpm=20000,concurrent=4: requests and "
                  "tokens per minute, and requests at once (default: no limit)")
      ->check(readable_by(api::parse_rate_limits))
      ->type_name("LIMITS")
      ->group(group);
  command
      .add_option("--allow-host", allow_hosts,
                  "Another host name that a server on a loopback address answers to, besides localhost and --host; "
                  "repeatable (default: none)")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(group);
  add_list(command, "--cors-origins", cors_origins,
           "Origins of web pages that may use this server, besides pages from this machine, apps and browser "
           "extensions, e.g. https://chat.example,https://*.example; * matches anything (default: none)")
      ->group(group);
  auto* certificate = command
                          .add_option("--tls-cert", tls_certificate,
                                      "Serve HTTPS with this certificate (PEM, followed by its chain); SIGHUP "
                                      "reloads it (default: none)")
                          ->type_name("FILE")
                          ->group(group);
  auto* key =
      command
          .add_option("--tls-key", tls_key, "Private key of the certificate, PEM without a passphrase (default: none)")
          ->type_name("FILE")
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
    log_warning(
        "listening on {} without TLS: keys can be read on the network, unless a proxy or a VPN encrypts them; see "
        "--tls-cert",
        host);
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
