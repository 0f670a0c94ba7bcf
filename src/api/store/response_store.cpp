#include "api/store/response_store.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/store/file.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/text/json.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

Error not_found(std::string_view what, std::string_view id) {
  return {Code::kNotFound, fmt::format("no {} \"{}\" is stored", what, cut_text(id, kQuotedBytesMax)), {}};
}

// What is selected of a response, and where read_row finds it.
constexpr std::string_view kColumns =
    "responses.number, responses.tenant, responses.id, responses.previous, responses.response, responses.input, "
    "responses.checksum";
enum Column { kNumber, kTenant, kId, kPrevious, kResponse, kInput, kChecksum };

struct Row {
  std::string previous;
  ordered_json response;
  ordered_json input;
  size_t bytes = 0;
};

int64_t checksum_of(std::initializer_list<std::string_view> texts) {
  uint64_t hash = 0;
  for (const std::string_view text : texts) hash = hash64(text, hash);
  return static_cast<int64_t>(hash);
}

// The id of an item or a response; null: it has none.
const std::string* id_of(const ordered_json& object) {
  const auto id = object.is_object() ? object.find("id") : object.end();
  return id != object.end() && id->is_string() ? id->get_ptr<const std::string*>() : nullptr;
}

bool are_items(const ordered_json& items) {
  return items.is_array() && std::ranges::all_of(items, [](const auto& item) { return id_of(item) != nullptr; });
}

// What put() was given: who reads a row need not ask again.
bool is_response(const ordered_json& response) {
  if (id_of(response) == nullptr) return false;
  const auto output = response.find("output");
  return output != response.end() && are_items(*output);
}

class SqliteResponseStore final : public ResponseStore {
 public:
  SqliteResponseStore(std::shared_ptr<StoreFile> file, const ResponseStoreLimits& limits)
      : file_(std::move(file)), limits_(limits) {}

  Result<void> prepare();
  Result<void> put(const StoredResponse& response) override;
  Result<ordered_json> response(std::string_view tenant, std::string_view id) override {
    CAIRN_TRY(Row row, row_of(tenant, id));
    return std::move(row.response);
  }
  Result<ordered_json> input(std::string_view tenant, std::string_view id) override {
    CAIRN_TRY(Row row, row_of(tenant, id));
    return std::move(row.input);
  }
  Result<void> remove(std::string_view tenant, std::string_view id) override;
  Result<ordered_json> history(std::string_view tenant, std::string_view id) override;
  Result<ordered_json> item(std::string_view tenant, std::string_view id, size_t& bytes_read) override;

 private:
  Result<Row> row_of(std::string_view tenant, std::string_view id);
  Result<Row> read_row(const Statement& row) const;
  Result<void> write(const StoredResponse& response, std::string_view text, std::string_view input);
  Result<void> drop(int64_t number);
  Result<void> drop_turns(std::string_view tenant, const ordered_json& response);
  Result<void> trim();

  std::shared_ptr<StoreFile> file_;
  ResponseStoreLimits limits_;
  Statement insert_, insert_item_, find_, find_item_, remove_, remove_items_, remove_turn_, oldest_;
};

Result<void> SqliteResponseStore::prepare() {
  CAIRN_TRY(insert_, file_->prepare("INSERT INTO responses(tenant, id, previous, response, input, checksum) "
                                    "VALUES(?,?,?,?,?,?)"));
  CAIRN_TRY(insert_item_, file_->prepare("INSERT OR REPLACE INTO items(tenant, id, response) VALUES(?,?,?)"));
  CAIRN_TRY(find_, file_->prepare(fmt::format("SELECT {} FROM responses WHERE tenant = ? AND id = ?", kColumns)));
  CAIRN_TRY(find_item_, file_->prepare(fmt::format("SELECT {} FROM items JOIN responses ON responses.number = "
                                                   "items.response WHERE items.tenant = ? AND items.id = ?",
                                                   kColumns)));
  CAIRN_TRY(remove_, file_->prepare("DELETE FROM responses WHERE number = ?"));
  CAIRN_TRY(remove_items_, file_->prepare("DELETE FROM items WHERE response = ?"));
  CAIRN_TRY(remove_turn_, file_->prepare("DELETE FROM turns WHERE tenant = ? AND call = ?"));
  CAIRN_TRY(oldest_, file_->prepare("SELECT min(number), max(number) FROM responses"));
  return {};
}

Result<Row> SqliteResponseStore::read_row(const Statement& row) const {
  const std::string_view response = row.text(kResponse), input = row.text(kInput), previous = row.text(kPrevious);
  if (row.integer(kChecksum) == checksum_of({row.text(kTenant), row.text(kId), previous, response, input})) {
    auto read_response = read_json(response);
    auto read_input = read_json(input);
    if (read_response && read_input && is_response(*read_response) && are_items(*read_input)) {
      return Row{.previous = std::string(previous),
                 .response = std::move(*read_response),
                 .input = std::move(*read_input),
                 .bytes = response.size() + input.size()};
    }
  }
  return fail_at(file_->path(), Code::kCorruptFile, "{} holds a damaged response: \"{}\"; delete it to be rid of it",
                 file_->path(), printable(row.text(kId)));
}

Result<void> SqliteResponseStore::put(const StoredResponse& response) {
  const std::string text = dump(response.response);
  const std::string input = dump(response.input);
  if (text.size() + input.size() > limits_.response_bytes_max) {
    return fail(Code::kTooLarge, "a response of {} bytes is over the {} that are stored of one",
                text.size() + input.size(), limits_.response_bytes_max);
  }
  const auto lock = file_->lock();
  return file_->transact([&]() -> Result<void> {
    CAIRN_TRY_VOID(write(response, text, input));
    return trim();
  });
}

