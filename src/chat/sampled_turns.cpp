#include "chat/sampled_turns.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/log.h"
#include "base/text/json.h"
#include "chat/tool_calls/characters.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

uint64_t key_of(uint64_t scope, std::string_view content, std::string_view first_call) {
  return first_call.empty() ? hash64(tool_call::trim(content), scope) : hash64(first_call, scope + 1);
}

// The text of a content that is a string, or all text parts of a list.
std::string text_of(const ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (content->is_array())
    for (const auto& part : *content) text += part.value("text", "");
  return text;
}

bool same_arguments(const ordered_json& sent, const std::string& sampled) {
  if (sent == sampled) return true;
  const auto parsed = read_json(sampled);
  const auto sent_parsed = sent.is_string() ? read_json(sent.get_ref<const std::string&>()) : sent;
  if (!parsed || !sent_parsed) return false;
  return nlohmann::json(*parsed) == nlohmann::json(*sent_parsed);  // keys in alphabetical order
}

bool same_calls(const ordered_json& message, const std::vector<ToolCall>& calls) {
  const auto sent = message.find("tool_calls");
  const size_t count = sent == message.end() ? 0 : sent->size();
  if (count != calls.size()) return false;
  for (size_t i = 0; i < count; ++i) {
    const auto& call = (*sent)[i];
    if (call["id"] != calls[i].id || call["function"]["name"] != calls[i].name ||
        !same_arguments(call["function"]["arguments"], calls[i].arguments))
      return false;
  }
  return true;
}

}  // namespace

std::string stored_name(const ChatTurn& turn) {
  constexpr uint64_t kSecondSeed = 0x9e3779b97f4a7c15;
  if (!turn.calls.empty()) return turn.calls.front().id;
  const std::string_view text = tool_call::trim(turn.content);
  return fmt::format("text {:016x}{:016x}", hash64(text), hash64(text, kSecondSeed));
}

SampledTurnCache::SampledTurnCache(size_t turns_max) : turns_max_(turns_max) {}
SampledTurnCache::~SampledTurnCache() = default;

void SampledTurnCache::set_store(std::unique_ptr<TurnStore> store) { store_ = std::move(store); }

size_t SampledTurnCache::size() const {
  const std::lock_guard lock(mutex_);
  return turns_.size();
}

std::function<void()> SampledTurnCache::keep(const CacheScope& scope, SampledTurn turn, bool stored) {
  if (turns_max_ == 0 || turn.tokens.empty() || turn.tokens.size() > kSampledTokensMax) return {};
  const bool has_calls = !turn.turn.calls.empty();
  const std::string_view first_call = has_calls ? turn.turn.calls.front().id : std::string_view();
  const uint64_t key = key_of(scope.id, turn.turn.content, first_call);
  auto shared = std::make_shared<const SampledTurn>(std::move(turn));
  {
    const std::lock_guard lock(mutex_);
    remember(key, shared);
  }
  if (!stored || store_ == nullptr) return {};
  return [store = store_.get(), scope, shared = std::move(shared)] {
    if (const auto done = store->put(scope, *shared); !done)
      log_error("a turn was not stored: {}", done.error().text());
  };
}

void SampledTurnCache::remember(uint64_t key, std::shared_ptr<const SampledTurn> turn) {
  if (const auto old = by_key_.find(key); old != by_key_.end()) {
    tokens_ -= old->second->turn->tokens.size();
    turns_.erase(old->second);
    by_key_.erase(old);
  }
  tokens_ += turn->tokens.size();
  turns_.push_front({key, std::move(turn)});
  by_key_[key] = turns_.begin();
  while (turns_.size() > turns_max_ || tokens_ > kSampledTokensMax) drop_oldest();
}

void SampledTurnCache::drop_oldest() {
  tokens_ -= turns_.back().turn->tokens.size();
  by_key_.erase(turns_.back().key);
  turns_.pop_back();
}

std::shared_ptr<const SampledTurn> SampledTurnCache::look_up(uint64_t key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  turns_.splice(turns_.begin(), turns_, found->second);
  return found->second->turn;
}

std::shared_ptr<const SampledTurn> SampledTurnCache::load_from_store(const CacheScope& scope, uint64_t key,
                                                                     const std::string& name) {
  if (store_ == nullptr) return nullptr;
  auto stored = store_->find(scope, name);
  if (!stored) log_warning("a stored turn is left out: {}", stored.error().text());
  if (!stored || !*stored) return nullptr;
  auto turn = std::make_shared<const SampledTurn>(std::move(**stored));
  const std::lock_guard lock(mutex_);
  remember(key, turn);
  return turn;
}

std::shared_ptr<const SampledTurn> SampledTurnCache::find(const CacheScope& scope, const ordered_json& message,
                                                          TurnSource* source) {
  if (turns_max_ == 0) return nullptr;
  const std::string content = text_of(message);
  const auto calls = message.find("tool_calls");
  const bool has_calls = calls != message.end() && !calls->empty();
  const std::string first_call = has_calls ? (*calls)[0]["id"].get<std::string>() : std::string();
  const uint64_t key = key_of(scope.id, content, first_call);
  std::shared_ptr<const SampledTurn> turn;
  {
    const std::lock_guard lock(mutex_);
    turn = look_up(key);
  }
  TurnSource found_in = TurnSource::kMemory;
  if (turn == nullptr) {
    const std::string name = has_calls ? first_call : stored_name(ChatTurn{content, {}, {}});
    turn = load_from_store(scope, key, name);
    found_in = TurnSource::kStore;
  }
  if (turn == nullptr) return nullptr;
  if (source != nullptr) *source = found_in;
  if (tool_call::trim(turn->turn.content) != tool_call::trim(content) || !same_calls(message, turn->turn.calls))
    return nullptr;
  return turn;
}

}  // namespace cairn::chat
