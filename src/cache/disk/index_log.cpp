#include "cache/disk/index_log.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hash.h"

namespace cairn::cache::disk {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr std::array<char, 8> kHeaderMagic = {'c', 'a', 'i', 'r', 'n', '-', 'k', 'v'};
constexpr uint32_t kEntryMagic = 0x654b4331;  // "1CKe"
constexpr size_t kHeaderChecksumAt = kHeaderBytes - sizeof(uint64_t);
constexpr size_t kEntryChecksumAt = kEntryBytes - sizeof(uint64_t);

// The header and the entries as they lie in the file, without their checksums.
struct RawHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t page_tokens;
  uint32_t groups;
  uint32_t zero;
  uint64_t space_high, space_low;
  std::array<int64_t, kKvGroupsMax> slot_bytes;
};
static_assert(sizeof(RawHeader) <= kHeaderChecksumAt);

struct RawEntry {
  uint32_t magic;
  uint8_t kind;
  uint8_t group;
  uint8_t count;
  uint8_t zero;
  uint32_t slot;
  int32_t begin;
  uint64_t digest_high, digest_low;
  uint64_t parent_high, parent_low;
  uint64_t owner;
  uint64_t checksum;
  int64_t unix_s;
};
static_assert(sizeof(RawEntry) <= kEntryChecksumAt);

void seal(std::span<std::byte> bytes, uint64_t seed) {
  const size_t at = bytes.size() - sizeof(uint64_t);
  const uint64_t checksum = hash64(bytes.first(at), seed);
  std::memcpy(bytes.data() + at, &checksum, sizeof checksum);
}

bool is_sealed(std::span<const std::byte> bytes, uint64_t seed) {
  const size_t at = bytes.size() - sizeof(uint64_t);
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + at, sizeof checksum);
  return checksum == hash64(bytes.first(at), seed);
}

}  // namespace

HeaderBytes encode(const IndexHeader& header, uint64_t seed) {
  RawHeader raw{.magic = kHeaderMagic,
                .version = kFormatVersion,
                .page_tokens = kernels::kPageTokens,
                .groups = static_cast<uint32_t>(header.slot_bytes.size()),
                .zero = 0,
                .space_high = header.space.high,
                .space_low = header.space.low,
                .slot_bytes = {}};
  std::ranges::copy(header.slot_bytes, raw.slot_bytes.begin());
  HeaderBytes bytes{};
  std::memcpy(bytes.data(), &raw, sizeof raw);
  seal(bytes, seed);
  return bytes;
}

EntryBytes encode(const IndexEntry& entry, uint64_t seed) {
  const RawEntry raw{.magic = kEntryMagic,
                     .kind = static_cast<uint8_t>(entry.kind),
                     .group = static_cast<uint8_t>(entry.address.group),
                     .count = static_cast<uint8_t>(entry.origin.count),
                     .zero = 0,
                     .slot = entry.slot,
                     .begin = entry.origin.begin,
                     .digest_high = entry.address.digest.high,
                     .digest_low = entry.address.digest.low,
                     .parent_high = entry.origin.parent.high,
                     .parent_low = entry.origin.parent.low,
                     .owner = entry.origin.owner,
                     .checksum = entry.checksum,
                     .unix_s = entry.unix_s};
  EntryBytes bytes{};
  std::memcpy(bytes.data(), &raw, sizeof raw);
  seal(bytes, seed);
  return bytes;
}

std::optional<IndexHeader> decode_header(std::span<const std::byte> bytes, uint64_t seed) {
  if (bytes.size() != kHeaderBytes || !is_sealed(bytes, seed)) return std::nullopt;
  RawHeader raw{};
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.magic != kHeaderMagic || raw.version != kFormatVersion || raw.page_tokens != kernels::kPageTokens)
    return std::nullopt;
  if (raw.groups == 0 || raw.groups > kKvGroupsMax) return std::nullopt;
  IndexHeader header{.space = {raw.space_high, raw.space_low}};
  header.slot_bytes.assign(raw.slot_bytes.begin(), raw.slot_bytes.begin() + raw.groups);
  if (!std::ranges::all_of(header.slot_bytes, [](int64_t slot) { return slot > 0; })) return std::nullopt;
  return header;
}

std::optional<IndexEntry> decode_entry(std::span<const std::byte> bytes, uint64_t seed) {
  if (bytes.size() != kEntryBytes || !is_sealed(bytes, seed)) return std::nullopt;
  RawEntry raw{};
  std::memcpy(&raw, bytes.data(), sizeof raw);
  const bool known =
      raw.kind >= static_cast<uint8_t>(EntryKind::kPut) && raw.kind <= static_cast<uint8_t>(EntryKind::kTouch);
  if (raw.magic != kEntryMagic || !known || raw.group >= kKvGroupsMax) return std::nullopt;
  if (raw.begin < 0 || raw.count > kernels::kPageTokens) return std::nullopt;
  return IndexEntry{.kind = static_cast<EntryKind>(raw.kind),
                    .address = {{raw.digest_high, raw.digest_low}, raw.group},
                    .origin = {{raw.parent_high, raw.parent_low}, raw.owner, raw.begin, raw.count},
                    .slot = raw.slot,
                    .checksum = raw.checksum,
                    .unix_s = raw.unix_s};
}

IndexContents decode_entries(std::span<const std::byte> bytes, uint64_t seed) {
  IndexContents contents;
  contents.entries.reserve(bytes.size() / kEntryBytes);
  while (!bytes.empty()) {
    const size_t length = std::min<size_t>(bytes.size(), kEntryBytes);
    if (const auto entry = decode_entry(bytes.first(length), seed)) {
      contents.entries.push_back(*entry);
    } else {
      ++contents.damaged;
    }
    bytes = bytes.subspan(length);
  }
  return contents;
}

}  // namespace cairn::cache::disk
