/// The threads of a folder of the disk tier: one writes, one reads, and engines' threads never wait for either.
///
/// Pages to be written wait in a queue of at most kWriteQueueBytes; what does not fit is not written. While pages are
/// wanted, writing waits up to kReadsFirst a page. Pages that were read wait for the engine in at most kStagingBytes.
///
/// Without its threads (tests), write_step() and read_step() do their work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "cache/disk/page_store.h"

namespace cairn::cache::disk {

inline constexpr int64_t kWriteQueueBytes = int64_t{64} << 20;
inline constexpr int64_t kStagingBytes = int64_t{64} << 20;
/// Bytes of the pages after the one that is read which the system is told to read ahead: one page at a time would wait
/// for every one.
inline constexpr int64_t kReadAheadBytes = int64_t{16} << 20;
/// How long the writing of a page waits for pages that are wanted.
inline constexpr std::chrono::milliseconds kReadsFirst{50};
/// Pages become durable together: after so many bytes, so many pages, or that time.
inline constexpr int64_t kCommitBytes = int64_t{64} << 20;
inline constexpr int32_t kCommitPages = 1'024;
inline constexpr std::chrono::milliseconds kCommitDelay{1'000};
/// How long the end of the process waits for what is in the queue.
inline constexpr std::chrono::seconds kEndMax{10};

/// A page that is wanted, and where in a sequence's table of its group.
struct WantedPage {
  PageAddress page;
  int32_t place = 0;
  int64_t bytes = 0;
};

/// A page that was read.
struct LoadedPage {
  int32_t group = 0;
  int32_t place = 0;
  std::vector<std::byte> bytes;
};

/// Pages on their way from the disk to one sequence, in order.
class DiskLoad {
 public:
  DiskLoad(int32_t space, std::vector<WantedPage> pages) : space_(space), pages_(std::move(pages)) {}
  const std::vector<WantedPage>& pages() const { return pages_; }

 private:
  friend class DiskWorker;
  const int32_t space_;
  const std::vector<WantedPage> pages_;
  // Guarded by the worker's mutex.
  size_t next_ = 0;
  size_t taken_ = 0;
  // The reader's.
  size_t ahead_ = 0;
  int64_t ahead_bytes_ = 0;  // of the pages from next_ to ahead_
  bool failed_ = false;
  bool cancelled_ = false;
  std::deque<LoadedPage> ready_;
};

/// Thread-safe.
class DiskWorker {
 public:
  /// The folder at the path, which one worker of this process has at a time: a second call for it gives the same, with
  /// the options of the first. Waits for the disk. Errors: those of PageStore::open, kUnavailable (no thread).
  static Result<std::shared_ptr<DiskWorker>> open(const std::string& folder, const StoreOptions& options);
  /// A worker without threads, for tests.
  DiskWorker(std::unique_ptr<Files> files, std::unique_ptr<PageStore> store);
  /// Writes what is in the queue, within kEndMax.
  ~DiskWorker();
  DiskWorker(const DiskWorker&) = delete;
  DiskWorker& operator=(const DiskWorker&) = delete;

  PageStore& store() { return *store_; }
  const PageStore& store() const { return *store_; }

  /// Whether the page is neither there nor on its way, and the queue has room for it.
  bool wants(int32_t space, const PageAddress& page, int64_t bytes);
  bool has_room(int64_t bytes);
  /// Queues a page to be written. Dropped if the queue is full or there is no memory.
  void put(int32_t space, const PageAddress& page, const PageOrigin& origin, std::vector<std::byte> bytes);
  /// Queues that pages were used: from a page back to its first ancestor.
  void touch(int32_t space, std::vector<PageDigest> pages);
  void add(std::shared_ptr<DiskLoad> load);
  /// Nothing more is read for it.
  void cancel(DiskLoad& load);
  /// The next page that was read; nullopt: none yet, or see is_done and has_failed.
  std::optional<LoadedPage> take(DiskLoad& load);
  bool is_done(const DiskLoad& load) const;
  bool has_failed(const DiskLoad& load) const;
  /// Waits until everything in the queue is durable; false if that takes longer.
  bool drain(std::chrono::milliseconds time_max);
  /// Measured bytes a second of reading; 0: unknown.
  double read_rate() const;
  int64_t pages_dropped() const;

  /// One page of work on this thread; false: there is none. The last of write_step commits.
  bool write_step();
  bool read_step();

 private:
  struct Write {
    int32_t space = 0;
    PageAddress page;
    PageOrigin origin;
    std::vector<std::byte> bytes;
    std::vector<PageDigest> touched;  // if not empty, nothing else is set
  };
  struct KeyHash {
    size_t operator()(const std::pair<int32_t, PageAddress>& key) const {
      return key.second.digest.low + static_cast<size_t>(key.second.group) * 31 + static_cast<size_t>(key.first);
    }
  };

  Result<void> start();
  void run_writer();
  void run_reader();
  std::shared_ptr<DiskLoad> next_load();
  bool must_commit() const;
  void commit();
  void write(Write&& write);

  std::unique_ptr<Files> files_;
  std::unique_ptr<PageStore> store_;
  mutable std::mutex mutex_;  // guards everything below but the threads
  std::condition_variable to_write_, to_read_, written_;
  std::deque<Write> writes_;
  int64_t queued_bytes_ = 0;
  std::unordered_set<std::pair<int32_t, PageAddress>, KeyHash> on_their_way_;
  std::vector<std::pair<int32_t, PageAddress>> uncommitted_;
  int64_t uncommitted_bytes_ = 0;
  bool touched_ = false;
  bool writing_ = false;
  std::chrono::steady_clock::time_point first_uncommitted_{};
  bool hurried_ = false;
  std::vector<std::shared_ptr<DiskLoad>> loads_;
  size_t turn_ = 0;
  int64_t staged_bytes_ = 0;
  double read_rate_ = 0;
  int64_t dropped_ = 0;
  bool stopping_ = false;
  std::thread writer_, reader_;
};

}  // namespace cairn::cache::disk
