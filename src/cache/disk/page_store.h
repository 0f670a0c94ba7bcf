/// Pages of the KV cache in files: fixed slots in one large file for each group of a layout, and an index.
///
///     FOLDER/secret                32 random bytes, from which all keys and checksums are derived
///     FOLDER/lock                  held by the one process that uses the folder
///     FOLDER/SPACE/about.json      what the space is of, for people
///     FOLDER/SPACE/index           index_log.h
///     FOLDER/SPACE/pages-GG        the slots of group GG, each of a page's bytes
///     FOLDER/names/HASH            tokens that a client has named
///
/// A space is everything whose pages are interchangeable: one model with all that decides about its numbers. Its name
/// is a hash of that with the secret, so that pages of anything else are never found.
///
/// Order of writing: pages, then their files' sync, then their entries of the index, then its sync; only then are they
/// found. So whatever a crash leaves behind, an entry without its page has a wrong checksum, which makes it a miss. A
/// page that turns out wrong is forgotten for good.
///
/// Eviction: of the kEvictionCandidates pages that were used longest ago, in all spaces, the one that was found least
/// often; what it was found counts half as much after each kHitHalfLifeS. A page that is used counts as used after the
/// pages behind it, and is found whenever they are, so that a chain shrinks from its end.
///
/// Errors of a disk never reach a request: the first that hinders writing ends writing, with one line of the log.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "cache/disk/files.h"
#include "cache/disk/index_log.h"

namespace cairn::cache::disk {

/// Maximum pages of a folder: their records take about 250 bytes of memory each.
inline constexpr size_t kRecordsMax = size_t{1} << 20;
/// Maximum spaces of a folder. Those without pages are removed when it is opened.
inline constexpr size_t kSpacesMax = 64;
/// An index is written anew once it has this many entries besides twice those that count.
inline constexpr int64_t kDeadEntriesMax = 1 << 16;
inline constexpr int64_t kSecondsPerDay = 24 * 3'600;
inline constexpr int64_t kHitHalfLifeS = kSecondsPerDay;
/// More would protect pages that were found often once for too long from those of today.
inline constexpr int32_t kEvictionCandidates = 64;

struct StoreOptions {
  int64_t bytes_max = int64_t{32} << 30;  ///< of all slots of all spaces
  int64_t daily_bytes_max = 0;            ///< bytes of pages written on a day; 0: no limit
  std::function<int64_t()> unix_s{};      ///< wall clock; empty: the system's
};

/// Maximum conversations that clients have named, in a folder.
inline constexpr size_t kNamedMax = 4'096;
inline constexpr std::string_view kNamesFolder = "names";

/// What lies under a name.
struct NamedBytes {
  uint64_t salt = 0;
  std::vector<std::byte> bytes;
};

/// What a space is, for `cairn cache list`.
struct SpaceSummary {
  std::string name;   ///< of its folder
  std::string about;  ///< JSON
  int64_t pages = 0;
  int64_t bytes = 0;
  std::vector<std::pair<uint64_t, int64_t>> owners;  ///< and the bytes of each
};

struct StoreCounts {
  int64_t pages = 0;          ///< that can be found
  int64_t bytes = 0;          ///< of all slots
  int64_t bytes_written = 0;  ///< of pages, since the start
  int64_t bytes_read = 0;
  int64_t bytes_today = 0;  ///< written since midnight UTC, by earlier processes too
  int64_t evicted = 0;      ///< pages
  int64_t damaged = 0;      ///< pages and entries that turned out wrong
  bool writing = true;      ///< false after an error
};

/// Thread-safe. Functions that say so wait for the disk; the others never do. One thread calls write() and commit().
class PageStore {
 public:
  /// Opens or creates the folder and reads all indexes. Waits for the disk. `files` outlives the store. Errors: kIo,
  /// kUnavailable (another process uses it), kInvalidArgument (it holds other files).
  static Result<std::unique_ptr<PageStore>> open(Files& files, const std::string& folder, StoreOptions options);
  ~PageStore();

  const std::string& folder() const { return folder_; }
  /// A keyed hash of `text` for `purpose`, different in every folder.
  PageDigest keyed(std::string_view purpose, std::string_view text) const;

  /// Opens the space of everything that `identity` says, or begins it; slot_bytes[g] of every group. `about` is JSON
  /// for people. Waits for the disk. Errors: kIo, kTooLarge (kSpacesMax).
  Result<int32_t> use_space(std::string_view identity, std::string_view about, std::span<const int64_t> slot_bytes);

  bool has(int32_t space, const PageAddress& page) const;
  /// Counts of tokens, one bit each, of unfinished pages that may be there behind `parent`.
  uint32_t partials(int32_t space, const PageDigest& parent) const;
  /// Whether pages can be written at all, today and ever.
  bool accepts() const;
  /// The pages of the digests were used. They are in order from a page back to its first ancestor.
  void touch(int32_t space, std::span<const PageDigest> pages);

