// What a store does when nobody waits: opening, rewriting indexes, and what `cairn cache` asks for.
#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/system/random_id.h"
#include "cache/disk/page_store.h"

namespace cairn::cache::disk {
namespace {

constexpr size_t kSpaceNameLength = 32;
constexpr int64_t kAboutBytesMax = 1 << 16;
// An index with more is none that a store wrote: see kDeadEntriesMax.
constexpr int64_t kIndexBytesMax = kHeaderBytes + 4 * static_cast<int64_t>(kRecordsMax) * kEntryBytes;

bool is_space_name(std::string_view name) {
  return name.size() == kSpaceNameLength && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

Result<void> PageStore::read_secret() {
  const std::string path = folder_ + "/secret";
  bool made = false;
  if (files_.exists(path)) {
    CAIRN_TRY(const std::unique_ptr<File> file, files_.open(path));
    const auto bytes = read_whole(*file, std::ssize(secret_));
    made = bytes.has_value() && bytes->size() == secret_.size();
    if (made) std::ranges::copy(*bytes, secret_.begin());
    if (!made) log_warning("{} is no secret of this program; a new one begins the folder anew", path);
  }
  if (!made) {
    for (size_t at = 0; at < secret_.size(); at += sizeof(uint64_t)) {
      const uint64_t random = secure_random();
      std::memcpy(secret_.data() + at, &random, sizeof random);
    }
    CAIRN_TRY_VOID(replace_file(files_, folder_, "secret", secret_));
  }
  seed_ = keyed("entries", {}).low;
  page_seed_ = keyed("pages", {}).low;
  return {};
}

Result<void> PageStore::open_spaces() {
  CAIRN_TRY(const std::vector<std::string> names, files_.list(folder_));
  struct Opened {
    std::unique_ptr<Space> space;
    IndexContents contents;
    int64_t last_s = 0;
  };
  std::vector<Opened> opened;
  for (const std::string& name : names) {
    if (!is_space_name(name)) continue;
    auto space = open_space(name);
    Result<std::vector<std::byte>> bytes;
    if (space.has_value()) bytes = read_whole(*(*space)->index, kIndexBytesMax);
    if (!space.has_value() || !bytes.has_value()) {
      const Error& error = space.has_value() ? bytes.error() : space.error();
      log_warning("{}/{}: {}; its pages are forgotten", folder_, name, error.text());
      ++counts_.damaged;
      CAIRN_TRY_VOID(files_.remove(folder_ + "/" + name));
      continue;
    }
    Opened& one = opened.emplace_back();
    one.space = std::move(*space);
    one.space->index_end = std::ssize(*bytes);
    one.contents = decode_entries(std::span(*bytes).subspan(kHeaderBytes), seed_);
    one.space->entries = std::ssize(one.contents.entries) + one.contents.damaged;
    for (const IndexEntry& entry : one.contents.entries) one.last_s = std::max(one.last_s, entry.unix_s);
  }
  // The one that was used last is the last whose pages are evicted.
  std::ranges::stable_sort(opened, {}, &Opened::last_s);
  for (Opened& one : opened) {
    const auto number = static_cast<int32_t>(spaces_.size());
    spaces_.push_back(std::move(one.space));
    Space& space = *spaces_.back();
    replay(number, one.contents.entries);
    find_free_slots(number);
    if (space.live == 0 || spaces_.size() > kSpacesMax) {
      for (int32_t group = 0; group < std::ssize(space.slots); ++group) {
        const Slots& slots = space.slots[static_cast<size_t>(group)];
        bytes_ -= (slots.end - std::ssize(slots.holes)) * space.header.slot_bytes[static_cast<size_t>(group)];
      }
      std::erase_if(by_page_, [&](const auto& entry) { return entry.first.space == number; });
      std::erase_if(records_, [&](const Record& record) { return record.space == number; });
      CAIRN_TRY_VOID(files_.remove(path_of(space, "")));
      spaces_.pop_back();
      continue;
    }
    if (one.contents.damaged > 0) {
      log_warning("{}: {} damaged entries of the index are left out", path_of(space, ""), one.contents.damaged);
      counts_.damaged += one.contents.damaged;
    }
    const bool is_long = space.entries > 2 * space.live + kDeadEntriesMax;
    if (one.contents.damaged > 0 || is_long) CAIRN_TRY_VOID(rewrite_index(number));
  }
  return {};
}

Result<std::unique_ptr<PageStore::Space>> PageStore::open_space(const std::string& name) {
  auto space = std::make_unique<Space>();
  space->name = name;
  CAIRN_TRY_VOID(files_.make_folder(path_of(*space, "")));
  CAIRN_TRY(space->index, files_.open(path_of(*space, "index")));
  HeaderBytes bytes{};
  const Result<void> read = space->index->read(0, bytes);
  const std::optional<IndexHeader> header = read.has_value() ? decode_header(bytes, seed_) : std::nullopt;
  if (!header) return fail(Code::kCorruptFile, "the index is spoilt, of another version or of another folder");
  space->header = *header;
  CAIRN_TRY(const std::unique_ptr<File> about, files_.open(path_of(*space, "about.json")));
  if (const auto text = read_whole(*about, kAboutBytesMax); text.has_value())
    space->about.assign(reinterpret_cast<const char*>(text->data()), text->size());
  CAIRN_TRY_VOID(open_files(*space));
  return space;
}

Result<std::unique_ptr<PageStore::Space>> PageStore::create_space(const std::string& name, std::string_view about,
                                                                  const IndexHeader& header) {
  auto space = std::make_unique<Space>();
  space->name = name;
  space->about = about.substr(0, kAboutBytesMax);
  space->header = header;
  const std::string folder = path_of(*space, "");
  CAIRN_TRY_VOID(files_.make_folder(folder));
  CAIRN_TRY_VOID(replace_file(files_, folder, "about.json", bytes_of(space->about)));
  CAIRN_TRY(space->index, replace_file(files_, folder, "index", encode(header, seed_)));
  space->index_end = kHeaderBytes;
  CAIRN_TRY_VOID(files_.sync_folder(folder_));
  CAIRN_TRY_VOID(open_files(*space));
  for (const std::unique_ptr<File>& file : space->files) CAIRN_TRY_VOID(file->resize(0));
  return space;
}

Result<void> PageStore::open_files(Space& space) {
  space.slots.resize(space.header.slot_bytes.size());
  for (size_t group = 0; group < space.slots.size(); ++group) {
    CAIRN_TRY(std::unique_ptr<File> file, files_.open(path_of(space, fmt::format("pages-{:02}", group))));
    CAIRN_TRY(const int64_t size, file->size());
    space.slots[group].end =
        static_cast<uint32_t>(std::min<int64_t>(size / space.header.slot_bytes[group], UINT32_MAX / 2));
    space.files.push_back(std::move(file));
  }
  return files_.sync_folder(path_of(space, ""));
}

Result<int32_t> PageStore::use_space(std::string_view identity, std::string_view about,
                                     std::span<const int64_t> slot_bytes) {
  CAIRN_CHECK(!slot_bytes.empty() && std::ssize(slot_bytes) <= kKvGroupsMax);
  const IndexHeader header{.space = keyed("space", fmt::format("{} {}", kFormatVersion, identity)),
                           .slot_bytes = {slot_bytes.begin(), slot_bytes.end()}};
  const std::string name = fmt::format("{:016x}{:016x}", header.space.high, header.space.low);
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < spaces_.size(); ++i) {
      if (spaces_[i]->name == name && spaces_[i]->header.slot_bytes == header.slot_bytes)
        return static_cast<int32_t>(i);
    }
    if (spaces_.size() >= kSpacesMax) {
      return fail_at(folder_, Code::kTooLarge,
                     "pages of {} models or sets of options are there; delete them with `cairn cache clear`",
                     kSpacesMax);
    }
  }
  CAIRN_TRY(std::unique_ptr<Space> space, create_space(name, about, header));
  const std::lock_guard lock(mutex_);
  spaces_.push_back(std::move(space));
  return static_cast<int32_t>(spaces_.size()) - 1;
}

// The last entry for a slot says what is in it.
void PageStore::replay(int32_t number, std::span<const IndexEntry> entries) {
  const Space& space = *spaces_[static_cast<size_t>(number)];
  const int64_t today = now_s() / kSecondsPerDay;
  std::unordered_map<uint64_t, Records::iterator> by_slot;
  const auto slot_key = [](int32_t group, uint32_t slot) { return static_cast<uint64_t>(group) << 32 | slot; };
  const auto drop = [&](Records::iterator record) {
    by_slot.erase(slot_key(record->page.group, record->slot));
    forget(record);
  };
  for (const IndexEntry& entry : entries) {
    const int32_t group = entry.address.group;
    if (group >= std::ssize(space.slots)) continue;
    const auto there = by_page_.find({number, entry.address});
    if (entry.kind == EntryKind::kTouch) {
      PageAddress at = entry.address;
      for (auto found = there; found != by_page_.end(); found = by_page_.find({number, at})) {
        touch_one(found->second, entry.unix_s);
        at.digest = found->second->origin.parent;
      }
      continue;
    }
    if (there != by_page_.end()) drop(there->second);
    if (entry.kind == EntryKind::kDrop) continue;
    if (const auto old = by_slot.find(slot_key(group, entry.slot)); old != by_slot.end()) drop(old->second);
    if (entry.unix_s / kSecondsPerDay == today) count_day(today, space.header.slot_bytes[static_cast<size_t>(group)]);
    if (entry.slot >= space.slots[static_cast<size_t>(group)].end) continue;  // the file was cut
    insert({number, entry.address, entry.origin, entry.slot, entry.checksum, entry.unix_s}, entry.kind);
    by_slot[slot_key(group, entry.slot)] = by_page_.at({number, entry.address});
  }
}

// After replay: every slot without a page gives its blocks back, where the file system can do that.
void PageStore::find_free_slots(int32_t number) {
  Space& space = *spaces_[static_cast<size_t>(number)];
  for (size_t group = 0; group < space.slots.size(); ++group) {
    Slots& slots = space.slots[group];
    std::vector<bool> used(slots.end, false);
    for (const Record& record : records_) {
      if (record.space == number && record.page.group == static_cast<int32_t>(group)) used[record.slot] = true;
    }
    while (!used.empty() && !used.back()) used.pop_back();
    const int64_t bytes = space.header.slot_bytes[group];
    if (space.files[group]->resize(std::ssize(used) * bytes).has_value())
      slots.end = static_cast<uint32_t>(used.size());
    slots.free.clear();
    for (uint32_t slot = 0; slot < slots.end; ++slot) {
      if (slot < used.size() && used[slot]) continue;
      (space.files[group]->punch(slot * bytes, bytes) ? slots.holes : slots.free).push_back(slot);
    }
    bytes_ += (slots.end - std::ssize(slots.holes)) * bytes;
  }
}

Result<void> PageStore::rewrite_index(int32_t number) {
  Space& space = *spaces_[static_cast<size_t>(number)];
  std::vector<std::byte> bytes;
  int64_t entries = 0;
  const auto append = [&](std::span<const std::byte> more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  append(encode(space.header, seed_));
  const int64_t now = now_s();
  {
    const std::lock_guard lock(mutex_);
    space.news.clear();  // what they say is in the records
    for (const Record& record : records_) {
      if (record.space != number) continue;
      append(encode({.kind = EntryKind::kKept,
                     .address = record.page,
                     .origin = record.origin,
                     .slot = record.slot,
                     .checksum = record.checksum,
                     .unix_s = record.unix_s},
                    seed_));
      ++entries;
      // One of its hits is kept; those of its ancestors come behind it.
      if (hits_at(record, now) < 0.5) continue;
      append(encode(
          {.kind = EntryKind::kTouch, .address = record.page, .origin = record.origin, .unix_s = record.hit_s}, seed_));
      ++entries;
    }
  }
  CAIRN_TRY(space.index, replace_file(files_, path_of(space, ""), "index", bytes));
  space.index_end = std::ssize(bytes);
  space.entries = entries;
  return {};
}

std::vector<SpaceSummary> PageStore::spaces() const {
  const std::lock_guard lock(mutex_);
  std::vector<SpaceSummary> list;
  std::vector<std::unordered_map<uint64_t, int64_t>> owners(spaces_.size());
  for (const auto& space : spaces_) list.push_back({space->name, space->about, 0, 0, {}});
  for (const Record& record : records_) {
    const auto space = static_cast<size_t>(record.space);
    const int64_t bytes = spaces_[space]->header.slot_bytes[static_cast<size_t>(record.page.group)];
    ++list[space].pages;
    list[space].bytes += bytes;
    owners[space][record.origin.owner] += bytes;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].owners.assign(owners[i].begin(), owners[i].end());
    std::ranges::sort(list[i].owners);
  }
  return list;
}

int64_t PageStore::verify() {
  std::vector<Key> keys;
  {
    const std::lock_guard lock(mutex_);
    for (const Record& record : records_) keys.push_back({record.space, record.page});
  }
  int64_t wrong = 0;
  std::vector<std::byte> bytes;
  for (const Key& key : keys) {
    bytes.resize(static_cast<size_t>(
        spaces_[static_cast<size_t>(key.space)]->header.slot_bytes[static_cast<size_t>(key.page.group)]));
    if (!read(key.space, key.page, bytes).has_value()) ++wrong;
  }
  if (wrong > 0) (void)commit();
  return wrong;
}

Result<int64_t> PageStore::erase(std::span<const uint64_t> owners) {
  struct Gone {
    File* file;
    int64_t offset, bytes;
  };
  std::vector<Gone> gone;
  std::unordered_set<int32_t> touched;
  {
    const std::lock_guard lock(mutex_);
    for (auto record = records_.begin(); record != records_.end();) {
      const auto next = std::next(record);
      if (std::ranges::find(owners, record->origin.owner) != owners.end()) {
        Space& space = *spaces_[static_cast<size_t>(record->space)];
        const auto group = static_cast<size_t>(record->page.group);
        const int64_t bytes = space.header.slot_bytes[group];
        gone.push_back({space.files[group].get(), int64_t{record->slot} * bytes, bytes});
        touched.insert(record->space);
        forget(record);
      }
      record = next;
    }
  }
  CAIRN_TRY_VOID(erase_named(owners));
  // First nothing refers to them any more, then their bytes go.
  for (const int32_t number : touched) CAIRN_TRY_VOID(rewrite_index(number));
  for (const Gone& one : gone) {
    const std::vector<std::byte> zeros(static_cast<size_t>(one.bytes));
    CAIRN_TRY_VOID(one.file->write(one.offset, zeros));
    one.file->punch(one.offset, one.bytes);
  }
  for (const Gone& one : gone) CAIRN_TRY_VOID(one.file->sync());
  return std::ssize(gone);
}

Result<void> PageStore::erase_all(Files& files, const std::string& folder) {
  CAIRN_TRY(const auto lock, files.lock(folder + "/lock"));
  CAIRN_TRY(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names) {
    if (is_space_name(name) || name == kNamesFolder || name == "secret")
      CAIRN_TRY_VOID(files.remove(folder + "/" + name));
  }
  return files.sync_folder(folder);
}

}  // namespace cairn::cache::disk
