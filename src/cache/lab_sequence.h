/// For tests of the prefix cache: layouts, tokens, and sequences with the expected contents of their pages.
#pragma once

#include <utility>
#include <vector>

#include "cache/prefix_cache.h"

namespace cairn::cache {

inline KvGroup full_group() { return {KvKind::kFull, 0, {{1, 4, 0}}, 0}; }
inline KvGroup latent_group() { return {KvKind::kLatent, 0, {{1, 4, 0}}, 0}; }
inline KvGroup window_group(int32_t window) { return {KvKind::kWindow, window, {{1, 4, 0}}, 0}; }
inline KvGroup optional_window_group(int32_t window) {
  KvGroup group = window_group(window);
  group.optional = true;
  return group;
}
inline KvGroup state_group() { return {KvKind::kState, 0, {}, 16}; }

struct LabSequence {
  uint64_t salt = 0;
  std::vector<TokenId> tokens;
  std::vector<uint64_t> hashes;  // [i]: hash of salt and the first i tokens
  int32_t computed = 0;
  PrefixCursor cursor;
  PageTable table;
};

/// A sequence at its start, before any lookup.
inline LabSequence lab_sequence(std::vector<TokenId> tokens, uint64_t salt) {
  LabSequence made;
  made.salt = salt;
  made.tokens = std::move(tokens);
  made.cursor = PrefixCache::root(salt);
  uint64_t hash = salt * 0x9e3779b97f4a7c15 + 1;
  made.hashes.push_back(hash);
  for (const TokenId token : made.tokens) {
    hash = (hash ^ static_cast<uint64_t>(index(token) + 1)) * 0xbf58476d1ce4e5b9;
    made.hashes.push_back(hash ^= hash >> 31);
  }
  return made;
}

/// The tokens first, first + 1, ...
inline std::vector<TokenId> counting(int32_t first, int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(TokenId{first + i});
  return tokens;
}
inline std::vector<TokenId> operator+(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace cairn::cache
