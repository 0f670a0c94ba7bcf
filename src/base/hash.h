/// 64-bit hashes and checksums (XXH3). The same on every machine; not cryptographic.
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

/// A hash for tables whose keys come from strangers: seeded differently in every process, so that no one can find keys
/// with equal hashes.
struct SecretHash {
  size_t operator()(std::string_view text) const;
};

}  // namespace cairn