  /// Writes a page, which commit() lets be found. What is there already is not written again. Waits for the disk.
  /// Errors: kQueueFull (the day's bytes, or no slot to be had), kIo.
  Result<void> write(int32_t space, const PageAddress& page, const PageOrigin& origin,
                     std::span<const std::byte> bytes);
  /// Makes what was written before durable. Waits for the disk. Error: kIo.
  Result<void> commit();
  /// The page is read soon.
  void will_read(int32_t space, const PageAddress& page);
  /// Reads a page of `to.size()` bytes. Waits for the disk. Errors: kNotFound, kIo, kCorruptFile (and it is forgotten).
  Result<void> read(int32_t space, const PageAddress& page, std::span<std::byte> to);

  // -- Bytes that an owner has given a name, of the space (page_store_names.cpp). Wait for the disk.
  /// Replaces what is there. Errors: kIo, kTooLarge (kNamedMax).
  Result<void> put_named(int32_t space, uint64_t owner, std::string_view name, uint64_t salt,
                         std::span<const std::byte> bytes);
  /// Errors: kNotFound, kIo, kCorruptFile.
  Result<NamedBytes> get_named(int32_t space, uint64_t owner, std::string_view name) const;

  StoreCounts counts() const;
  std::vector<SpaceSummary> spaces() const;
  /// Reads every page and forgets those that are wrong; returns how many. Waits for the disk.
  int64_t verify();
  /// Deletes the pages of these owners, their bytes included, and what they have named; returns how many pages. Waits
  /// for the disk. Error: kIo.
  Result<int64_t> erase(std::span<const uint64_t> owners);
  /// Removes the folder's spaces. Waits for the disk. Error: kIo.
  static Result<void> erase_all(Files& files, const std::string& folder);

 private:
  struct Record {
    int32_t space = 0;
    PageAddress page;
    PageOrigin origin;
    uint32_t slot = 0;
    uint64_t checksum = 0;
    int64_t unix_s = 0;
    int32_t readers = 0;  // pinned while above 0
    double hits = 0;      // how often it was found, as it counted at hit_s
    int64_t hit_s = 0;
  };
  using Records = std::list<Record>;  // the least recently used first
  struct Key {
    int32_t space = 0;
    PageAddress page;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return key.page.digest.low ^ static_cast<uint64_t>(key.page.group) << 56 ^ static_cast<uint64_t>(key.space) << 48;
    }
  };
  struct Slots {
    uint32_t end = 0;             // slots that the file has room for
    std::vector<uint32_t> free;   // without a page, with blocks of the disk
    std::vector<uint32_t> holes;  // without blocks
    bool dirty = false;           // written since the last sync
  };
  struct Space {
    std::string name;
    std::string about;
    IndexHeader header;
    std::unique_ptr<File> index;
    int64_t index_end = 0;
    int64_t entries = 0;                                                // in the index's file
    std::vector<std::unique_ptr<File>> files;                           // [group]
    std::vector<Slots> slots;                                           // [group]
    int64_t live = 0;                                                   // pages that can be found
    std::unordered_map<PageDigest, uint32_t, PageDigestHash> partials;  // see partials()
    std::vector<IndexEntry> news;                                       // entries that are not in the file yet
  };

  PageStore(Files& files, std::string folder, StoreOptions options, std::unique_ptr<FolderLock> lock);
  std::string path_of(const Space& space, std::string_view name) const;
  Result<void> read_secret();
  Result<void> open_spaces();
  Result<std::unique_ptr<Space>> open_space(const std::string& name);
  Result<std::unique_ptr<Space>> create_space(const std::string& name, std::string_view about,
                                              const IndexHeader& header);
  Result<void> open_files(Space& space);
  void replay(int32_t number, std::span<const IndexEntry> entries);
  void find_free_slots(int32_t number);
  Result<void> rewrite_index(int32_t number);
  std::string path_of_name(int32_t space, uint64_t owner, std::string_view name) const;
  Result<void> erase_named(std::span<const uint64_t> owners);
  uint64_t checksum_of(const PageAddress& page, const PageOrigin& origin, std::span<const std::byte> bytes) const;
  int64_t now_s() const;
  void count_day(int64_t day, int64_t bytes);
  void stop_writing(const Error& error);

  // The caller holds mutex_.
  void insert(Record record, EntryKind kind);
  void forget(Records::iterator record);
  void touch_one(Records::iterator record, int64_t unix_s);
  void note(Space& space, const Record& record, EntryKind kind);
  std::optional<uint32_t> take_slot(std::unique_lock<std::mutex>& lock, int32_t number, int32_t group);
  static double hits_at(const Record& record, int64_t unix_s);
  Records::iterator next_victim();

  Files& files_;
  const std::string folder_;
  const StoreOptions options_;
  std::unique_ptr<FolderLock> lock_;
  std::array<std::byte, 32> secret_{};
  uint64_t seed_ = 0;  // of entries
  uint64_t page_seed_ = 0;

  mutable std::mutex mutex_;  // guards everything below; files themselves are used without it
  std::vector<std::unique_ptr<Space>> spaces_;
  Records records_;
  std::unordered_map<Key, Records::iterator, KeyHash> by_page_;
  std::vector<Record> uncommitted_;
  int64_t bytes_ = 0;
  int64_t day_ = 0;
  bool day_full_said_ = false;
  StoreCounts counts_;
};

}  // namespace cairn::cache::disk
