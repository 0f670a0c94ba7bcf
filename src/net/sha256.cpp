#include "net/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <charconv>

namespace cairn::net {

Sha256 sha256(std::string_view bytes) {
  Sha256 digest;
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

std::optional<Sha256> sha256_from_hex(std::string_view digits) {
  constexpr size_t kDigitsPerByte = 2;
  constexpr int kHex = 16;
  Sha256 digest;
  if (digits.size() != digest.size() * kDigitsPerByte) return std::nullopt;
  for (uint8_t& byte : digest) {
    const char* end = digits.data() + kDigitsPerByte;
    if (std::from_chars(digits.data(), end, byte, kHex).ptr != end) return std::nullopt;
    digits.remove_prefix(kDigitsPerByte);
  }
  return digest;
}

std::string hex_text(const Sha256& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

bool equal_in_constant_time(const Sha256& a, const Sha256& b) {
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace cairn::net
