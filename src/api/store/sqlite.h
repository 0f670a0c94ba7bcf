/// SQLite's C functions as classes: errors are Results, and destructors close and finish what was opened.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::api {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

/// What went wrong last on `database`, in words, with the file's path.
Error sqlite_error(sqlite3* database, const std::string& path);
Result<Database> open_database(const std::string& path);
/// One or more statements without results.
Result<void> execute(sqlite3* database, const std::string& path, const char* sql);

/// A prepared statement: bind, step, read, and begin again.
class Statement {
 public:
  static Result<Statement> prepare(sqlite3* database, const std::string& path, std::string_view sql);

  /// Binds from the first on; text and bytes must live until the next reset.
  template <class... Values>
  void bind(const Values&... values) {
    sqlite3_reset(statement_.get());
    int at = 0;
    (bind_one(++at, values), ...);
  }
  /// True: there is a row.
  Result<bool> step();
  /// Steps to the end: for statements without rows.
  Result<void> run();
  /// Ends reading; a transaction is not held open.
  void reset() { sqlite3_reset(statement_.get()); }
  std::string_view text(int column) const;
  std::span<const std::byte> bytes(int column) const;
  int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  void bind_one(int at, std::string_view text) {
    sqlite3_bind_text64(statement_.get(), at, text.empty() ? "" : text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  void bind_one(int at, std::span<const std::byte> bytes) {
    sqlite3_bind_blob64(statement_.get(), at, bytes.empty() ? "" : static_cast<const void*>(bytes.data()), bytes.size(),
                        SQLITE_STATIC);
  }
  void bind_one(int at, int64_t value) { sqlite3_bind_int64(statement_.get(), at, value); }

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  sqlite3* database_ = nullptr;
  std::string path_;
};

}  // namespace cairn::api
