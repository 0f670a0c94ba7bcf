#include "api/responses/store.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "api/errors.h"
#include "api/responses/sqlite.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kApplicationId = 0x4341'524e;  // "CARN"
constexpr int64_t kVersion = 1;
constexpr int kCheckpointPages = 256;  // of the log; more are moved into the file

constexpr const char* kTables = R"sql(
  BEGIN IMMEDIATE;
  CREATE TABLE IF NOT EXISTS responses(
    number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, id TEXT NOT NULL, previous TEXT NOT NULL,
    response TEXT NOT NULL, input TEXT NOT NULL, UNIQUE(tenant, id));
  CREATE TABLE IF NOT EXISTS items(
    tenant TEXT NOT NULL, id TEXT NOT NULL, response INTEGER NOT NULL, PRIMARY KEY(tenant, id)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS items_of_response ON items(response);
  PRAGMA application_id = 1128354382;
  PRAGMA user_version = 1;
  COMMIT;
)sql";
static_assert(kApplicationId == 1128354382 && kVersion == 1);

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
  if (version != kVersion)
    return fail_at(path, Code::kInvalidArgument, "{} has version {}, and this program knows version {}", path, version,
                   kVersion);
  return {};
}

Error not_found(std::string_view what, std::string_view id) {
  constexpr size_t kIdShownMax = 100;
  return {Code::kNotFound, fmt::format("no {} \"{}\" is stored", what, id.substr(0, kIdShownMax)), {}};
}

class SqliteStore final : public ResponseStore {
 public:
  SqliteStore(std::string path, const StoreLimits& limits, Database database)
      : path_(std::move(path)), limits_(limits), database_(std::move(database)) {}

  Result<void> prepare();
  Result<void> put(const StoredResponse& response) override;
  Result<ordered_json> response(std::string_view tenant, std::string_view id) override {
    return column_of(tenant, id, 1);
  }
  Result<ordered_json> input(std::string_view tenant, std::string_view id) override { return column_of(tenant, id, 2); }
  Result<void> remove(std::string_view tenant, std::string_view id) override;
  Result<ordered_json> history(std::string_view tenant, std::string_view id) override;
  Result<ordered_json> item(std::string_view tenant, std::string_view id) override;

 private:
  Result<ordered_json> column_of(std::string_view tenant, std::string_view id, int column);
  Result<ordered_json> parse(std::string_view text) const;
  Result<void> write(const StoredResponse& response, std::string_view text, std::string_view input);
  Result<void> drop(int64_t number);
  Result<void> trim();
  Result<int64_t> filled_bytes();

  std::string path_;
  StoreLimits limits_;
  Database database_;
  // After the connection that they belong to.
  std::unique_ptr<Checkpointer> checkpointer_;
  struct Statements {
    Statement begin, commit, rollback, insert, insert_item, find, find_item, remove, remove_items, oldest, pages, free;
  };
  std::unique_ptr<Statements> sql_;
  int64_t page_bytes_ = 0;
};

