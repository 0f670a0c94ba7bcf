#include "engine/tenants.h"

#include <utility>

namespace cairn {

TenantTicket& TenantTicket::operator=(TenantTicket&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  counts_ = std::move(other.counts_);
  tenant_ = std::move(other.tenant_);
  return *this;
}

void TenantTicket::give_back() noexcept {
  if (counts_ == nullptr) return;
  {
    const std::lock_guard lock(counts_->mutex);
    const auto entry = counts_->requests.find(tenant_);
    if (--entry->second == 0) counts_->requests.erase(entry);
  }
  counts_.reset();
}

Result<TenantTicket> Tenants::admit(const std::string& tenant) {
  if (requests_max_ == 0) return TenantTicket();
  TenantTicket ticket(counts_, tenant);
  const std::lock_guard lock(counts_->mutex);
  const auto entry = counts_->requests.try_emplace(tenant, 0).first;
  if (entry->second >= requests_max_) {
    ticket.counts_.reset();
    return fail(Code::kQueueFull,
                "this client has {} requests waiting or running already, as many as one may; try again later",
                requests_max_);
  }
  ++entry->second;
  return ticket;
}

}  // namespace cairn
