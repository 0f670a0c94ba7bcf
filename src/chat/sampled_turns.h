/// What models sampled, kept so that it comes back token for token when a client sends its turn again.
///
/// A client sends a turn as the protocol shows it: calls as JSON that it has parsed and written anew, thinking left
/// out. Rendered again, that is rarely the text that the model wrote, and never surely its tokens; what the cache holds
/// of it would be lost. So the turn is found again by what the client cannot change without meaning something else: a
/// call's id, or the whole of its text.
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

namespace cairn {

inline constexpr size_t kSampledTurnsMax = 8'192;
inline constexpr size_t kSampledTokensMax = 8u << 20;  ///< of all turns

struct SampledTurn {
  ChatTurn turn;
  std::vector<TokenId> tokens;  ///< without the one that ended it
  size_t thinking_end = 0;      ///< first token after the thinking; kNoThinkingEnd if the answer begins within one
};

/// Where a turn's tokens say the same again: a turn is found in its scope only.
struct CacheScope {
  uint64_t id = 0;     ///< of the model, and of who shares what is cached
  std::string tenant;  ///< as GenerateRequest's
};

/// Where turns with calls are kept for a server that is started again. Thread-safe; may wait for a disk.
class TurnStore {
 public:
  virtual ~TurnStore() = default;
  /// `turn` has calls; the first one's id is what it is found by. Errors: kIo.
  virtual Result<void> put(const CacheScope& scope, const SampledTurn& turn) = 0;
  /// nullopt: there is none. Errors: kIo; kCorruptFile: it was not what put() writes, and has been forgotten.
  virtual Result<std::optional<SampledTurn>> find(const CacheScope& scope, std::string_view first_call) = 0;
};

/// The last ones, in memory; turns with calls also in a store, if there is one. Thread-safe.
class SampledTurnCache {
 public:
  SampledTurnCache();
  ~SampledTurnCache();
  /// Before anything else.
  void set_store(std::unique_ptr<TurnStore> store);

  /// `stored`: it may be put into the store, which what is returned does, waiting for a disk; empty: there is nothing
  /// to do.
  std::function<void()> keep(const CacheScope& scope, SampledTurn turn, bool stored = true);
  /// May wait for a disk. The turn that `message`, an assistant's in the templates' form, is; null if it is none, or
  /// says something else: in its text, or in a call's name or arguments, whose JSON may be written differently.
  std::shared_ptr<const SampledTurn> find(const CacheScope& scope, const nlohmann::ordered_json& message);

  size_t size() const;

 private:
  struct Entry {
    uint64_t key;
    std::shared_ptr<const SampledTurn> turn;
  };
  // Those of memory; mutex_ is held.
  void remember(uint64_t key, std::shared_ptr<const SampledTurn> turn);
  std::shared_ptr<const SampledTurn> look_up(uint64_t key);
  // Takes the turn that begins with this call from the store into memory, if it is there; mutex_ is not held.
  std::shared_ptr<const SampledTurn> load_from_store(const CacheScope& scope, uint64_t key, const std::string& call);
  void drop_oldest();

  std::unique_ptr<TurnStore> store_;  // null: none
  mutable std::mutex mutex_;          // guards the rest
  std::list<Entry> turns_;            // most recently used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_key_;
  size_t tokens_ = 0;
};

}  // namespace cairn
