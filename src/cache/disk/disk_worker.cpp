#include "cache/disk/disk_worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace cairn::cache::disk {
namespace {

using std::chrono::steady_clock;

// Weight of a new measurement of the rate of reading.
constexpr double kRateWeight = 0.1;

/// How far these threads stand behind those that compute: checksums and copies take a core that a stream's next token
/// waits for. With nothing else to do they have it all the same.
constexpr int kNice = 10;

void step_back() { (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice); }

}  // namespace

Result<std::shared_ptr<DiskWorker>> DiskWorker::open(const std::string& folder, const StoreOptions& options) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<DiskWorker>> workers;
  const std::lock_guard lock(mutex);
  auto files = system_files();
  std::error_code error;
  const std::string path = std::filesystem::weakly_canonical(folder, error).string();
  if (error) return fail_at(folder, Code::kIo, "cannot look at the folder: {}", error.message());
  const bool had_one = workers.contains(path);
  std::weak_ptr<DiskWorker>& known = workers[path];
  if (auto worker = known.lock()) return worker;
  auto opened = PageStore::open(*files, path, options);
  // The worker of a model that is being unloaded ends within kEndMax.
  const auto end = steady_clock::now() + kEndMax + std::chrono::seconds(1);
  while (had_one && !opened.has_value() && opened.error().code == Code::kUnavailable && steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    opened = PageStore::open(*files, path, options);
  }
  CAIRN_TRY(auto store, std::move(opened));
  auto worker = std::make_shared<DiskWorker>(std::move(files), std::move(store));
  CAIRN_TRY_VOID(worker->start());
  known = worker;
  return worker;
}

DiskWorker::DiskWorker(std::unique_ptr<Files> files, std::unique_ptr<PageStore> store)
    : files_(std::move(files)), store_(std::move(store)) {}

Result<void> DiskWorker::start() try {
  writer_ = std::thread([this] {
    step_back();
    run_writer();
  });
  reader_ = std::thread([this] {
    step_back();
    run_reader();
  });
  return {};
} catch (const std::system_error& error) {
  return fail(Code::kUnavailable, "cannot start the threads of the disk tier: {}", error.what());
}

DiskWorker::~DiskWorker() {
  if (writer_.joinable()) drain(kEndMax);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  to_write_.notify_all();
  to_read_.notify_all();
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
}

bool DiskWorker::has_room(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return queued_bytes_ == 0 || queued_bytes_ + bytes <= kWriteQueueBytes;
}

bool DiskWorker::wants(int32_t space, const PageAddress& page, int64_t bytes) {
  if (!has_room(bytes) || !store_->accepts() || store_->has(space, page)) return false;
  const std::lock_guard lock(mutex_);
  return !on_their_way_.contains({space, page});
}

void DiskWorker::put(int32_t space, const PageAddress& page, const PageOrigin& origin,
                     std::vector<std::byte> bytes) try {
  {
    const std::lock_guard lock(mutex_);
    const auto size = static_cast<int64_t>(bytes.size());
    if (queued_bytes_ > 0 && queued_bytes_ + size > kWriteQueueBytes) {
      ++dropped_;
      return;
    }
    if (!on_their_way_.insert({space, page}).second) return;
    writes_.push_back({space, page, origin, std::move(bytes), {}});
    queued_bytes_ += size;
  }
  to_write_.notify_one();
} catch (const std::bad_alloc&) {
  log_debug("no memory for a page on its way to the disk");
}

void DiskWorker::touch(int32_t space, std::vector<PageDigest> pages) try {
  if (pages.empty()) return;
  {
    const auto size = static_cast<int64_t>(pages.size() * sizeof(PageDigest));
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ > 0 && queued_bytes_ + size > kWriteQueueBytes) return;
    queued_bytes_ += size;
    writes_.push_back({.space = space, .page = {}, .origin = {}, .bytes = {}, .touched = std::move(pages)});
  }
  to_write_.notify_one();
} catch (const std::bad_alloc&) {
  log_debug("no memory for pages that were used");
}

