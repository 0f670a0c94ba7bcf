/// Masks that an automaton's rows have had.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/masks/terminal_walk.h"

namespace cairn::grammar {

/// Terminal walks and masks of one automaton and one vocabulary.
struct MaskCache {
  static constexpr size_t kBytesMax = size_t{8} << 20;

  uint64_t vocabulary = 0;
  std::unordered_map<RegexId, std::shared_ptr<const TerminalWalk>> walks;
  std::unordered_map<RowId, TokenBits> whole;
  std::unordered_map<RowId, std::vector<TokenId>> few;
  std::unordered_map<RowId, uint64_t> large_work;  ///< of the masks that took over kLargeMaskWork
  size_t bytes = 0;

  bool has(RowId row) const { return few.contains(row) || whole.contains(row); }
  /// Fills a mask of zeros.
  bool get(RowId row, std::span<uint64_t> mask) const {
    if (const auto found = few.find(row); found != few.end()) {
      for (TokenId token : found->second) add_token(mask, token);
      return true;
    }
    const auto found = whole.find(row);
    if (found == whole.end()) return false;
    std::ranges::copy(found->second, mask.begin());
    return true;
  }

  void put(RowId row, std::span<const uint64_t> mask) {
    if (bytes > kBytesMax) {
      whole.clear();
      few.clear();
      large_work.clear();
      bytes = 0;
    }
    size_t count = 0;
    for (uint64_t word : mask) count += static_cast<size_t>(std::popcount(word));
    if (count * sizeof(TokenId) > mask.size_bytes() / 4) {
      whole.emplace(row, TokenBits(mask.begin(), mask.end()));
      bytes += mask.size_bytes();
      return;
    }
    std::vector<TokenId>& tokens = few[row];
    tokens.reserve(count);
    for (size_t i = 0; i < mask.size(); ++i) {
      for (uint64_t word = mask[i]; word != 0; word &= word - 1) {
        tokens.push_back(TokenId{static_cast<int32_t>(i * 64 + static_cast<size_t>(std::countr_zero(word)))});
      }
    }
    bytes += count * sizeof(TokenId) + 64;
  }
};

}  // namespace cairn::grammar
