#include "cache/disk/page_store.h"

#include <openssl/evp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"

namespace cairn::cache::disk {

PageStore::PageStore(Files& files, std::string folder, StoreOptions options, std::unique_ptr<FolderLock> lock)
    : files_(files), folder_(std::move(folder)), options_(std::move(options)), lock_(std::move(lock)) {
  spaces_.reserve(kSpacesMax + 1);  // so that they stay in place while others are added
}
PageStore::~PageStore() = default;

Result<std::unique_ptr<PageStore>> PageStore::open(Files& files, const std::string& folder, StoreOptions options) {
  // Other people's access is taken away from a folder of this program only.
  if (const auto names = files.list(folder); names.has_value() && !files.exists(folder + "/secret")) {
    const auto foreign = [](const std::string& name) { return name != "lock" && name != "secret.new"; };
    if (std::ranges::any_of(*names, foreign))
      return fail_at(folder, Code::kInvalidArgument, "the folder holds other files; name one of its own");
  }
  CAIRN_TRY_VOID(files.make_folder(folder));
  CAIRN_TRY(auto lock, files.lock(folder + "/lock"));
  auto store = std::unique_ptr<PageStore>(new PageStore(files, folder, std::move(options), std::move(lock)));
  CAIRN_TRY_VOID(store->read_secret());
  store->day_ = store->now_s() / kSecondsPerDay;
  CAIRN_TRY_VOID(store->open_spaces());
  return store;
}

std::string PageStore::path_of(const Space& space, std::string_view name) const {
  return folder_ + "/" + space.name + (name.empty() ? "" : "/") + std::string(name);
}

PageDigest PageStore::keyed(std::string_view purpose, std::string_view text) const {
  std::string all(reinterpret_cast<const char*>(secret_.data()), secret_.size());
  all.append(purpose).push_back('\0');
  all.append(text);
  return digest_of(std::as_bytes(std::span(all)));
}

PageDigest digest_of(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  CAIRN_CHECK(EVP_Digest(bytes.data(), bytes.size(), hash.data(), nullptr, EVP_sha256(), nullptr) == 1);
  PageDigest digest;
  std::memcpy(&digest.high, hash.data(), sizeof digest.high);
  std::memcpy(&digest.low, hash.data() + sizeof digest.high, sizeof digest.low);
  return digest;
}

uint64_t PageStore::checksum_of(const PageAddress& page, const PageOrigin& origin,
                                std::span<const std::byte> bytes) const {
  const uint64_t about[] = {page.digest.high,
                            page.digest.low,
                            origin.parent.high,
                            origin.parent.low,
                            origin.owner,
                            static_cast<uint64_t>(page.group),
                            static_cast<uint64_t>(origin.begin) << 8 | static_cast<uint64_t>(origin.count)};
  return hash64(bytes, hash64(std::as_bytes(std::span(about)), page_seed_));
}

int64_t PageStore::now_s() const {
  if (options_.unix_s) return options_.unix_s();
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

// A clock that goes back begins no new day, so that it grants no bytes.
void PageStore::count_day(int64_t day, int64_t bytes) {
  if (day > day_) {
    day_ = day;
    counts_.bytes_today = 0;
    day_full_said_ = false;
  }
  counts_.bytes_today += bytes;
}

void PageStore::stop_writing(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!counts_.writing) return;
    counts_.writing = false;
  }
  log_warning("keys and values are no longer written to {}: {}. Answers go on without; what is there is still read",
              folder_, error.text());
}

bool PageStore::has(int32_t space, const PageAddress& page) const {
  const std::lock_guard lock(mutex_);
  return by_page_.contains({space, page});
}

uint32_t PageStore::partials(int32_t space, const PageDigest& parent) const {
  const std::lock_guard lock(mutex_);
  const auto& partials = spaces_[static_cast<size_t>(space)]->partials;
  const auto found = partials.find(parent);
  return found == partials.end() ? 0 : found->second;
}

