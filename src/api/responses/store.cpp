#include "api/responses/store.h"

#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/store/file.h"
#include "base/json.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

Error not_found(std::string_view what, std::string_view id) {
  constexpr size_t kIdShownMax = 100;
  return {Code::kNotFound, fmt::format("no {} \"{}\" is stored", what, id.substr(0, kIdShownMax)), {}};
}

class SqliteStore final : public ResponseStore {
 public:
  SqliteStore(std::shared_ptr<StoreFile> file, const StoreLimits& limits) : file_(std::move(file)), limits_(limits) {}

  Result<void> prepare();
  Result<void> put(const StoredResponse& response) override;
  Result<ordered_json> response(std::string_view tenant, std::string_view id) override {
    return column_of(tenant, id, 1);
  }
  Result<ordered_json> input(std::string_view tenant, std::string_view id) override { return column_of(tenant, id, 2); }
  Result<void> remove(std::string_view tenant, std::string_view id) override;
  Result<ordered_json> history(std::string_view tenant, std::string_view id) override;
  Result<ordered_json> item(std::string_view tenant, std::string_view id, size_t& bytes_read) override;

 private:
  Result<ordered_json> column_of(std::string_view tenant, std::string_view id, int column);
  Result<ordered_json> parse(std::string_view text) const;
  Result<void> write(const StoredResponse& response, std::string_view text, std::string_view input);
  Result<void> drop(int64_t number);
  Result<void> drop_turns(std::string_view tenant, const ordered_json& response);
  Result<void> trim();

  std::shared_ptr<StoreFile> file_;
  StoreLimits limits_;
  Statement insert_, insert_item_, find_, find_item_, remove_, remove_items_, remove_turn_, oldest_;
};

Result<void> SqliteStore::prepare() {
  CAIRN_TRY(insert_, file_->prepare("INSERT INTO responses(tenant, id, previous, response, input) VALUES(?,?,?,?,?)"));
  CAIRN_TRY(insert_item_, file_->prepare("INSERT OR REPLACE INTO items(tenant, id, response) VALUES(?,?,?)"));
  CAIRN_TRY(find_,
            file_->prepare("SELECT number, response, input, previous FROM responses WHERE tenant = ? AND id = ?"));
  CAIRN_TRY(find_item_, file_->prepare("SELECT responses.response, responses.input FROM items JOIN responses ON "
                                       "responses.number = items.response WHERE items.tenant = ? AND items.id = ?"));
  CAIRN_TRY(remove_, file_->prepare("DELETE FROM responses WHERE number = ?"));
  CAIRN_TRY(remove_items_, file_->prepare("DELETE FROM items WHERE response = ?"));
  CAIRN_TRY(remove_turn_, file_->prepare("DELETE FROM turns WHERE tenant = ? AND call = ?"));
  CAIRN_TRY(oldest_, file_->prepare("SELECT min(number), max(number) FROM responses"));
  return {};
}

Result<ordered_json> SqliteStore::parse(std::string_view text) const {
  auto value = read_json(text);
  if (!value) return fail_at(file_->path(), Code::kCorruptFile, "{} holds a damaged response", file_->path());
  return value;
}

