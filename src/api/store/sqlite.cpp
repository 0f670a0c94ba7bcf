#include "api/store/sqlite.h"

namespace cairn::api {

Error sqlite_error(sqlite3* database, const std::string& path) {
  const int code = database == nullptr ? SQLITE_NOMEM : sqlite3_errcode(database);
  const char* words = database == nullptr ? "out of memory" : sqlite3_errmsg(database);
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
    return {Code::kCorruptFile,
            fmt::format("{} is damaged or no store of responses ({}); move it away, or name another file with --store",
                        path, words),
            path};
  }
  if (code == SQLITE_CANTOPEN)
    return {Code::kIo, fmt::format("cannot open or make {}: {}; is its folder there and writable?", path, words), path};
  return {Code::kIo, fmt::format("cannot use {}: {}", path, words), path};
}

Result<Database> open_database(const std::string& path) {
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(opened);
  if (code != SQLITE_OK) return std::unexpected(sqlite_error(opened, path));
  // Another server on the same file holds it for one transaction at most.
  constexpr int kBusyMs = 1'000;
  sqlite3_busy_timeout(opened, kBusyMs);
  return database;
}

Result<void> execute(sqlite3* database, const std::string& path, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return std::unexpected(sqlite_error(database, path));
  return {};
}

Result<Statement> Statement::prepare(sqlite3* database, const std::string& path, std::string_view sql) {
  Statement made;
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                      &statement, nullptr);
  if (code != SQLITE_OK) return std::unexpected(sqlite_error(database, path));
  made.statement_.reset(statement);
  made.database_ = database;
  made.path_ = path;
  return made;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Error error = sqlite_error(database_, path_);
  sqlite3_reset(statement_.get());
  return std::unexpected(std::move(error));
}

Result<void> Statement::run() {
  for (;;) {
    CAIRN_TRY(const bool row, step());
    if (row) continue;
    reset();
    return {};
  }
}

std::string_view Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::span<const std::byte> Statement::bytes(int column) const {
  const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

}  // namespace cairn::api
