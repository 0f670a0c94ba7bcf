#include "base/hash.h"

#include <xxhash.h>

#include <random>

namespace cairn {

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

size_t SecretHash::operator()(std::string_view text) const {
  static const uint64_t secret = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return hash64(text, secret);
}

}  // namespace cairn
