#include "api/store/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace cairn::api {

/// Moves the log into the file, on a thread and a connection of its own: that waits for the disk.
class Checkpointer {
 public:
  explicit Checkpointer(Database database)
      : database_(std::move(database)), thread_([this](const std::stop_token& stop) { run(stop); }) {}
  void ask() {
    {
      const std::lock_guard lock(mutex_);
      asked_ = true;
    }
    wake_.notify_one();
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return asked_; })) {
      asked_ = false;
      lock.unlock();
      sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
      lock.lock();
    }
  }

  Database database_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool asked_ = false;
  std::jthread thread_;  // last: ends first
};

namespace {

constexpr int64_t kApplicationId = 0x4341'524e;  // "CARN"
constexpr int64_t kTablesVersion = 2;            // a table that older programs need not know of is no new version
constexpr int kCheckpointPages = 256;            // of the log; more are moved into the file

// Turns: `bytes_before` counts all that was ever written before the row, so that two rows tell what is between them.
constexpr const char* kTables = R"sql(
  BEGIN IMMEDIATE;
  CREATE TABLE IF NOT EXISTS responses(
    number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, id TEXT NOT NULL, previous TEXT NOT NULL,
    response TEXT NOT NULL, input TEXT NOT NULL, checksum INTEGER NOT NULL, UNIQUE(tenant, id));
  CREATE TABLE IF NOT EXISTS items(
    tenant TEXT NOT NULL, id TEXT NOT NULL, response INTEGER NOT NULL, PRIMARY KEY(tenant, id)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS items_of_response ON items(response);
  CREATE TABLE IF NOT EXISTS turns(
    number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, call TEXT NOT NULL, scope INTEGER NOT NULL,
    bytes_before INTEGER NOT NULL, bytes INTEGER NOT NULL, checksum INTEGER NOT NULL, turn TEXT NOT NULL,
    tokens BLOB NOT NULL, UNIQUE(tenant, call, scope));
  PRAGMA application_id = 1128354382;
  PRAGMA user_version = 2;
  COMMIT;
)sql";
static_assert(kApplicationId == 1128354382 && kTablesVersion == 2);

int on_commit(void* checkpointer, sqlite3*, const char*, int pages) {
  if (pages >= kCheckpointPages) static_cast<Checkpointer*>(checkpointer)->ask();
  return SQLITE_OK;
}

Result<int64_t> pragma(sqlite3* database, const std::string& path, std::string_view name) {
  CAIRN_TRY(Statement statement, Statement::prepare(database, path, fmt::format("PRAGMA {}", name)));
  CAIRN_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

// Refuses a file that is somebody else's before anything is written to it.
Result<void> check_owner(sqlite3* database, const std::string& path) {
  CAIRN_TRY(const int64_t application, pragma(database, path, "application_id"));
  CAIRN_TRY(const int64_t version, pragma(database, path, "user_version"));
  CAIRN_TRY(Statement count, Statement::prepare(database, path, "SELECT count(*) FROM sqlite_schema"));
  CAIRN_TRY_VOID(count.step());
  if (count.integer(0) == 0) return {};
  if (application != kApplicationId)
    return fail_at(path, Code::kInvalidArgument,
                   "{} is the SQLite file of another program; name another file with --store", path);
  if (version != kTablesVersion)
    return fail_at(
        path, Code::kInvalidArgument,
        "{} has version {}, and this program knows version {}; move it away, or name another file with --store", path,
        version, kTablesVersion);
  return {};
}

// SQLite makes no file of these names, and keeps nothing.
Result<void> check_name(const std::string& path) {
  if (!path.empty() && !path.starts_with(':') && !path.starts_with("file:")) return {};
  return fail(Code::kInvalidArgument,
              "\"{0}\" names no file for --store: SQLite has another meaning for it; for a file of that name say "
              "--store ./{0}",
              path);
}

// The file is made here before SQLite makes it, with a mode for everybody.
void make_private(const std::string& path) {
  struct stat status{};
  constexpr mode_t kOwnerOnly = 0600, kOthers = 0077;
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISREG(status.st_mode) && (status.st_mode & kOthers) != 0)
      log_warning("{} can be used by others than its owner (mode {:04o}); it holds conversations: chmod 600 it", path,
                  status.st_mode & 07777);
    return;
  }
  const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kOwnerOnly);
  if (made >= 0) ::close(made);  // otherwise SQLite will say why not
}

}  // namespace

StoreFile::StoreFile(std::string path, Database database) : path_(std::move(path)), database_(std::move(database)) {}
StoreFile::~StoreFile() = default;

Result<void> StoreFile::set_up() {
  sqlite3* database = database_.get();
  CAIRN_TRY_VOID(check_owner(database, path_));
  CAIRN_TRY_VOID(execute(database, path_, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"));
  CAIRN_TRY_VOID(execute(database, path_, kTables));
  CAIRN_TRY(page_bytes_, pragma(database, path_, "page_size"));
  CAIRN_TRY(begin_, prepare("BEGIN IMMEDIATE"));
  CAIRN_TRY(commit_, prepare("COMMIT"));
  CAIRN_TRY(rollback_, prepare("ROLLBACK"));
  CAIRN_TRY(pages_, prepare("PRAGMA page_count"));
  CAIRN_TRY(free_pages_, prepare("PRAGMA freelist_count"));
  CAIRN_TRY(auto second, open_database(path_));
  checkpointer_ = std::make_unique<Checkpointer>(std::move(second));
  sqlite3_wal_hook(database, on_commit, checkpointer_.get());
  for (const char* suffix : {"", "-wal"}) {
    struct stat status{};
    const std::string path = path_ + suffix;
    if (::stat(path.c_str(), &status) == 0) places_.push_back({path, status.st_dev, status.st_ino});
  }
  return {};
}

Result<void> StoreFile::check_places() const {
  for (const Place& place : places_) {
    struct stat status{};
    if (::stat(place.path.c_str(), &status) == 0 && status.st_dev == place.device && status.st_ino == place.inode)
      continue;
    return fail_at(path_, Code::kIo,
                   "{} has been deleted or replaced since the server opened it: nothing is stored; restart the server",
                   place.path);
  }
  return {};
}

Result<int64_t> StoreFile::filled_bytes() {
  int64_t pages = 0;
  for (auto [statement, sign] : {std::pair(&pages_, 1), std::pair(&free_pages_, -1)}) {
    CAIRN_TRY(const bool row, statement->step());
    if (row) pages += sign * statement->integer(0);
    statement->reset();
  }
  return pages * page_bytes_;
}

Result<std::shared_ptr<StoreFile>> StoreFile::open(const std::string& path) {
  CAIRN_TRY_VOID(check_name(path));
  make_private(path);
  CAIRN_TRY(Database database, open_database(path));
  auto file = std::shared_ptr<StoreFile>(new StoreFile(path, std::move(database)));
  CAIRN_TRY_VOID(file->set_up());
  return file;
}

}  // namespace cairn::api
