/// The fake model's KV pages: for every position the token, and a hash of all tokens up to it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "model/runner.h"
#include "sampling/random.h"

namespace cairn::engine::fake_pages {

// Where the key and value of a position are: the token, and the hash of the history that ends with it.
inline std::byte* place(const kernels::KvView& kv, const model::BatchSlice& slice, int32_t position) {
  const PageId page = slice.pages->groups.at(0).at(static_cast<size_t>(position / kernels::kPageTokens));
  EXPECT_NE(page, kNoPage);
  return kv.base + index(page) * kv.page_stride + kv.layer_offset + position % kernels::kPageTokens * int64_t{4};
}
inline uint32_t chain(uint32_t before, TokenId token) {
  return static_cast<uint32_t>(sampling::mix_bits((uint64_t{before} << 32) + static_cast<uint64_t>(index(token)) + 1));
}
inline void write(const kernels::KvView& kv, const model::BatchSlice& slice, int32_t position, TokenId token) {
  uint32_t before = 0;
  if (position > 0) std::memcpy(&before, place(kv, slice, position - 1) + int64_t{kernels::kPageTokens} * 4, 4);
  const uint32_t hash = chain(before, token);
  std::byte* key = place(kv, slice, position);
  std::memcpy(key, &token, 4);
  std::memcpy(key + int64_t{kernels::kPageTokens} * 4, &hash, 4);
}
/// Reads tokens [0, end) of the slice's sequence.
inline void read(const kernels::KvView& kv, const model::BatchSlice& slice, int32_t end,
                 std::vector<TokenId>& history) {
  history.clear();
  uint32_t hash = 0;
  for (int32_t position = 0; position < end; ++position) {
    const std::byte* key = place(kv, slice, position);
    std::memcpy(&history.emplace_back(), key, 4);
    hash = chain(hash, history.back());
    uint32_t stored = 0;
    std::memcpy(&stored, key + int64_t{kernels::kPageTokens} * 4, 4);
    EXPECT_EQ(stored, hash) << "position " << position;
  }
}

}  // namespace cairn::engine::fake_pages
