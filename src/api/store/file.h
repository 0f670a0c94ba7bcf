/// The SQLite file of --store: its tables, whoever uses them, and how a commit reaches the disk.
///
/// Only its owner can read what is made here. A commit goes to the write-ahead log without waiting for the disk: it is
/// there after kill -9. (After a power cut the last ones may be missing; the file is whole in any case.) A thread moves
/// the log into the file.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/store/sqlite.h"
#include "base/error.h"

namespace cairn::api {

class Checkpointer;

/// One thread at a time: whoever holds `lock`. Statements and their owners die before it.
class StoreFile {
 public:
  /// Made if it is not there, with mode 0600, which SQLite gives to the files beside it too; one that is there already
  /// keeps its mode, and a warning says so if others may read it. kCorruptFile: no SQLite file, or damaged;
  /// kInvalidArgument: of another program or version, or a name that SQLite takes for no file (empty, ":memory:").
  static Result<std::shared_ptr<StoreFile>> open(const std::string& path);
  ~StoreFile();

  const std::string& path() const { return path_; }
  /// For all that follows, and for statements.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  Result<Statement> prepare(std::string_view sql) { return Statement::prepare(database_.get(), path_, sql); }
  int64_t last_insert_number() const { return sqlite3_last_insert_rowid(database_.get()); }
  /// Bytes of all tables, without what is free in the file.
  Result<int64_t> filled_bytes();

  /// All of what `write` does, or nothing if it fails. kIo: the file or its log is no longer where it was opened, so
  /// that what is written would be gone with this process.
  template <class Write>
  Result<void> transact(Write&& write) {
    CAIRN_TRY_VOID(check_places());
    CAIRN_TRY_VOID(begin_.run());
    Result<void> written = write();
    if (written) written = commit_.run();
    if (!written) (void)rollback_.run();
    return written;
  }

 private:
  StoreFile(std::string path, Database database);
  /// A file by its name and by what the system knows it as.
  struct Place {
    std::string path;
    uint64_t device = 0, inode = 0;
  };
  Result<void> set_up();
  Result<void> check_places() const;

  std::string path_;
  std::mutex mutex_;
  std::vector<Place> places_;  // of the file and its log
  Database database_;
  // After the connection that they belong to.
  std::unique_ptr<Checkpointer> checkpointer_;
  Statement begin_, commit_, rollback_, pages_, free_pages_;
  int64_t page_bytes_ = 0;
};

}  // namespace cairn::api
