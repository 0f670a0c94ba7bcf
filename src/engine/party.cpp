#include "engine/party.h"

#include "base/hash.h"

namespace cairn::engine {

Party party_of(std::string_view client, std::string_view tenant) {
  return {.client = hash64(client), .tenant = tenant.empty() ? kNoTenant : hash64(tenant) | 1};
}

}  // namespace cairn::engine