void DiskWorker::add(std::shared_ptr<DiskLoad> load) {
  {
    const std::lock_guard lock(mutex_);
    loads_.push_back(std::move(load));
  }
  to_read_.notify_one();
}

void DiskWorker::cancel(DiskLoad& load) {
  {
    const std::lock_guard lock(mutex_);
    load.cancelled_ = true;
    for (const LoadedPage& page : load.ready_) staged_bytes_ -= std::ssize(page.bytes);
    load.ready_.clear();
    std::erase_if(loads_, [&](const auto& other) { return other.get() == &load; });
  }
  to_read_.notify_one();
  to_write_.notify_one();
}

std::optional<LoadedPage> DiskWorker::take(DiskLoad& load) {
  std::optional<LoadedPage> page;
  {
    const std::lock_guard lock(mutex_);
    if (load.ready_.empty()) return std::nullopt;
    page = std::move(load.ready_.front());
    load.ready_.pop_front();
    ++load.taken_;
    staged_bytes_ -= std::ssize(page->bytes);
  }
  to_read_.notify_one();
  return page;
}

bool DiskWorker::is_done(const DiskLoad& load) const {
  const std::lock_guard lock(mutex_);
  return load.taken_ == load.pages_.size();
}

bool DiskWorker::has_failed(const DiskLoad& load) const {
  const std::lock_guard lock(mutex_);
  return load.failed_;
}

double DiskWorker::read_rate() const {
  const std::lock_guard lock(mutex_);
  return read_rate_;
}

int64_t DiskWorker::pages_dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

bool DiskWorker::drain(std::chrono::milliseconds time_max) {
  std::unique_lock lock(mutex_);
  hurried_ = true;
  to_write_.notify_all();
  const bool done = written_.wait_for(
      lock, time_max, [this] { return writes_.empty() && uncommitted_.empty() && !touched_ && !writing_; });
  hurried_ = false;
  return done;
}

// -- Writing.
// Whether the pages that were written must become durable now. Under the mutex.
bool DiskWorker::must_commit() const {
  if (uncommitted_.empty() && !touched_) return false;
  if (writes_.empty() && (hurried_ || stopping_)) return true;
  return stopping_ || uncommitted_bytes_ >= kCommitBytes || std::ssize(uncommitted_) >= kCommitPages ||
         steady_clock::now() - first_uncommitted_ >= kCommitDelay;
}

void DiskWorker::commit() {
  try {
    if (const auto done = store_->commit(); !done.has_value()) log_debug("not committed: {}", done.error().text());
  } catch (const std::bad_alloc&) {
    log_debug("no memory to make pages durable");
  }
  const std::lock_guard lock(mutex_);
  for (const auto& key : uncommitted_) on_their_way_.erase(key);
  uncommitted_.clear();
  uncommitted_bytes_ = 0;
  touched_ = false;
  written_.notify_all();
}

void DiskWorker::write(Write&& write) {
  const bool touches = !write.touched.empty();
  Result<void> done;
  try {
    if (touches) store_->touch(write.space, write.touched);
    if (!touches) done = store_->write(write.space, write.page, write.origin, write.bytes);
  } catch (const std::bad_alloc&) {
    done = fail(Code::kOutOfMemory, "no memory to write a page");
  }
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (uncommitted_.empty() && !touched_) first_uncommitted_ = steady_clock::now();
  touched_ = touched_ || touches;
  queued_bytes_ -= std::ssize(write.bytes) + static_cast<int64_t>(write.touched.size() * sizeof(PageDigest));
  if (!touches) {
    if (done.has_value()) {
      uncommitted_.emplace_back(write.space, write.page);
      uncommitted_bytes_ += std::ssize(write.bytes);
    } else {
      on_their_way_.erase({write.space, write.page});
      ++dropped_;
    }
  }
  written_.notify_all();
}

bool DiskWorker::write_step() {
  std::optional<Write> next;
  {
    const std::lock_guard lock(mutex_);
    if (!writes_.empty()) {
      next = std::move(writes_.front());
      writes_.pop_front();
    } else if (uncommitted_.empty() && !touched_) {
      return false;
    }
  }
  next ? write(std::move(*next)) : commit();
  return true;
}

