/// Who may ask, and how much: API keys, and limits of keys and addresses. See docs/access.md.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "api/access/key_file.h"
#include "api/access/principal.h"
#include "api/access/rate_meter.h"
#include "api/errors.h"
#include "base/error.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// How many addresses are remembered. Over it, the one that has not asked for longest is forgotten, and begins anew
/// with all that its limits allow.
inline constexpr size_t kAddressesMax = 65'536;

struct AccessOptions {
  std::vector<std::string> keys;  ///< texts of keys that may do everything
  std::string key_file;           ///< empty: none
  RateLimits address_limits;      ///< of each address that shows no valid key
  size_t addresses_max = kAddressesMax;
};

/// Who may ask an endpoint, where the server has keys: see docs/access.md.
enum class AccessRule {
  kOpen,         ///< everybody: whoever asks for nothing but whether the server is there
  kAnyKey,       ///< who shows a key
  kManagingKey,  ///< who shows a key that may manage: what fetches, changes, deletes, loads or unloads models
};

/// A request that was let in. Counts as one that runs until `end`, or until it is destroyed.
class AccessTicket {
 public:
  explicit AccessTicket(std::shared_ptr<const Principal> principal) : principal_(std::move(principal)) {}
  AccessTicket(AccessTicket&&) noexcept = default;
  AccessTicket& operator=(AccessTicket&&) = delete;
  ~AccessTicket() { end(); }
  /// May be called again. Not thread-safe.
  void end() {
    const auto ended = std::exchange(principal_, nullptr);
    if (ended != nullptr && ended->meter() != nullptr) ended->meter()->leave();
  }
  /// Null once it has ended.
  const std::shared_ptr<const Principal>& principal() const { return principal_; }

 private:
  std::shared_ptr<const Principal> principal_;
};

/// Why a request is not let in.
struct Refusal {
  RefusalReason reason{};
  std::string message;
  std::chrono::milliseconds retry_after{};
  std::shared_ptr<const Principal> principal;  ///< whose limit it is; null: of no limit
};

class Access {
 public:
  /// Errors: those of the keys and of the key file.
  static Result<std::unique_ptr<Access>> make(AccessOptions options);

  /// Whether a key is needed.
  bool has_keys() const;
  /// Reads the key file again; limits keep what has been used of them. On an error all stays as it was. Any thread.
  Result<void> reload();
  /// Whether there is anything to reload.
  bool reloads() const { return !options_.key_file.empty(); }
  /// Whether a request with such a head to an endpoint of that rule may send its body: not without a key, also where
  /// none is asked for, nor if `admit` refuses its key. The server's thread.
  bool may_send(const net::HttpRequest& head, AccessRule rule) const;
  /// `rule`: of the endpoint that is asked. The server's thread.
  std::variant<AccessTicket, Refusal> admit(const net::HttpRequest& request, AccessRule rule);

 private:
  struct Holder {
    net::Sha256 digest{};  // of the key
    std::shared_ptr<const Principal> principal;
  };
  /// Its key is a hash of the key's hash and of pepper_, which nobody knows: how long a search takes says nothing about
  /// how much of a key, or of its hash, was right. What is found is compared in constant time.
  using Holders = std::map<net::Sha256, Holder>;

  explicit Access(AccessOptions options);
  Result<std::vector<Key>> read_keys() const;
  net::Sha256 peppered(const net::Sha256& digest) const;
  static std::variant<AccessTicket, Refusal> enter(std::shared_ptr<const Principal> principal);
  std::variant<AccessTicket, Refusal> refuse_key(const net::HttpRequest& request);
  /// Null: the request shows no valid key.
  std::shared_ptr<const Principal> of_key(const net::HttpRequest& request) const;
  /// Null: addresses have no limits.
  std::shared_ptr<const Principal> of_address(const net::HttpRequest& request);

  AccessOptions options_;
  std::vector<Key> flag_keys_;  // of options_.keys, whose texts are forgotten
  const std::string pepper_;
  mutable std::mutex mutex_;  // guards the next member
  std::shared_ptr<const Holders> holders_ = std::make_shared<const Holders>();

  // Server's thread. The address that asked last is the first.
  struct Address {
    std::string address;
    std::shared_ptr<const Principal> principal;
  };
  std::list<Address> addresses_;
  std::unordered_map<std::string, std::list<Address>::iterator> by_address_;
};

}  // namespace cairn::api
