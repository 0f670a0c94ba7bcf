#include "grammar/masks/token_walks.h"

#include <bit>
#include <optional>
#include <vector>

namespace cairn::grammar {
namespace {

constexpr uint64_t kClosingWeight = 64;

// SplitMix64 (Steele, Lea and Flood 2014).
uint64_t next_random(uint64_t& state) {
  state += 0x9E37'79B9'7F4A'7C15;
  uint64_t result = state;
  result = (result ^ (result >> 30)) * 0xBF58'476D'1CE4'E5B9;
  result = (result ^ (result >> 27)) * 0x94D0'49BB'1331'11EB;
  return result ^ (result >> 31);
}

// Bits of the tokens that make texts of JSON end.
std::vector<uint64_t> closing_tokens(const TokenMasks& masks) {
  std::vector<uint64_t> result(masks.words());
  for (size_t i = 0; i < masks.tokens(); ++i) {
    const TokenId token{static_cast<int32_t>(i)};
    const bool closing =
        masks.ends_generation(token) || masks.piece(token).find_first_of("\"}],") != std::string_view::npos;
    if (closing) result[i / 64] |= uint64_t{1} << (i % 64);
  }
  return result;
}

uint64_t weight_of(uint64_t allowed, uint64_t closing) {
  return static_cast<uint64_t>(std::popcount(allowed & ~closing)) +
         kClosingWeight * static_cast<uint64_t>(std::popcount(allowed & closing));
}

// Nullopt: no token is allowed.
std::optional<TokenId> draw(std::span<const uint64_t> mask, std::span<const uint64_t> closing, uint64_t& random) {
  uint64_t total = 0;
  for (size_t i = 0; i < mask.size(); ++i) total += weight_of(mask[i], closing[i]);
  if (total == 0) return std::nullopt;
  uint64_t left = next_random(random) % total;
  for (size_t i = 0; i < mask.size(); ++i) {
    const uint64_t here = weight_of(mask[i], closing[i]);
    if (left >= here) {
      left -= here;
      continue;
    }
    for (uint64_t word = mask[i]; word != 0; word &= word - 1) {
      const uint64_t lowest = word & -word;
      const uint64_t weight = weight_of(lowest, closing[i]);
      if (left < weight) return TokenId{static_cast<int32_t>(i * 64 + static_cast<size_t>(std::countr_zero(word)))};
      left -= weight;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string forced_text(Matcher& matcher, size_t bytes_max) {
  const size_t before = matcher.position();
  std::string result;
  while (result.size() < bytes_max) {
    const std::optional<uint8_t> byte = matcher.forced();
    if (!byte.has_value() || !matcher.push(*byte)) break;
    result.push_back(static_cast<char>(*byte));
  }
  matcher.rewind(before);
  return result;
}

DrawnText draw_text(const TokenMasks& masks, Matcher& matcher, uint64_t seed, int32_t tokens_max) {
  const std::vector<uint64_t> closing = closing_tokens(masks);
  std::vector<uint64_t> mask(masks.words());
  DrawnText result;
  for (; result.tokens < tokens_max; ++result.tokens) {
    masks.compute(matcher, mask);
    const std::optional<TokenId> token = draw(mask, closing, seed);
    if (!token.has_value()) return result;
    if (masks.ends_generation(*token)) {
      result.ended = true;
      return result;
    }
    if (!masks.push(matcher, *token)) return result;
    result.text += masks.piece(*token);
  }
  return result;
}

}  // namespace cairn::grammar