void DiskWorker::run_writer() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (must_commit()) {
      lock.unlock();
      commit();
      lock.lock();
      continue;
    }
    if (stopping_) return;
    if (writes_.empty()) {
      if (uncommitted_.empty() && !touched_) {
        to_write_.wait(lock);
      } else {
        to_write_.wait_until(lock, first_uncommitted_ + kCommitDelay);
      }
      continue;
    }
    // Pages that a request waits for come first.
    to_write_.wait_for(lock, kReadsFirst, [this] { return loads_.empty() || stopping_ || hurried_; });
    if (stopping_ || writes_.empty()) continue;
    Write next = std::move(writes_.front());
    writes_.pop_front();
    writing_ = true;
    lock.unlock();
    write(std::move(next));
    lock.lock();
  }
}

// -- Reading.
// The next load that may read a page: in turns, as far as pages that were read have room. Under the mutex.
std::shared_ptr<DiskLoad> DiskWorker::next_load() {
  std::erase_if(
      loads_, [](const auto& load) { return load->failed_ || load->cancelled_ || load->next_ == load->pages_.size(); });
  for (size_t i = 0; i < loads_.size(); ++i) {
    const std::shared_ptr<DiskLoad>& load = loads_[(turn_ + i) % loads_.size()];
    // One page of every load may wait for its engine, however large it is.
    if (!load->ready_.empty() && staged_bytes_ + load->pages_[load->next_].bytes > kStagingBytes) continue;
    ++turn_;
    return load;
  }
  return nullptr;
}

bool DiskWorker::read_step() {
  std::shared_ptr<DiskLoad> load;
  {
    const std::lock_guard lock(mutex_);
    load = next_load();
  }
  if (load == nullptr) return false;
  const WantedPage& wanted = load->pages_[load->next_];
  for (; load->ahead_ < load->pages_.size() && load->ahead_bytes_ < kReadAheadBytes; ++load->ahead_) {
    store_->will_read(load->space_, load->pages_[load->ahead_].page);
    load->ahead_bytes_ += load->pages_[load->ahead_].bytes;
  }
  load->ahead_bytes_ -= wanted.bytes;
  LoadedPage page{.group = wanted.page.group, .place = wanted.place, .bytes = {}};
  Result<void> done;
  try {
    page.bytes.resize(static_cast<size_t>(wanted.bytes));
    done = store_->read(load->space_, wanted.page, page.bytes);
  } catch (const std::bad_alloc&) {
    done = fail(Code::kOutOfMemory, "no memory for a page from the disk");
  }
  if (!done.has_value()) {
    // A page that was evicted since it was found is no fault.
    const LogLevel level = done.error().code == Code::kNotFound ? LogLevel::kDebug : LogLevel::kWarning;
    if (log_enabled(level))
      log_line(level, fmt::format("keys and values from the disk are computed instead: {}", done.error().text()));
  }
  const std::lock_guard lock(mutex_);
  load->failed_ = !done.has_value();
  ++load->next_;
  if (load->failed_ || load->cancelled_) return true;
  staged_bytes_ += std::ssize(page.bytes);
  load->ready_.push_back(std::move(page));
  return true;
}

void DiskWorker::run_reader() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      to_read_.wait(lock, [this] { return stopping_ || next_load() != nullptr; });
      if (stopping_) return;
    }
    const auto begin = steady_clock::now();
    const int64_t before = store_->counts().bytes_read;
    if (!read_step()) continue;
    const auto bytes = static_cast<double>(store_->counts().bytes_read - before);
    const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
    const std::lock_guard lock(mutex_);
    if (bytes > 0 && seconds > 0) {
      const double rate = bytes / seconds;
      read_rate_ = read_rate_ == 0 ? rate : read_rate_ + kRateWeight * (rate - read_rate_);
    }
    if (next_load() == nullptr) to_write_.notify_one();
  }
}

}  // namespace cairn::cache::disk
