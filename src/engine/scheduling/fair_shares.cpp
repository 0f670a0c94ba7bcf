#include "engine/scheduling/fair_shares.h"

#include <algorithm>
#include <limits>

namespace cairn::engine {

const Holdings::Level::Entry* Holdings::Level::find(uint64_t who, uint64_t among) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.who == who && entry.among == among; });
  return found == entries_.end() ? nullptr : &*found;
}

Holdings::Level::Entry& Holdings::Level::entry(uint64_t who, uint64_t among) {
  const Entry* found = find(who, among);
  if (found != nullptr) return entries_[static_cast<size_t>(found - entries_.data())];
  return entries_.emplace_back(Entry{.who = who, .among = among, .is_new = true});
}

int64_t Holdings::Level::of(uint64_t who, uint64_t among) const {
  const Entry* found = find(who, among);
  return found == nullptr ? 0 : found->amount;
}

void Holdings::Level::add(uint64_t who, uint64_t among, int64_t amount) { entry(who, among).amount += amount; }

int64_t Holdings::Level::most(uint64_t among) const {
  int64_t most = 0;
  for (const Entry& entry : entries_) {
    if (entry.among == among) most = std::max(most, entry.amount);
  }
  return most;
}

void Holdings::Level::begin() {
  for (Entry& entry : entries_) entry.wants = entry.is_new = false;
}

void Holdings::Level::want(uint64_t who, uint64_t among) { entry(who, among).wants = true; }

void Holdings::Level::settle() {
  std::erase_if(entries_, [](const Entry& entry) { return !entry.wants; });
  for (Entry& entry : entries_) {
    if (!entry.is_new) continue;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Entry& other : entries_) {
      if (!other.is_new && other.among == entry.among) least = std::min(least, other.amount);
    }
    entry.amount = least == std::numeric_limits<int64_t>::max() ? 0 : least;
  }
}

void Holdings::reserve(size_t parties) {
  clients_.reserve(parties);
  tenants_.reserve(parties);
}

void Holdings::clear() {
  clients_.clear();
  tenants_.clear();
}

void Holdings::add(const Party& party, int64_t amount) {
  clients_.add(party.client, 0, amount);
  tenants_.add(party.tenant, party.client, amount);
}

bool Holdings::yields(const Party& other, const Party& party) const {
  const Held theirs = of(other);
  const Held ours = of(party);
  return other.client == party.client ? theirs.tenant >= ours.tenant + 2 : theirs.client >= ours.client + 2;
}

bool Holdings::somebody_yields(const Party& party) const {
  const Held ours = of(party);  // the party itself is never found: it does not have two more than it has
  return clients_.most(0) >= ours.client + 2 || tenants_.most(party.client) >= ours.tenant + 2;
}

void Holdings::begin() {
  clients_.begin();
  tenants_.begin();
}

void Holdings::want(const Party& party) {
  clients_.want(party.client, 0);
  tenants_.want(party.tenant, party.client);
}

void Holdings::settle() {
  clients_.settle();
  tenants_.settle();
}

}  // namespace cairn::engine
