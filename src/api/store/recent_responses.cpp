#include "api/store/recent_responses.h"

#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "api/serialization/json_text.h"
#include "base/check.h"
#include "base/text/json.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

/// About what an entry, and the id of an item, take beside the texts.
constexpr int64_t kEntryBytes = 512, kItemBytes = 192;

/// A tenant's name for something.
using TenantId = std::pair<std::string, std::string>;

/// The response as JSON text: a document would take many times as much.
struct Texts {
  std::string previous;
  std::string response;
  std::string input;
};

std::unexpected<Error> not_kept(std::string_view what, std::string_view id) {
  return fail(Code::kNotFound, "no {} \"{}\" is kept: without --store only recent ones are, as long as the server runs",
              what, cut_text(id, kQuotedBytesMax));
}

class RecentResponses final : public ResponseStore {
 public:
  explicit RecentResponses(const RecentResponseLimits& limits) : limits_(limits) {}

  Result<void> put(const StoredResponse& response) override;
  Result<ordered_json> response(std::string_view tenant, std::string_view id) override {
    CAIRN_TRY(const auto texts, find(tenant, id));
    return read_json(texts->response);
  }
  Result<ordered_json> input(std::string_view tenant, std::string_view id) override {
    CAIRN_TRY(const auto texts, find(tenant, id));
    return read_json(texts->input);
  }
  Result<void> remove(std::string_view tenant, std::string_view id) override;
  Result<ordered_json> history(std::string_view tenant, std::string_view id) override;
  Result<ordered_json> item(std::string_view tenant, std::string_view id, size_t& bytes_read) override;

 private:
  struct Entry {
    TenantId key;
    std::shared_ptr<const Texts> texts;
    std::vector<TenantId> items;
    int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  Result<std::shared_ptr<const Texts>> find(std::string_view tenant, std::string_view id);
  // mutex_ is held.
  void use(Entries::iterator entry) { entries_.splice(entries_.begin(), entries_, entry); }
  void drop(Entries::iterator entry);

  const RecentResponseLimits limits_;
  std::mutex mutex_;  // guards the members below
  Entries entries_;   // most recently used first
  std::map<TenantId, Entries::iterator> by_id_;
  std::map<TenantId, Entries::iterator> by_item_;  // the newest response that has the item
  int64_t bytes_ = 0;
};

Result<void> RecentResponses::put(const StoredResponse& response) {
  Entry entry;
  entry.key = {response.tenant, response.response.at("id").get<std::string>()};
  entry.texts =
      std::make_shared<const Texts>(Texts{response.previous_id, dump(response.response), dump(response.input)});
  for (const ordered_json* items : {&response.response.at("output"), &response.input})
    for (const auto& item : *items) entry.items.emplace_back(response.tenant, item.at("id").get<std::string>());
  entry.bytes = kEntryBytes + static_cast<int64_t>(entry.texts->response.size() + entry.texts->input.size()) +
                kItemBytes * static_cast<int64_t>(entry.items.size());
  for (const TenantId& item : entry.items) entry.bytes += 2 * static_cast<int64_t>(item.second.size());
  if (entry.bytes > limits_.bytes_max) {
    return fail(Code::kTooLarge, "a response of {} bytes is over the {} that are kept in memory (--response-bytes)",
                entry.bytes, limits_.bytes_max);
  }
  const std::lock_guard lock(mutex_);
  if (const auto old = by_id_.find(entry.key); old != by_id_.end()) drop(old->second);
  bytes_ += entry.bytes;
  entries_.push_front(std::move(entry));
  by_id_[entries_.front().key] = entries_.begin();
  for (const TenantId& item : entries_.front().items) by_item_[item] = entries_.begin();
  while (bytes_ > limits_.bytes_max || entries_.size() > limits_.responses_max) drop(std::prev(entries_.end()));
  return {};
}

void RecentResponses::drop(Entries::iterator entry) {
  for (const TenantId& item : entry->items) {
    const auto found = by_item_.find(item);
    if (found != by_item_.end() && found->second == entry) by_item_.erase(found);
  }
  bytes_ -= entry->bytes;
  by_id_.erase(entry->key);
  entries_.erase(entry);
}

Result<std::shared_ptr<const Texts>> RecentResponses::find(std::string_view tenant, std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(TenantId(tenant, id));
  if (found == by_id_.end()) return not_kept("response", id);
  use(found->second);
  return found->second->texts;
}

Result<void> RecentResponses::remove(std::string_view tenant, std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(TenantId(tenant, id));
  if (found == by_id_.end()) return not_kept("response", id);
  drop(found->second);
  return {};
}

Result<ordered_json> RecentResponses::history(std::string_view tenant, std::string_view id) {
  std::vector<std::shared_ptr<const Texts>> turns;  // newest first
  size_t bytes = 0;
  for (std::string at(id); !at.empty(); at = turns.back()->previous) {
    if (turns.size() == limits_.chain_max)
      return fail(Code::kTooLarge, "the conversation has more than {} responses; begin a new one", limits_.chain_max);
    auto texts = find(tenant, at);
    if (!texts) {
      if (turns.empty()) return std::unexpected(texts.error());
      return fail(Code::kNotFound, "the response \"{}\", which \"{}\" goes on from, is kept no more", at, id);
    }
    bytes += (*texts)->response.size() + (*texts)->input.size();
    if (bytes > limits_.history_bytes_max) {
      return fail(Code::kTooLarge, "the conversation has more than {} bytes; begin a new one",
                  limits_.history_bytes_max);
    }
    turns.push_back(std::move(*texts));
  }
  ordered_json items = ordered_json::array();
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    CAIRN_TRY(ordered_json input, read_json((*turn)->input));
    CAIRN_TRY(ordered_json response, read_json((*turn)->response));
    for (ordered_json* list : {&input, &response.at("output")})
      for (auto& item : *list) items.push_back(std::move(item));
  }
  return items;
}

Result<ordered_json> RecentResponses::item(std::string_view tenant, std::string_view id, size_t& bytes_read) {
  std::shared_ptr<const Texts> texts;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_item_.find(TenantId(tenant, id));
    if (found == by_item_.end()) return not_kept("item", id);
    use(found->second);
    texts = found->second->texts;
  }
  bytes_read += texts->response.size() + texts->input.size();
  CAIRN_TRY(const ordered_json response, read_json(texts->response));
  for (const auto& item : response.at("output"))
    if (item.at("id") == id) return item;
  CAIRN_TRY(const ordered_json input, read_json(texts->input));
  for (const auto& item : input)
    if (item.at("id") == id) return item;
  return not_kept("item", id);
}

}  // namespace

std::unique_ptr<ResponseStore> make_recent_responses(const RecentResponseLimits& limits) {
  return std::make_unique<RecentResponses>(limits);
}

}  // namespace cairn::api
