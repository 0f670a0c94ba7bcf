#include "net/http/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <climits>
#include <csignal>
#include <ctime>
#include <new>

#include "base/log.h"
#include "base/text/text_file.h"

namespace cairn::net {
namespace {

/// The protocol that clients are told of (ALPN), as a list with lengths.
constexpr unsigned char kAlpn[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

int choose_alpn(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size,
                void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kAlpn, sizeof kAlpn, in, in_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

constexpr size_t kPemBytesMax = 4 << 20;  // a chain has some kilobytes

/// Nobody is there to be asked for a passphrase.
int no_passphrase(char*, int, int, void*) { return 0; }

/// The reason of the last failure in OpenSSL.
std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? fmt::format("OpenSSL's error {:#x}", code) : std::string(reason);
}

struct FreePem {
  void operator()(BIO* memory) const { BIO_free(memory); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using PemBytes = std::unique_ptr<BIO, FreePem>;
using Certificate = std::unique_ptr<X509, FreePem>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreePem>;

/// A file's text, which may have been saved with a mark or in UTF-16.
Result<std::string> read_pem(const std::string& path, std::string_view what) {
  CAIRN_TRY_VOID(check_is_file(path, what));
  auto text = read_text_file(path, what, kPemBytesMax);
  if (!text) return fail(Code::kCorruptFile, "{}; it must be in PEM form", text.error().message);
  if (text->empty()) return fail(Code::kCorruptFile, "{}: {} is empty", what, path);
  return text;
}

PemBytes bytes_of(const std::string& text) {
  return PemBytes(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Gives the context the certificate that comes first, and those behind it as its chain.
bool use_certificates(SSL_CTX* context, const std::string& text) {
  const PemBytes bytes = bytes_of(text);
  const Certificate own(PEM_read_bio_X509_AUX(bytes.get(), nullptr, no_passphrase, nullptr));
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (Certificate next{PEM_read_bio_X509(bytes.get(), nullptr, no_passphrase, nullptr)}) {
    if (SSL_CTX_add0_chain_cert(context, next.get()) != 1) return false;
    static_cast<void>(next.release());
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (at_end) ERR_clear_error();
  return at_end;
}

bool use_key(SSL_CTX* context, const std::string& text) {
  const PemBytes bytes = bytes_of(text);
  const PrivateKey key(PEM_read_bio_PrivateKey(bytes.get(), nullptr, no_passphrase, nullptr));
  return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1;
}

void warn_of_open_key(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) == 0 && (about.st_mode & S_IROTH) != 0)
    log_warning("every user of this machine may read the TLS key {}; forbid it with: chmod o-rwx {}", path, path);
}

}  // namespace

void TlsContext::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void TlsSession::Free::operator()(ssl_st* session) const { SSL_free(session); }

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const std::string& certificate_file,
                                                           const std::string& key_file) {
  std::signal(SIGPIPE, SIG_IGN);
  ERR_clear_error();
  auto made = std::shared_ptr<TlsContext>(new TlsContext());
  made->context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* context = made->context_.get();
  if (context == nullptr) return fail(Code::kInternal, "cannot use TLS: {}", openssl_reason());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context,
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // clients keep their sessions
  SSL_CTX_set_alpn_select_cb(context, choose_alpn, nullptr);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  CAIRN_TRY_VOID(made->read_files(certificate_file, key_file));
  made->read_validity(certificate_file);
  warn_of_open_key(key_file);
  return made;
}

Result<void> TlsContext::read_files(const std::string& certificate_file, const std::string& key_file) {
  SSL_CTX* context = context_.get();
  CAIRN_TRY(const std::string certificate, read_pem(certificate_file, "the TLS certificate"));
  CAIRN_TRY(const std::string key, read_pem(key_file, "the TLS key"));
  if (!use_certificates(context, certificate)) {
    return fail(Code::kCorruptFile, "cannot use the TLS certificate {}: {}; it must be in PEM form", certificate_file,
                openssl_reason());
  }
  if (key.find("ENCRYPTED") != std::string::npos) {
    return fail(Code::kCorruptFile,
                "cannot use the TLS key {}: it has a passphrase; take that away with: openssl pkey -in {} -out KEY.pem",
                key_file, key_file);
  }
  ERR_clear_error();
  if (use_key(context, key)) return {};
  if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH ||
      ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_TYPE_MISMATCH) {
    return fail(Code::kCorruptFile, "the TLS key {} does not belong to the certificate {}", key_file, certificate_file);
  }
  return fail(Code::kCorruptFile, "cannot use the TLS key {}: {}; it must be in PEM form", key_file, openssl_reason());
}

void TlsContext::read_validity(const std::string& certificate_file) {
  const X509* certificate = SSL_CTX_get0_certificate(context_.get());
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1)
    valid_until_ = fmt::format("{:04}-{:02}-{:02}", end.tm_year + 1900, end.tm_mon + 1, end.tm_mday);
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    log_warning("the TLS certificate {} ended on {}: clients refuse it", certificate_file, valid_until_);
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    log_warning("the TLS certificate {} is not valid yet: clients refuse it", certificate_file);
}

TlsSession::TlsSession(const TlsContext& context, int socket) : session_(SSL_new(context.native())) {
  if (session_ == nullptr || SSL_set_fd(session_.get(), socket) != 1) throw std::bad_alloc();
  SSL_set_accept_state(session_.get());
}

TlsSession::State TlsSession::state_of(int result) {
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_NONE:
      return State::kDone;
    case SSL_ERROR_WANT_READ:
      return State::kWaitsForRead;
    case SSL_ERROR_WANT_WRITE:
      return State::kWaitsForWrite;
    case SSL_ERROR_ZERO_RETURN:
      return State::kEnded;
    default:
      break;
  }
  const unsigned long code = ERR_peek_error();
  got_plain_http_ = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST;
  failure_ = code == 0 ? "the connection broke" : openssl_reason();
  established_ = false;  // nothing can be said any more
  return State::kFailed;
}

TlsSession::State TlsSession::handshake() {
  ERR_clear_error();
  const State state = state_of(SSL_do_handshake(session_.get()));
  established_ = state == State::kDone;
  return state;
}

bool TlsSession::has_bytes() const { return SSL_has_pending(session_.get()) == 1; }

TlsSession::State TlsSession::read(std::span<char> room, size_t& count) {
  ERR_clear_error();
  return state_of(SSL_read_ex(session_.get(), room.data(), room.size(), &count));
}

size_t TlsSession::write_some(std::string_view bytes, boost::system::error_code& error) {
  ERR_clear_error();
  size_t count = 0;
  const State state = state_of(SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &count));
  if (state == State::kDone) return count;
  // Without renegotiation nothing that is written waits for the client to write.
  error = state == State::kWaitsForWrite ? boost::asio::error::would_block : boost::asio::error::connection_reset;
  return 0;
}

void TlsSession::end() {
  if (!std::exchange(established_, false)) return;
  ERR_clear_error();
  SSL_shutdown(session_.get());
}

}  // namespace cairn::net
