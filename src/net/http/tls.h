/// TLS 1.2 and 1.3 for HTTP connections, on OpenSSL: a certificate with its key, and the session of one connection.
#pragma once

#include <boost/system/error_code.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

struct ssl_ctx_st;
struct ssl_st;

namespace cairn::net {

/// How long a client may take to agree on keys.
inline constexpr std::chrono::seconds kHandshakeTimeout{20};

/// A server's certificate and key. Immutable; sessions that use it may outlive it.
class TlsContext {
 public:
  /// Reads PEM files: the certificate with those that link it to a known one behind it, and its key. Warns of a
  /// certificate that is not valid now, and of a key that every user of the machine may read. From then on the process
  /// ignores SIGPIPE, as OpenSSL writes to sockets that may be closed. Errors: those of read_text_file,
  /// kCorruptFile (not of that form; the key has a passphrase; the two do not belong together), with the file and the
  /// reason.
  static Result<std::shared_ptr<const TlsContext>> load(const std::string& certificate_file,
                                                        const std::string& key_file);
  /// The day on which the certificate ends, "2027-11-30".
  const std::string& valid_until() const { return valid_until_; }
  ssl_ctx_st* native() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  TlsContext() = default;
  Result<void> read_files(const std::string& certificate_file, const std::string& key_file);
  void read_validity(const std::string& certificate_file);

  std::unique_ptr<ssl_ctx_st, Free> context_;
  std::string valid_until_;
};

/// One connection's side of a server. Nothing here blocks: what the socket does not do at once is told by the state.
/// Server's thread.
class TlsSession {
 public:
  enum class State {
    kDone,
    kWaitsForRead,   ///< call again when the socket has something to read
    kWaitsForWrite,  ///< call again when the socket takes something
    kEnded,          ///< the client sends no more
    kFailed,
  };

  /// On a non-blocking socket, which outlives it. Throws std::bad_alloc.
  TlsSession(const TlsContext& context, int socket);

  State handshake();
  /// Whether the handshake has failed because the client speaks HTTP without TLS.
  bool got_plain_http() const { return got_plain_http_; }
  /// Why it has failed, for the log.
  const std::string& failure() const { return failure_; }
  /// Whether bytes that came before wait here to be read.
  bool has_bytes() const;
  /// kDone: `count` bytes, at least one, are in `room`.
  State read(std::span<char> room, size_t& count);
  /// How many of the bytes are sent. Errors: would_block (the rest has to be sent again, with the same beginning, once
  /// the socket takes something), connection_reset.
  size_t write_some(std::string_view bytes, boost::system::error_code& error);
  /// Tells the client that nothing follows, if the socket takes that at once.
  void end();

 private:
  struct Free {
    void operator()(ssl_st* session) const;
  };
  State state_of(int result);

  std::unique_ptr<ssl_st, Free> session_;
  bool got_plain_http_ = false;
  bool established_ = false;
  std::string failure_;
};

}  // namespace cairn::net
