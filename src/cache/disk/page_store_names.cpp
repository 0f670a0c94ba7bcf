// Conversations that clients have named: their tokens, one file each.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/hash.h"
#include "cache/disk/page_store.h"

namespace cairn::cache::disk {
namespace {

constexpr uint64_t kNamedMagic = 0x31656d616e6b7663;  // "cvkname1"
/// Tokens of the longest contexts.
constexpr int64_t kNamedBytesMax = int64_t{64} << 20;

/// What lies before the bytes. All fields are little-endian, as in memory.
struct NamedHeader {
  uint64_t magic = kNamedMagic;
  uint64_t owner = 0;
  uint64_t salt = 0;
  uint64_t checksum = 0;  // of the other fields and the bytes, seeded by the secret
};

uint64_t checksum_of_named(NamedHeader header, std::span<const std::byte> bytes, uint64_t seed) {
  header.checksum = 0;
  return hash64(bytes, hash64(std::as_bytes(std::span(&header, 1)), seed));
}

/// nullopt: not what a store wrote.
std::optional<NamedHeader> decode_named(std::span<const std::byte> all, uint64_t seed) {
  NamedHeader header;
  if (all.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, all.data(), sizeof header);
  const bool whole =
      header.magic == kNamedMagic && header.checksum == checksum_of_named(header, all.subspan(sizeof header), seed);
  return whole ? std::optional(header) : std::nullopt;
}

}  // namespace

// The name itself never becomes a path.
std::string PageStore::path_of_name(int32_t space, uint64_t owner, std::string_view name) const {
  const std::string of = [&] {
    const std::lock_guard lock(mutex_);
    return spaces_[static_cast<size_t>(space)]->name;
  }();
  const PageDigest digest = keyed("name", fmt::format("{} {:016x} {}", of, owner, name));
  return fmt::format("{}/{}/{:016x}{:016x}", folder_, kNamesFolder, digest.high, digest.low);
}

Result<void> PageStore::put_named(int32_t space, uint64_t owner, std::string_view name, uint64_t salt,
                                  std::span<const std::byte> bytes) {
  const std::string folder = fmt::format("{}/{}", folder_, kNamesFolder);
  const std::string path = path_of_name(space, owner, name);
  CAIRN_TRY_VOID(files_.make_folder(folder));
  CAIRN_TRY(const std::vector<std::string> names, files_.list(folder));
  if (names.size() >= kNamedMax && !files_.exists(path)) {
    return fail_at(folder_, Code::kTooLarge, "{} conversations are saved there; delete some with `cairn cache clear`",
                   kNamedMax);
  }
  NamedHeader header{.owner = owner, .salt = salt};
  header.checksum = checksum_of_named(header, bytes, seed_);
  std::vector<std::byte> all(sizeof header + bytes.size());
  std::memcpy(all.data(), &header, sizeof header);
  std::ranges::copy(bytes, all.begin() + sizeof header);
  CAIRN_TRY_VOID(replace_file(files_, folder, path.substr(folder.size() + 1), all));
  return {};
}

Result<NamedBytes> PageStore::get_named(int32_t space, uint64_t owner, std::string_view name) const {
  const std::string path = path_of_name(space, owner, name);
  if (!files_.exists(path)) return fail(Code::kNotFound, "nothing is saved under this name");
  CAIRN_TRY(const std::unique_ptr<File> file, files_.open(path));
  CAIRN_TRY(const std::vector<std::byte> all, read_whole(*file, kNamedBytesMax));
  const std::optional<NamedHeader> header = decode_named(all, seed_);
  if (!header || header->owner != owner)
    return fail_at(path, Code::kCorruptFile, "what is saved under this name is not what was written");
  return NamedBytes{header->salt, {all.begin() + sizeof *header, all.end()}};
}

Result<void> PageStore::erase_named(std::span<const uint64_t> owners) {
  const std::string folder = fmt::format("{}/{}", folder_, kNamesFolder);
  const auto names = files_.list(folder);
  if (!names.has_value()) return {};  // nobody has named anything
  for (const std::string& name : *names) {
    const std::string path = folder + "/" + name;
    CAIRN_TRY(const std::unique_ptr<File> file, files_.open(path));
    const auto all = read_whole(*file, kNamedBytesMax);
    const auto header = all.has_value() ? decode_named(*all, seed_) : std::nullopt;
    if (header && std::ranges::find(owners, header->owner) == owners.end()) continue;
    CAIRN_TRY(const int64_t size, file->size());
    const std::vector<std::byte> zeros(static_cast<size_t>(std::min(size, kNamedBytesMax)));
    CAIRN_TRY_VOID(file->write(0, zeros));
    CAIRN_TRY_VOID(file->sync());
    CAIRN_TRY_VOID(files_.remove(path));
  }
  return {};
}

}  // namespace cairn::cache::disk