Result<void> SqliteStore::put(const StoredResponse& response) {
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

Result<void> SqliteStore::write(const StoredResponse& response, std::string_view text, std::string_view input) {
  const auto id = response.response["id"].get<std::string>();
  insert_.bind(std::string_view(response.tenant), std::string_view(id), std::string_view(response.previous_id), text,
               input);
  CAIRN_TRY_VOID(insert_.run());
  const int64_t number = file_->last_insert_number();
  for (const ordered_json* items : {&response.response["output"], &response.input}) {
    for (const auto& item : *items) {
      const auto item_id = item["id"].get<std::string>();
      insert_item_.bind(std::string_view(response.tenant), std::string_view(item_id), number);
      CAIRN_TRY_VOID(insert_item_.run());
    }
  }
  return {};
}

Result<void> SqliteStore::drop(int64_t number) {
  remove_items_.bind(number);
  CAIRN_TRY_VOID(remove_items_.run());
  remove_.bind(number);
  return remove_.run();
}

// Numbers only grow, so that first and last bound the count.
Result<void> SqliteStore::trim() {
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

Result<ordered_json> SqliteStore::column_of(std::string_view tenant, std::string_view id, int column) {
  const auto lock = file_->lock();
  find_.bind(tenant, id);
  CAIRN_TRY(const bool row, find_.step());
  Result<ordered_json> value = row ? parse(find_.text(column)) : std::unexpected(not_found("response", id));
  find_.reset();
  return value;
}

Result<void> SqliteStore::remove(std::string_view tenant, std::string_view id) {
  const auto lock = file_->lock();
  find_.bind(tenant, id);
  CAIRN_TRY(const bool row, find_.step());
  const int64_t number = row ? find_.integer(0) : 0;
  const auto response = row ? parse(find_.text(1)) : Result<ordered_json>();
  find_.reset();
  if (!row) return std::unexpected(not_found("response", id));
  return file_->transact([&]() -> Result<void> {
    if (response) CAIRN_TRY_VOID(drop_turns(tenant, *response));
    return drop(number);
  });
}

// What was sampled for the response's calls.
Result<void> SqliteStore::drop_turns(std::string_view tenant, const ordered_json& response) {
  const auto output = response.find("output");
  if (output == response.end()) return {};
  for (const auto& item : *output) {
    const auto call = item.find("call_id");
    if (call == item.end() || !call->is_string()) continue;
    remove_turn_.bind(tenant, std::string_view(call->get_ref<const std::string&>()));
    CAIRN_TRY_VOID(remove_turn_.run());
  }
  return {};
}

Result<ordered_json> SqliteStore::history(std::string_view tenant, std::string_view id) {
  const auto lock = file_->lock();
  std::vector<ordered_json> turns;  // newest first: input and output of each
  size_t bytes = 0;
  std::string at(id);
  while (!at.empty()) {
    if (turns.size() >= 2 * limits_.chain_max)
      return fail(Code::kTooLarge, "the conversation has more than {} responses; begin a new one", limits_.chain_max);
    find_.bind(tenant, std::string_view(at));
    CAIRN_TRY(const bool row, find_.step());
    if (!row) {
      find_.reset();
      if (turns.empty()) return std::unexpected(not_found("response", id));
      return fail(Code::kNotFound, "the response \"{}\", which \"{}\" goes on from, is stored no more", at, id);
    }
    bytes += find_.text(1).size() + find_.text(2).size();
    auto response = parse(find_.text(1));
    auto input = parse(find_.text(2));
    at = find_.text(3);
    find_.reset();
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

Result<ordered_json> SqliteStore::item(std::string_view tenant, std::string_view id, size_t& bytes_read) {
  const auto lock = file_->lock();
  find_item_.bind(tenant, id);
  CAIRN_TRY(const bool row, find_item_.step());
  if (!row) {
    find_item_.reset();
    return std::unexpected(not_found("item", id));
  }
  bytes_read += find_item_.text(0).size() + find_item_.text(1).size();
  auto response = parse(find_item_.text(0));
  auto input = parse(find_item_.text(1));
  find_item_.reset();
  if (!response) return response;
  if (!input) return input;
  for (const ordered_json* items : {&(*response)["output"], &*input}) {
    for (const auto& item : *items)
      if (item["id"] == id) return item;
  }
  return std::unexpected(not_found("item", id));
}

}  // namespace

Result<std::unique_ptr<ResponseStore>> ResponseStore::open(std::shared_ptr<StoreFile> file, const StoreLimits& limits) {
  auto store = std::make_unique<SqliteStore>(std::move(file), limits);
  CAIRN_TRY_VOID(store->prepare());
  return store;
}

}  // namespace cairn::api::responses
