#include "api/store/turn_store.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/store/file.h"
#include "base/hash.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

// All but the tokens.
std::string text_of(const chat::SampledTurn& sampled) {
  ordered_json calls = ordered_json::array();
  for (const chat::ToolCall& call : sampled.turn.calls)
    calls.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  return dump({{"content", sampled.turn.content},
               {"reasoning", sampled.turn.reasoning},
               {"calls", std::move(calls)},
               {"thinking_end", uint64_t{sampled.thinking_end}}});
}

bool read_string(const ordered_json& object, const char* name, std::string& out) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return false;
  out = found->get<std::string>();
  return true;
}

bool read_calls(const ordered_json& object, std::vector<chat::ToolCall>& out) {
  const auto calls = object.find("calls");
  if (calls == object.end() || !calls->is_array()) return false;
  for (const auto& call : *calls) {
    chat::ToolCall& read = out.emplace_back();
    if (!read_string(call, "id", read.id) || !read_string(call, "name", read.name) ||
        !read_string(call, "arguments", read.arguments))
      return false;
  }
  return true;
}

bool read_tokens(std::span<const std::byte> bytes, std::vector<TokenId>& out) {
  const size_t count = bytes.size() / sizeof(TokenId);
  if (count == 0 || count > chat::kSampledTokensMax || bytes.size() % sizeof(TokenId) != 0) return false;
  out.resize(count);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return std::ranges::all_of(out, [](TokenId id) { return index(id) >= 0; });
}

bool read_turn(std::string_view text, std::span<const std::byte> tokens, chat::SampledTurn& out) {
  const ordered_json object = ordered_json::parse(text, nullptr, false);
  if (!object.is_object()) return false;
  const auto thinking_end = object.find("thinking_end");
  if (thinking_end == object.end() || !thinking_end->is_number_unsigned()) return false;
  out.thinking_end = thinking_end->get<uint64_t>();
  return read_string(object, "content", out.turn.content) && read_string(object, "reasoning", out.turn.reasoning) &&
         read_calls(object, out.turn.calls) && read_tokens(tokens, out.tokens);
}

// The file may say anything at all.
int64_t sane_bytes(int64_t bytes) { return std::clamp<int64_t>(bytes, 0, int64_t{1} << 62); }

int64_t checksum_of(uint64_t scope, std::string_view text, std::span<const std::byte> tokens) {
  return static_cast<int64_t>(hash64(tokens, hash64(text, scope)));
}

class SqliteTurnStore final : public chat::TurnStore {
 public:
  SqliteTurnStore(std::shared_ptr<StoreFile> file, const TurnStoreLimits& limits)
      : file_(std::move(file)), limits_(limits) {}

  Result<void> prepare();
  Result<void> put(const chat::CacheScope& scope, const chat::SampledTurn& turn) override;
  Result<std::optional<chat::SampledTurn>> find(const chat::CacheScope& scope, std::string_view name) override;

 private:
  Result<void> write(const chat::CacheScope& scope, std::string_view call, std::string_view text,
                     std::span<const std::byte> tokens);
  Result<void> trim(int64_t newest, int64_t bytes);

  std::shared_ptr<StoreFile> file_;
  TurnStoreLimits limits_;
  Statement insert_, find_, oldest_, newest_, remove_;
};

Result<void> SqliteTurnStore::prepare() {
  CAIRN_TRY(insert_, file_->prepare("INSERT OR REPLACE INTO turns(tenant, call, scope, bytes_before, bytes, checksum, "
                                    "turn, tokens) VALUES(?,?,?,?,?,?,?,?)"));
  CAIRN_TRY(find_, file_->prepare("SELECT number, checksum, turn, tokens FROM turns WHERE tenant = ? AND call = ? AND "
                                  "scope = ?"));
  CAIRN_TRY(oldest_, file_->prepare("SELECT number, bytes_before FROM turns ORDER BY number LIMIT 1"));
  CAIRN_TRY(newest_, file_->prepare("SELECT bytes_before + bytes FROM turns ORDER BY number DESC LIMIT 1"));
  CAIRN_TRY(remove_, file_->prepare("DELETE FROM turns WHERE number = ?"));
  return {};
}

Result<void> SqliteTurnStore::put(const chat::CacheScope& scope, const chat::SampledTurn& turn) {
  const std::string text = text_of(turn);
  const auto lock = file_->lock();
  return file_->transact(
      [&] { return write(scope, chat::stored_name(turn.turn), text, std::as_bytes(std::span(turn.tokens))); });
}

Result<void> SqliteTurnStore::write(const chat::CacheScope& scope, std::string_view call, std::string_view text,
                                    std::span<const std::byte> tokens) {
  CAIRN_TRY(const bool row, newest_.step());
  const int64_t before = row ? sane_bytes(newest_.integer(0)) : 0;
  newest_.reset();
  const auto bytes = static_cast<int64_t>(text.size() + tokens.size());
  insert_.bind(std::string_view(scope.tenant), call, static_cast<int64_t>(scope.id), before, bytes,
               checksum_of(scope.id, text, tokens), text, tokens);
  CAIRN_TRY_VOID(insert_.run());
  return trim(file_->last_insert_number(), before + bytes);
}

// Numbers and bytes only grow, so that the first row and the last bound what is between them.
Result<void> SqliteTurnStore::trim(int64_t newest, int64_t bytes) {
  for (;;) {
    CAIRN_TRY(const bool row, oldest_.step());
    const int64_t oldest = row ? oldest_.integer(0) : newest;
    const int64_t before = row ? sane_bytes(oldest_.integer(1)) : bytes;
    oldest_.reset();
    const bool fits = oldest > newest - limits_.turns_max && bytes - before <= limits_.bytes_max;
    if (fits || oldest == newest) return {};
    remove_.bind(oldest);
    CAIRN_TRY_VOID(remove_.run());
  }
}

Result<std::optional<chat::SampledTurn>> SqliteTurnStore::find(const chat::CacheScope& scope, std::string_view name) {
  const auto lock = file_->lock();
  find_.bind(std::string_view(scope.tenant), name, static_cast<int64_t>(scope.id));
  CAIRN_TRY(const bool row, find_.step());
  if (!row) {
    find_.reset();
    return std::nullopt;
  }
  chat::SampledTurn turn;
  const std::string_view text = find_.text(2);
  const auto tokens = find_.bytes(3);
  const bool sound = find_.integer(1) == checksum_of(scope.id, text, tokens) && read_turn(text, tokens, turn);
  const int64_t number = find_.integer(0);
  find_.reset();
  if (sound) return turn;
  remove_.bind(number);
  CAIRN_TRY_VOID(remove_.run());
  return fail_at(file_->path(), Code::kCorruptFile, "{} holds a damaged turn; it has been removed", file_->path());
}

}  // namespace

Result<std::unique_ptr<chat::TurnStore>> open_turn_store(std::shared_ptr<StoreFile> file,
                                                         const TurnStoreLimits& limits) {
  auto store = std::make_unique<SqliteTurnStore>(std::move(file), limits);
  CAIRN_TRY_VOID(store->prepare());
  return store;
}

}  // namespace cairn::api