bool PageStore::accepts() const {
  const int64_t day = now_s() / kSecondsPerDay;
  const std::lock_guard lock(mutex_);
  const bool spent = options_.daily_bytes_max > 0 && day <= day_ && counts_.bytes_today >= options_.daily_bytes_max;
  return counts_.writing && !spent;
}

// For the next commit, if there is one.
void PageStore::note(Space& space, const Record& record, EntryKind kind) {
  if (counts_.writing)
    space.news.push_back({.kind = kind, .address = record.page, .origin = record.origin, .unix_s = now_s()});
}

double PageStore::hits_at(const Record& record, int64_t unix_s) {
  const auto age = static_cast<double>(std::max<int64_t>(0, unix_s - record.hit_s));
  return record.hits * std::exp2(-age / kHitHalfLifeS);
}

void PageStore::touch_one(Records::iterator record, int64_t unix_s) {
  record->hits = hits_at(*record, unix_s) + 1;
  record->hit_s = std::max(record->hit_s, unix_s);
  records_.splice(records_.end(), records_, record);
}

void PageStore::touch(int32_t space, std::span<const PageDigest> pages) {
  const int64_t now = now_s();
  const std::lock_guard lock(mutex_);
  bool said = false;
  for (const PageDigest& digest : pages) {
    for (int32_t group = 0; group < std::ssize(spaces_[static_cast<size_t>(space)]->slots); ++group) {
      const auto found = by_page_.find({space, {digest, group}});
      if (found == by_page_.end()) continue;
      touch_one(found->second, now);
      if (said) continue;
      said = true;
      note(*spaces_[static_cast<size_t>(space)], *found->second, EntryKind::kTouch);
    }
  }
}

// A page that was put comes before its parent in the order of eviction.
void PageStore::insert(Record record, EntryKind kind) {
  Space& space = *spaces_[static_cast<size_t>(record.space)];
  const Key key{record.space, record.page};
  if (const auto old = by_page_.find(key); old != by_page_.end()) forget(old->second);
  auto place = records_.end();
  if (kind == EntryKind::kPut) {
    const auto parent = by_page_.find({record.space, {record.origin.parent, record.page.group}});
    if (parent != by_page_.end()) place = parent->second;
  }
  if (record.origin.count < kernels::kPageTokens) space.partials[record.origin.parent] |= 1u << record.origin.count;
  by_page_[key] = records_.insert(place, std::move(record));
  ++space.live;
}

// Removes a record, whose slot is free then; the caller says so in the index, unless another page takes the slot.
void PageStore::forget(Records::iterator record) {
  Space& space = *spaces_[static_cast<size_t>(record->space)];
  space.slots[static_cast<size_t>(record->page.group)].free.push_back(record->slot);
  --space.live;
  by_page_.erase({record->space, record->page});
  records_.erase(record);
}

PageStore::Records::iterator PageStore::next_victim() {
  constexpr double kForgotten = 1.0 / 16;
  const int64_t now = now_s();
  auto victim = records_.end();
  double fewest = 0;
  int32_t seen = 0;
  for (auto record = records_.begin(); record != records_.end() && seen < kEvictionCandidates; ++record) {
    if (record->readers > 0) continue;
    ++seen;
    const double hits = hits_at(*record, now);
    if (victim != records_.end() && hits >= fewest) continue;
    victim = record;
    fewest = hits;
    if (hits < kForgotten) break;
  }
  return victim;
}

