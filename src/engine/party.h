/// Whose request it is and how urgent: what the scheduling knows of a request besides its size and deadline.
#pragma once

#include <cstdint>
#include <string_view>

namespace cairn::engine {

/// The owner of a request: hashes of GenerateRequest's client and tenant.
struct Party {
  uint64_t client = 0;
  uint64_t tenant = 0;
  bool operator==(const Party&) const = default;
};
inline constexpr uint64_t kNoTenant = 0;  ///< the hash of an empty tenant name
Party party_of(std::string_view client, std::string_view tenant);

enum class Priority {
  kInteractive,  ///< a user is waiting
  kBatch,        ///< gets a share, and what interactive requests leave
};
inline constexpr int kPriorities = 2;

}  // namespace cairn::engine
