/// SHA-256 (FIPS 180-4), and comparing secrets by it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::net {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
/// 64 hexadecimal digits, of both cases; nullopt for any other text.
std::optional<Sha256> sha256_from_hex(std::string_view digits);
/// The digest in hexadecimal digits, in lower case.
std::string hex_text(const Sha256& digest);
/// Takes the same time whatever differs.
bool equal_in_constant_time(const Sha256& a, const Sha256& b);

}  // namespace cairn::net