// A slot of the group, evicting pages if need be; nullopt if there is none. Gives the lock up while blocks are freed.
std::optional<uint32_t> PageStore::take_slot(std::unique_lock<std::mutex>& lock, int32_t number, int32_t group) {
  Space& space = *spaces_[static_cast<size_t>(number)];
  Slots& slots = space.slots[static_cast<size_t>(group)];
  const int64_t slot_bytes = space.header.slot_bytes[static_cast<size_t>(group)];
  for (;;) {
    const bool full = by_page_.size() + uncommitted_.size() >= kRecordsMax;
    if (!slots.free.empty() && !full) {
      const uint32_t slot = slots.free.back();
      slots.free.pop_back();
      return slot;
    }
    if (bytes_ + slot_bytes <= options_.bytes_max && !full) {
      bytes_ += slot_bytes;
      if (slots.holes.empty()) return slots.end++;
      const uint32_t slot = slots.holes.back();
      slots.holes.pop_back();
      return slot;
    }
    const auto victim = next_victim();
    if (victim == records_.end()) return std::nullopt;
    ++counts_.evicted;
    const int32_t of_group = victim->page.group;
    Space& other = *spaces_[static_cast<size_t>(victim->space)];
    note(other, *victim, EntryKind::kDrop);
    forget(victim);
    if (&other == &space && of_group == group) continue;
    Slots& theirs = other.slots[static_cast<size_t>(of_group)];
    const uint32_t freed = theirs.free.back();
    theirs.free.pop_back();
    const int64_t bytes = other.header.slot_bytes[static_cast<size_t>(of_group)];
    lock.unlock();
    const bool punched = other.files[static_cast<size_t>(of_group)]->punch(freed * bytes, bytes);
    lock.lock();
    // Without holes the blocks stay with the group that has them.
    (punched ? theirs.holes : theirs.free).push_back(freed);
    if (punched) bytes_ -= bytes;
  }
}

Result<void> PageStore::write(int32_t space, const PageAddress& page, const PageOrigin& origin,
                              std::span<const std::byte> bytes) {
  const int64_t now = now_s();
  const int64_t day = now / kSecondsPerDay;
  std::unique_lock lock(mutex_);
  if (!counts_.writing) return fail(Code::kIo, "nothing is written any more");
  const auto same = [&](const Record& record) { return record.space == space && record.page == page; };
  if (by_page_.contains({space, page}) || std::ranges::any_of(uncommitted_, same)) return {};
  count_day(day, 0);
  const auto size = static_cast<int64_t>(bytes.size());
  if (options_.daily_bytes_max > 0 && counts_.bytes_today + size > options_.daily_bytes_max) {
    if (!std::exchange(day_full_said_, true))
      log_info("{}: the day's {} bytes are written; nothing more is until midnight UTC", folder_,
               options_.daily_bytes_max);
    counts_.bytes_today = std::max(counts_.bytes_today, options_.daily_bytes_max);
    return fail(Code::kQueueFull, "the day's bytes are written");
  }
  const std::optional<uint32_t> slot = take_slot(lock, space, page.group);
  if (!slot) return fail(Code::kQueueFull, "no slot is to be had");
  Space& to = *spaces_[static_cast<size_t>(space)];
  to.slots[static_cast<size_t>(page.group)].dirty = true;
  File& file = *to.files[static_cast<size_t>(page.group)];
  const int64_t slot_bytes = to.header.slot_bytes[static_cast<size_t>(page.group)];
  CAIRN_CHECK(size == slot_bytes);
  lock.unlock();
  const Result<void> written = file.write(int64_t{*slot} * slot_bytes, bytes);
  const uint64_t checksum = checksum_of(page, origin, bytes);
  lock.lock();
  if (!written.has_value()) {
    to.slots[static_cast<size_t>(page.group)].free.push_back(*slot);
    lock.unlock();
    stop_writing(written.error());
    return written;
  }
  count_day(day, size);
  counts_.bytes_written += size;
  uncommitted_.push_back({space, page, origin, *slot, checksum, now});
  return {};
}

