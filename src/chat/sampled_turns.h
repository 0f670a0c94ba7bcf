/// Turns as models sampled them, kept so that they are restored token for token when a client sends the turn again.
///
/// A client sends a turn as the protocol shows it: with calls as JSON that it has parsed and serialised again, and
/// without thinking. Rendered again, that is rarely the model's text and not reliably its tokens, so the prefix cache
/// would not match. Therefore the turn is looked up by what a client cannot change without changing the meaning: a
/// call's id, or its whole text.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "chat/chat_turn.h"

namespace cairn::chat {

inline constexpr size_t kSampledTurnsMax = 8'192;
inline constexpr size_t kSampledTokensMax = 8u << 20;  ///< tokens of all turns

struct SampledTurn {
  ChatTurn turn;
  std::vector<TokenId> tokens;  ///< without the end token
  /// Index of the first token after the thinking; kNoThinkingEnd if the answer begins within a token.
  size_t thinking_end = 0;
};

/// Where a turn's tokens have the same meaning: a turn is found only in its own scope.
struct CacheScope {
  uint64_t id = 0;     ///< hash of the model, and of who shares cached pages
  std::string tenant;  ///< as in GenerateRequest
};

/// What a store finds the turn by: the id of its first call, or else a hash of its text.
std::string stored_name(const ChatTurn& turn);

/// Persistent storage of turns, for a server that is restarted. Thread-safe; may wait for a disk.
class TurnStore {
 public:
  virtual ~TurnStore() = default;
  /// It is found by its stored_name(). Errors: kIo.
  virtual Result<void> put(const CacheScope& scope, const SampledTurn& turn) = 0;
  /// nullopt: there is none. Errors: kIo; kCorruptFile: the data was not written by put(), and has been deleted.
  virtual Result<std::optional<SampledTurn>> find(const CacheScope& scope, std::string_view name) = 0;
};

/// Where a turn that was found comes from.
enum class TurnSource { kMemory, kStore };

/// The most recent turns, in memory; some also in a store, if there is one. Thread-safe.
class SampledTurnCache {
 public:
  /// `turns_max`: turns in memory at most; 0: none is kept or found, not even in a store.
  explicit SampledTurnCache(size_t turns_max = kSampledTurnsMax);
  ~SampledTurnCache();
  /// Called before anything else.
  void set_store(std::unique_ptr<TurnStore> store);

  /// `stored`: whether the turn may go into the store. If it does, the returned function writes it, which may wait for
  /// a disk; otherwise that is empty.
  std::function<void()> keep(const CacheScope& scope, SampledTurn turn, bool stored = true);
  /// The turn that `message`, an assistant's message in the templates' form, stands for. Null if there is none, or if
  /// the message differs: in its text, or in a call's name or arguments, whose JSON may be formatted differently. May
  /// wait for a disk. `source`, if it is not null, gets where a turn comes from.
  std::shared_ptr<const SampledTurn> find(const CacheScope& scope, const nlohmann::ordered_json& message,
                                          TurnSource* source = nullptr);

  size_t size() const;

 private:
  struct Entry {
    uint64_t key;
    std::shared_ptr<const SampledTurn> turn;
  };
  // Adds a turn in memory; mutex_ is held.
  void remember(uint64_t key, std::shared_ptr<const SampledTurn> turn);
  std::shared_ptr<const SampledTurn> look_up(uint64_t key);
  // Takes the turn of this name from the store into memory, if it is there; mutex_ is not held.
  std::shared_ptr<const SampledTurn> load_from_store(const CacheScope& scope, uint64_t key, const std::string& name);
  void drop_oldest();

  const size_t turns_max_;
  std::unique_ptr<TurnStore> store_;  // null: there is no store
  mutable std::mutex mutex_;          // guards the members below
  std::list<Entry> turns_;            // most recently used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_key_;
  size_t tokens_ = 0;
};

}  // namespace cairn::chat
