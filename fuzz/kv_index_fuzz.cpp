// The index of the disk tier of the KV cache: bytes as they may lie in a folder that something else wrote to.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/hash.h"
#include "cache/disk/index_log.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::cache::disk;
  constexpr uint64_t kSeed = 44;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (const auto header = decode_header(bytes.first(std::min<size_t>(size, kHeaderBytes)), kSeed)) {
    const HeaderBytes again = encode(*header, kSeed);
    if (!decode_header(again, kSeed)) std::abort();
  }
  const IndexContents contents = decode_entries(bytes, kSeed);
  for (const IndexEntry& entry : contents.entries) {
    if (entry.address.group < 0 || entry.address.group >= cairn::cache::kKvGroupsMax) std::abort();
    if (!decode_entry(encode(entry, kSeed), kSeed)) std::abort();
  }
  // Entries whose checksum is right, of any content.
  if (size >= sizeof(uint64_t)) {
    EntryBytes entry{};
    std::copy_n(bytes.begin(), std::min<size_t>(size, entry.size()), entry.begin());
    const uint64_t checksum = cairn::hash64(std::span(entry).first(kEntryBytes - sizeof(uint64_t)), kSeed);
    std::copy_n(reinterpret_cast<const std::byte*>(&checksum), sizeof checksum, entry.end() - sizeof checksum);
    if (const auto read = decode_entry(entry, kSeed);
        read && (read->origin.begin < 0 || read->origin.count > cairn::kernels::kPageTokens))
      std::abort();
  }
  return 0;
}