Result<void> SqliteResponseStore::write(const StoredResponse& response, std::string_view text, std::string_view input) {
  CAIRN_CHECK(is_response(response.response) && are_items(response.input));
  const std::string_view tenant = response.tenant, id = *id_of(response.response), previous = response.previous_id;
  insert_.bind(tenant, id, previous, text, input, checksum_of({tenant, id, previous, text, input}));
  CAIRN_TRY_VOID(insert_.run());
  const int64_t number = file_->last_insert_number();
  for (const ordered_json* items : {&response.response.at("output"), &response.input}) {
    for (const auto& item : *items) {
      insert_item_.bind(tenant, std::string_view(*id_of(item)), number);
      CAIRN_TRY_VOID(insert_item_.run());
    }
  }
  return {};
}

Result<void> SqliteResponseStore::drop(int64_t number) {
  remove_items_.bind(number);
  CAIRN_TRY_VOID(remove_items_.run());
  remove_.bind(number);
  return remove_.run();
}

// Numbers only grow, so that first and last bound the count.
Result<void> SqliteResponseStore::trim() {
  for (;;) {
    CAIRN_TRY(const bool row, oldest_.step());
    const int64_t oldest = row ? oldest_.integer(0) : 0;
    const int64_t newest = row ? oldest_.integer(1) : 0;
    oldest_.reset();
    CAIRN_TRY(const int64_t bytes, file_->filled_bytes());
    const bool fits = newest - oldest < limits_.responses_max && bytes <= limits_.file_bytes_max;
    if (fits || oldest == newest) return {};
    CAIRN_TRY_VOID(drop(oldest));
  }
}

Result<Row> SqliteResponseStore::row_of(std::string_view tenant, std::string_view id) {
  const auto lock = file_->lock();
  find_.bind(tenant, id);
  CAIRN_TRY(const bool found, find_.step());
  Result<Row> row = found ? read_row(find_) : std::unexpected(not_found("response", id));
  find_.reset();
  return row;
}

Result<void> SqliteResponseStore::remove(std::string_view tenant, std::string_view id) {
  const auto lock = file_->lock();
  find_.bind(tenant, id);
  CAIRN_TRY(const bool row, find_.step());
  const int64_t number = row ? find_.integer(kNumber) : 0;
  const Result<Row> read = row ? read_row(find_) : Row{};
  find_.reset();
  if (!row) return std::unexpected(not_found("response", id));
  return file_->transact([&]() -> Result<void> {
    if (read) CAIRN_TRY_VOID(drop_turns(tenant, read->response));  // of a damaged one nobody knows which
    return drop(number);
  });
}

// What was sampled for the response's calls.
Result<void> SqliteResponseStore::drop_turns(std::string_view tenant, const ordered_json& response) {
  for (const auto& item : response.at("output")) {
    const auto call = item.find("call_id");
    if (call == item.end() || !call->is_string()) continue;
    remove_turn_.bind(tenant, std::string_view(call->get_ref<const std::string&>()));
    CAIRN_TRY_VOID(remove_turn_.run());
  }
  return {};
}

Result<ordered_json> SqliteResponseStore::history(std::string_view tenant, std::string_view id) {
  const auto lock = file_->lock();
  std::vector<ordered_json> turns;  // newest first: input and output of each
  size_t bytes = 0;
  std::string at(id);
  while (!at.empty()) {
    if (turns.size() >= 2 * limits_.chain_max)
      return fail(Code::kTooLarge, "the conversation has more than {} responses; begin a new one", limits_.chain_max);
    find_.bind(tenant, std::string_view(at));
    CAIRN_TRY(const bool found, find_.step());
    if (!found) {
      find_.reset();
      if (turns.empty()) return std::unexpected(not_found("response", id));
      return fail(Code::kNotFound, "the response \"{}\", which \"{}\" goes on from, is stored no more", at, id);
    }
    Result<Row> row = read_row(find_);
    find_.reset();
    if (!row) return std::unexpected(row.error());
    bytes += row->bytes;
    at = std::move(row->previous);
    if (bytes > limits_.history_bytes_max) {
      return fail(Code::kTooLarge, "the conversation has more than {} bytes; begin a new one",
                  limits_.history_bytes_max);
    }
    turns.push_back(std::move(row->response.at("output")));
    turns.push_back(std::move(row->input));
  }
  ordered_json items = ordered_json::array();
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn)
    for (auto& item : *turn) items.push_back(std::move(item));
  return items;
}

Result<ordered_json> SqliteResponseStore::item(std::string_view tenant, std::string_view id, size_t& bytes_read) {
  const auto lock = file_->lock();
  find_item_.bind(tenant, id);
  CAIRN_TRY(const bool found, find_item_.step());
  const Result<Row> row = found ? read_row(find_item_) : std::unexpected(not_found("item", id));
  find_item_.reset();
  if (!row) return std::unexpected(row.error());
  bytes_read += row->bytes;
  for (const ordered_json* items : {&row->response.at("output"), &row->input}) {
    for (const auto& item : *items)
      if (*id_of(item) == id) return item;
  }
  return std::unexpected(not_found("item", id));
}

}  // namespace

Result<std::unique_ptr<ResponseStore>> ResponseStore::open(std::shared_ptr<StoreFile> file,
                                                           const ResponseStoreLimits& limits) {
  auto store = std::make_unique<SqliteResponseStore>(std::move(file), limits);
  CAIRN_TRY_VOID(store->prepare());
  return store;
}

}  // namespace cairn::api