Result<void> PageStore::commit() {
  std::unique_lock lock(mutex_);
  if (!counts_.writing) return fail(Code::kIo, "nothing is written any more");
  std::vector<Record> records = std::exchange(uncommitted_, {});
  std::vector<std::pair<Space*, std::string>> appends;
  std::vector<File*> dirty;
  for (const Record& record : records) {
    spaces_[static_cast<size_t>(record.space)]->news.push_back({.kind = EntryKind::kPut,
                                                                .address = record.page,
                                                                .origin = record.origin,
                                                                .slot = record.slot,
                                                                .checksum = record.checksum,
                                                                .unix_s = record.unix_s});
  }
  for (const auto& space : spaces_) {
    for (size_t group = 0; group < space->slots.size(); ++group) {
      if (std::exchange(space->slots[group].dirty, false)) dirty.push_back(space->files[group].get());
    }
    std::string text;
    for (const IndexEntry& entry : std::exchange(space->news, {})) {
      const EntryBytes bytes = encode(entry, seed_);
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    if (!text.empty()) appends.emplace_back(space.get(), std::move(text));
  }
  lock.unlock();
  const auto put = [&]() -> Result<void> {
    for (File* const file : dirty) CAIRN_TRY_VOID(file->sync());
    for (const auto& [space, text] : appends) {
      CAIRN_TRY_VOID(space->index->write(space->index_end, std::as_bytes(std::span(text))));
      CAIRN_TRY_VOID(space->index->sync());
      space->index_end += std::ssize(text);
      space->entries += std::ssize(text) / kEntryBytes;
    }
    return {};
  };
  const Result<void> done = put();
  lock.lock();
  for (Record& record : records) {
    if (done.has_value()) {
      insert(std::move(record), EntryKind::kPut);
    } else {
      spaces_[static_cast<size_t>(record.space)]->slots[static_cast<size_t>(record.page.group)].free.push_back(
          record.slot);
    }
  }
  std::vector<int32_t> long_ones;
  for (size_t i = 0; i < spaces_.size(); ++i) {
    const Space& space = *spaces_[i];
    if (space.entries > 2 * space.live + kDeadEntriesMax) long_ones.push_back(static_cast<int32_t>(i));
  }
  lock.unlock();
  if (!done.has_value()) stop_writing(done.error());
  for (const int32_t number : long_ones) {
    if (const Result<void> rewritten = rewrite_index(number); !rewritten.has_value()) stop_writing(rewritten.error());
  }
  return done;
}

void PageStore::will_read(int32_t space, const PageAddress& page) {
  std::unique_lock lock(mutex_);
  const auto found = by_page_.find({space, page});
  if (found == by_page_.end()) return;
  const Space& from = *spaces_[static_cast<size_t>(space)];
  File& file = *from.files[static_cast<size_t>(page.group)];
  const int64_t bytes = from.header.slot_bytes[static_cast<size_t>(page.group)];
  const int64_t offset = int64_t{found->second->slot} * bytes;
  lock.unlock();
  file.will_read(offset, bytes);
}

Result<void> PageStore::read(int32_t space, const PageAddress& page, std::span<std::byte> to) {
  std::unique_lock lock(mutex_);
  const auto found = by_page_.find({space, page});
  if (found == by_page_.end()) return fail(Code::kNotFound, "the page is not there any more");
  const Records::iterator record = found->second;
  Space& from = *spaces_[static_cast<size_t>(space)];
  File& file = *from.files[static_cast<size_t>(page.group)];
  ++record->readers;
  const int64_t offset = int64_t{record->slot} * from.header.slot_bytes[static_cast<size_t>(page.group)];
  lock.unlock();
  Result<void> done = file.read(offset, to);
  if (done.has_value() && checksum_of(page, record->origin, to) != record->checksum)
    done = fail_at(path_of(from, ""), Code::kCorruptFile, "a page of group {} is not what was written", page.group);
  lock.lock();
  --record->readers;
  if (done.has_value()) {
    counts_.bytes_read += std::ssize(to);
    return done;
  }
  ++counts_.damaged;
  note(from, *record, EntryKind::kDrop);
  if (record->readers == 0) forget(record);
  return done;
}

StoreCounts PageStore::counts() const {
  const std::lock_guard lock(mutex_);
  StoreCounts counts = counts_;
  counts.pages = static_cast<int64_t>(by_page_.size());
  counts.bytes = bytes_;
  return counts;
}

}  // namespace cairn::cache::disk
