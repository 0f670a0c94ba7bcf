/// 64-bit hashes and checksums (XXH3). The same on every machine; not for keeping secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cairn {

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
inline uint64_t hash64(std::string_view text, uint64_t seed = 0) {
  return hash64(std::as_bytes(std::span(text.data(), text.size())), seed);
}

/// For tables whose keys strangers choose: other in every process, so that nobody knows which keys have the same hash.
struct SecretHash {
  size_t operator()(std::string_view text) const;
};

}  // namespace cairn
