/// How many requests each tenant has waiting and running, and the limit on that.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace cairn::engine {

class Tenants;

/// Counts one request of its tenant and client until destroyed. May outlive the Tenants it came from.
class TenantTicket {
 public:
  TenantTicket() = default;
  TenantTicket(TenantTicket&&) noexcept = default;
  TenantTicket& operator=(TenantTicket&& other) noexcept;
  ~TenantTicket() { give_back(); }

 private:
  friend class Tenants;
  struct Counts {
    std::mutex mutex;
    std::unordered_map<std::string, int32_t> requests;
  };
  void give_back() noexcept;

  std::shared_ptr<Counts> counts_;  // null: counts nothing
  std::vector<std::string> names_;  // names under which it counts
};

/// How many tenants' limits a client (an address) has in total, since anyone can make up keys.
inline constexpr int32_t kTenantsOfClient = 4;

/// Thread-safe.
class Tenants {
 public:
  /// With `requests_max` 0 there is no limit, and nothing is counted.
  explicit Tenants(int32_t requests_max) : requests_max_(requests_max) {}

  /// A client's requests without a tenant count as those of one tenant. Error: kQueueFull (the tenant has
  /// `requests_max` requests, or the client has kTenantsOfClient times that).
  Result<TenantTicket> admit(const std::string& client, const std::string& tenant);

 private:
  const int32_t requests_max_;
  std::shared_ptr<TenantTicket::Counts> counts_ = std::make_shared<TenantTicket::Counts>();
};

}  // namespace cairn::engine
