/// The index of a space on disk: which page lies in which slot, as an append-only log of fixed entries.
///
/// The file begins with a header of kHeaderBytes and goes on with entries of kEntryBytes, all little-endian, each with
/// a checksum over itself that is seeded by the folder's secret: an entry that was torn, spoilt or made elsewhere is
/// none. What an entry says is a hint; a page counts only if its own checksum is right (page_store.h).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cache/kv_layout.h"

namespace cairn::cache::disk {

/// Version of all files of a folder's spaces. Another one is no error: the space begins anew.
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr int64_t kHeaderBytes = 512;
inline constexpr int64_t kEntryBytes = 128;

/// Names all tokens up to the end of a page, the tenant's salt and everything that decides about the page's bytes: the
/// first half of a SHA-256, chained from page to page.
struct PageDigest {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const PageDigest&) const = default;
};
struct PageDigestHash {
  size_t operator()(const PageDigest& digest) const { return digest.low; }
};

/// The digest of any bytes. In page_store.cpp.
PageDigest digest_of(std::span<const std::byte> bytes);

/// A page of a group of the layout, after the tokens that the digest names.
struct PageAddress {
  PageDigest digest;
  int32_t group = 0;
  bool operator==(const PageAddress&) const = default;
};

/// Where a page comes from.
struct PageOrigin {
  PageDigest parent;   ///< of the page before it; the salt's root at the beginning
  uint64_t owner = 0;  ///< whose it is (DiskTier::owner)
  int32_t begin = 0;   ///< its first position
  int32_t count = 0;   ///< tokens in it: kPageTokens, or fewer at the end of a conversation
};

struct IndexHeader {
  PageDigest space;                   ///< what the space's pages belong to
  std::vector<int64_t> slot_bytes{};  ///< of every group of its layout
};

enum class EntryKind : uint8_t {
  kPut = 1,    ///< the page lies in the slot since; used after its descendants
  kKept = 2,   ///< the same, written anew in order of last use
  kDrop = 3,   ///< the page is gone
  kTouch = 4,  ///< the page and those before it were used
};

struct IndexEntry {
  EntryKind kind = EntryKind::kPut;
  PageAddress address;
  PageOrigin origin;
  uint32_t slot = 0;
  uint64_t checksum = 0;  ///< of the page's bytes and its address
  int64_t unix_s = 0;     ///< when it was made, by a clock that may be wrong
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
using EntryBytes = std::array<std::byte, kEntryBytes>;

/// `seed` is derived from the folder's secret.
HeaderBytes encode(const IndexHeader& header, uint64_t seed);
EntryBytes encode(const IndexEntry& entry, uint64_t seed);
/// nullopt: not a header of this version, or spoilt.
std::optional<IndexHeader> decode_header(std::span<const std::byte> bytes, uint64_t seed);
/// nullopt: spoilt. `bytes` is of any length.
std::optional<IndexEntry> decode_entry(std::span<const std::byte> bytes, uint64_t seed);

struct IndexContents {
  std::vector<IndexEntry> entries;
  int64_t damaged = 0;  ///< entries that were left out, a torn one at the end included
};
/// Entries from the bytes behind a header.
IndexContents decode_entries(std::span<const std::byte> bytes, uint64_t seed);

}  // namespace cairn::cache::disk
