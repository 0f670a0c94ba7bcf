/// Certificates for tests of TLS, and the variables that say which are trusted.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "net/http/tls.h"

namespace cairn::net {

/// Makes certificates that sign themselves.
class Certificates {
 public:
  Certificates() { std::filesystem::create_directories(folder_); }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ / name; }

  /// NAME.pem and NAME-key.pem, valid for the host names and addresses that `hosts` has.
  void write(const std::string& name, const char* passphrase = nullptr,
             const char* hosts = "DNS:localhost,IP:127.0.0.1") const {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3'600);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_version(certificate, X509_VERSION_3);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, hosts);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    X509_sign(certificate, key, EVP_sha256());
    std::FILE* file = std::fopen(path(name + ".pem").c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(path(name + "-key.pem").c_str(), "w");
    PEM_write_PKCS8PrivateKey(file, key, passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), passphrase,
                              passphrase == nullptr ? 0 : static_cast<int>(std::strlen(passphrase)), nullptr, nullptr);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  Result<std::shared_ptr<const TlsContext>> load(const std::string& certificate, const std::string& key) const {
    return TlsContext::load(path(certificate), path(key));
  }

 private:
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / fmt::format("cairn-tls-{}", ::getpid());
};

/// Sets a variable of the environment, or removes it (null), until the end of the scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~ScopedVariable() { set(before_ ? before_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const char* value) const { value == nullptr ? ::unsetenv(name_) : ::setenv(name_, value, 1); }
  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace cairn::net