Result<void> SqliteStore::prepare() {
  sqlite3* database = database_.get();
  const auto statement = [&](std::string_view sql) { return Statement::prepare(database, path_, sql); };
  CAIRN_TRY_VOID(check_owner(database, path_));
  CAIRN_TRY_VOID(execute(database, path_, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"));
  CAIRN_TRY_VOID(execute(database, path_, kTables));
  CAIRN_TRY(page_bytes_, pragma(database, path_, "page_size"));
  sql_ = std::make_unique<Statements>();
  CAIRN_TRY(sql_->begin, statement("BEGIN IMMEDIATE"));
  CAIRN_TRY(sql_->commit, statement("COMMIT"));
  CAIRN_TRY(sql_->rollback, statement("ROLLBACK"));
  CAIRN_TRY(sql_->insert, statement("INSERT INTO responses(tenant, id, previous, response, input) VALUES(?,?,?,?,?)"));
  CAIRN_TRY(sql_->insert_item, statement("INSERT OR REPLACE INTO items(tenant, id, response) VALUES(?,?,?)"));
  CAIRN_TRY(sql_->find,
            statement("SELECT number, response, input, previous FROM responses WHERE tenant = ? AND id = ?"));
  CAIRN_TRY(sql_->find_item, statement("SELECT responses.response, responses.input FROM items JOIN responses ON "
                                       "responses.number = items.response WHERE items.tenant = ? AND items.id = ?"));
  CAIRN_TRY(sql_->remove, statement("DELETE FROM responses WHERE number = ?"));
  CAIRN_TRY(sql_->remove_items, statement("DELETE FROM items WHERE response = ?"));
  CAIRN_TRY(sql_->oldest, statement("SELECT min(number), max(number) FROM responses"));
  CAIRN_TRY(sql_->pages, statement("PRAGMA page_count"));
  CAIRN_TRY(sql_->free, statement("PRAGMA freelist_count"));
  CAIRN_TRY(auto second, open_database(path_));
  checkpointer_ = std::make_unique<Checkpointer>(std::move(second));
  sqlite3_wal_hook(database, on_commit, checkpointer_.get());
  return {};
}

Result<ordered_json> SqliteStore::parse(std::string_view text) const {
  ordered_json value = ordered_json::parse(text, nullptr, false);
  if (value.is_discarded()) return fail_at(path_, Code::kCorruptFile, "{} holds a damaged response", path_);
  return value;
}

Result<void> SqliteStore::put(const StoredResponse& response) {
  const std::string text = dump(response.response);
  const std::string input = dump(response.input);
  if (text.size() + input.size() > limits_.response_bytes_max) {
    return fail(Code::kTooLarge, "a response of {} bytes is over the {} that are stored of one",
                text.size() + input.size(), limits_.response_bytes_max);
  }
  CAIRN_TRY_VOID(sql_->begin.run());
  Result<void> written = write(response, text, input);
  if (written) written = trim();
  if (written) written = sql_->commit.run();
  if (!written) (void)sql_->rollback.run();
  return written;
}

Result<void> SqliteStore::write(const StoredResponse& response, std::string_view text, std::string_view input) {
  const auto id = response.response["id"].get<std::string>();
  sql_->insert.bind(std::string_view(response.tenant), std::string_view(id), std::string_view(response.previous_id),
                    text, input);
  CAIRN_TRY_VOID(sql_->insert.run());
  const int64_t number = sqlite3_last_insert_rowid(database_.get());
  for (const ordered_json* items : {&response.response["output"], &response.input}) {
    for (const auto& item : *items) {
      const auto item_id = item["id"].get<std::string>();
      sql_->insert_item.bind(std::string_view(response.tenant), std::string_view(item_id), number);
      CAIRN_TRY_VOID(sql_->insert_item.run());
    }
  }
  return {};
}

Result<void> SqliteStore::drop(int64_t number) {
  sql_->remove_items.bind(number);
  CAIRN_TRY_VOID(sql_->remove_items.run());
  sql_->remove.bind(number);
  return sql_->remove.run();
}

Result<int64_t> SqliteStore::filled_bytes() {
  int64_t pages = 0;
  for (auto [statement, sign] : {std::pair(&sql_->pages, 1), std::pair(&sql_->free, -1)}) {
    CAIRN_TRY(const bool row, statement->step());
    if (row) pages += sign * statement->integer(0);
    statement->reset();
  }
  return pages * page_bytes_;
}

// Numbers only grow, so that first and last bound the count.
Result<void> SqliteStore::trim() {
  for (;;) {
    CAIRN_TRY(const bool row, sql_->oldest.step());
    const int64_t oldest = row ? sql_->oldest.integer(0) : 0;
    const int64_t newest = row ? sql_->oldest.integer(1) : 0;
    sql_->oldest.reset();
    CAIRN_TRY(const int64_t bytes, filled_bytes());
    const bool fits = newest - oldest < limits_.responses_max && bytes <= limits_.file_bytes_max;
    if (fits || oldest == newest) return {};
    CAIRN_TRY_VOID(drop(oldest));
  }
}

Result<ordered_json> SqliteStore::column_of(std::string_view tenant, std::string_view id, int column) {
  sql_->find.bind(tenant, id);
  CAIRN_TRY(const bool row, sql_->find.step());
  Result<ordered_json> value = row ? parse(sql_->find.text(column)) : std::unexpected(not_found("response", id));
  sql_->find.reset();
  return value;
}

Result<void> SqliteStore::remove(std::string_view tenant, std::string_view id) {
  sql_->find.bind(tenant, id);
  CAIRN_TRY(const bool row, sql_->find.step());
  const int64_t number = row ? sql_->find.integer(0) : 0;
  sql_->find.reset();
  if (!row) return std::unexpected(not_found("response", id));
  CAIRN_TRY_VOID(sql_->begin.run());
  Result<void> removed = drop(number);
  if (removed) removed = sql_->commit.run();
  if (!removed) (void)sql_->rollback.run();
  return removed;
}

Result<ordered_json> SqliteStore::history(std::string_view tenant, std::string_view id) {
  std::vector<ordered_json> turns;  // newest first: input and output of each
  size_t bytes = 0;
  std::string at(id);
  while (!at.empty()) {
    if (turns.size() >= 2 * limits_.chain_max)
      return fail(Code::kTooLarge, "the conversation has more than {} responses; begin a new one", limits_.chain_max);
    sql_->find.bind(tenant, std::string_view(at));
    CAIRN_TRY(const bool row, sql_->find.step());
    if (!row) {
      sql_->find.reset();
      if (turns.empty()) return std::unexpected(not_found("response", id));
      return fail(Code::kNotFound, "the response \"{}\", which \"{}\" goes on from, is stored no more", at, id);
    }
    bytes += sql_->find.text(1).size() + sql_->find.text(2).size();
    auto response = parse(sql_->find.text(1));
    auto input = parse(sql_->find.text(2));
    at = sql_->find.text(3);
    sql_->find.reset();
    if (!response) return std::unexpected(response.error());
    if (!input) return std::unexpected(input.error());
    if (bytes > limits_.history_bytes_max) {
      return fail(Code::kTooLarge, "the conversation has more than {} bytes; begin a new one",
                  limits_.history_bytes_max);
    }
    turns.push_back(std::move((*response)["output"]));
    turns.push_back(std::move(*input));
  }
  ordered_json items = ordered_json::array();
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn)
    for (auto& item : *turn) items.push_back(std::move(item));
  return items;
}

Result<ordered_json> SqliteStore::item(std::string_view tenant, std::string_view id) {
  sql_->find_item.bind(tenant, id);
  CAIRN_TRY(const bool row, sql_->find_item.step());
  if (!row) {
    sql_->find_item.reset();
    return std::unexpected(not_found("item", id));
  }
  auto response = parse(sql_->find_item.text(0));
  auto input = parse(sql_->find_item.text(1));
  sql_->find_item.reset();
  if (!response) return response;
  if (!input) return input;
  for (const ordered_json* items : {&(*response)["output"], &*input}) {
    for (const auto& item : *items)
      if (item["id"] == id) return item;
  }
  return std::unexpected(not_found("item", id));
}

}  // namespace

Result<std::unique_ptr<ResponseStore>> ResponseStore::open(const std::string& path, const StoreLimits& limits) {
  CAIRN_TRY(Database database, open_database(path));
  auto store = std::make_unique<SqliteStore>(path, limits, std::move(database));
  CAIRN_TRY_VOID(store->prepare());
  return store;
}

}  // namespace cairn::api::responses
