/// Layout of a KV page of the CPU backend: in the order in which attention reads it.
///
/// Keys of a head lie as [key_dim][kPageTokens], one dimension of all tokens side by side, so that scores need no
/// transposing; values lie as [kPageTokens][value_dim]. For kQ8_0 both are cut into pieces of kKvBlock dimensions: a
/// piece's int8 in that order ([kKvBlock][kPageTokens] or [kPageTokens][kKvBlock]), then kPageTokens binary16 scales.
/// For kI16 both lie in pairs, as products of pairs read them: keys [pairs][kPageTokens], a pair of dimensions i and i
/// + key_pairs(key_dim); values [kPageTokens / 2][value_dim], a pair of tokens i and i + kPageTokens / 2; then
/// kPageTokens scales of the tokens. The first of a pair has the lower address. kQ8_0Pairs is both: pieces as kQ8_0's,
/// in each of which the int8 lie in pairs as those of kI16 with kKvBlock dimensions.
///
/// Pages of MlaOperations hold rows one after the other instead. For kQ8_0 a row is the int8 of all its blocks, then
/// their scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "kernels/kv.h"

namespace cairn::kernels::cpu {

/// Bytes of a piece, and the offset of the scales in it.
inline constexpr int64_t kKvPieceBytes = kKvBlockBytes * kPageTokens;
inline constexpr int64_t kKvPieceScales = int64_t{kKvBlock} * kPageTokens;

/// The keys of a head in a page.
inline std::byte* page_keys(const KvView& kv, PageId page, int32_t kv_head) {
  CAIRN_DCHECK(index(page) >= 0);
  return kv.base + index(page) * kv.page_stride + kv.layer_offset +
         kv_head * kPageTokens * kv_row_bytes(kv.type, kv.key_dim);
}
inline std::byte* page_values(const KvView& kv, PageId page, int32_t kv_head) {
  return page_keys(kv, page, kv.kv_heads) + kv_head * kPageTokens * kv_row_bytes(kv.type, kv.value_dim);
}

/// Row `row` of a view of MlaOperations; `pages` are the sequence's pages.
inline std::byte* latent_row(const KvView& kv, std::span<const PageId> pages, int32_t row) {
  const KvRowPlace place = kv_row_place(row, kv.tokens_per_row);
  const PageId page = pages[place.page];
  CAIRN_DCHECK(index(page) >= 0);
  return kv.base + index(page) * kv.page_stride + kv.layer_offset + place.row * kv_row_bytes(kv.type, kv.key_dim);
}

}  // namespace cairn::kernels::cpu
