#include "engine/scheduling/tenants.h"

#include <utility>

namespace cairn::engine {

TenantTicket& TenantTicket::operator=(TenantTicket&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  counts_ = std::move(other.counts_);
  names_ = std::move(other.names_);
  return *this;
}

void TenantTicket::give_back() noexcept {
  if (counts_ == nullptr) return;
  {
    const std::lock_guard lock(counts_->mutex);
    for (const std::string& name : names_) {
      const auto entry = counts_->requests.find(name);
      if (--entry->second == 0) counts_->requests.erase(entry);
    }
  }
  counts_.reset();
  names_.clear();
}

Result<TenantTicket> Tenants::admit(const std::string& client, const std::string& tenant) {
  TenantTicket ticket;
  if (requests_max_ == 0) return ticket;
  const std::pair<std::string, int64_t> limits[] = {
      {tenant.empty() ? "without a tenant: " + client : "tenant: " + tenant, requests_max_},
      {"client: " + client, int64_t{kTenantsOfClient} * requests_max_}};
  ticket.names_.reserve(std::size(limits));
  ticket.counts_ = counts_;
  for (const auto& [name, requests_max] : limits) {
    const std::lock_guard lock(counts_->mutex);
    const auto entry = counts_->requests.try_emplace(name, 0).first;
    if (entry->second >= requests_max) {
      return fail(Code::kQueueFull,
                  "this client has {} requests waiting or running already, as many as one may; try again later",
                  requests_max);
    }
    ticket.names_.push_back(name);
    ++entry->second;
  }
  return ticket;
}

}  // namespace cairn::engine
