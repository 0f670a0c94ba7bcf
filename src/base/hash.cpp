#include "base/hash.h"

#include <xxhash.h>

namespace cairn {

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace cairn
