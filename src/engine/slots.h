/// What llama-server's clients have in its slots: conversations by number, of each tenant its own.
///
/// Sequences here have no slots: their pages are found by their tokens. A slot is a number by which a client names the
/// conversation that it has last asked there, to have it saved in the disk tier under a name, or loaded from there.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cache/disk/disk_tier.h"

namespace cairn::engine {

/// A request that names no slot takes that of the conversation that it goes on with, if so much of it is the same.
inline constexpr double kSlotSimilarityMin = 0.1;

/// What is done with a conversation's pages instead of generating.
enum class SlotAction {
  kNone,
  kSave,     ///< what memory has of them is handed to the disk tier
  kRestore,  ///< what the disk tier has of them comes into memory
  kErase,    ///< they leave memory; what is on the disk stays there
};

struct Conversation {
  std::vector<TokenId> tokens{};  ///< prompt and answer
  uint64_t salt = 0;              ///< of its pages: GenerateRequest::salt, with the scales of LoRA adapters
};

/// What the disk has of a conversation.
struct OnDisk {
  int32_t tokens = 0;  ///< a sequence can resume after so many
  int64_t bytes = 0;   ///< of their pages
};

/// The slots of an engine with a disk tier. Thread-safe.
class Slots {
 public:
  /// Every tenant has slots 0 to count - 1; all tenants together have `count` conversations, the last used.
  Slots(std::shared_ptr<cache::disk::DiskTier> tier, int32_t count);
  int32_t count() const { return count_; }

  /// Keeps a conversation in the tenant's slot `wanted`, or of -1 in one that is chosen; returns which, or -1 if there
  /// is no memory for it. A tenant is SequenceCaching::tenant().
  int32_t put(uint64_t tenant, int32_t wanted, std::span<const TokenId> tokens, uint64_t salt) noexcept;
  std::optional<Conversation> find(uint64_t tenant, int32_t id) const;
  void clear(uint64_t tenant, int32_t id);
  /// How many tokens each of the tenant's slots has.
  std::vector<int32_t> tokens(uint64_t tenant) const;

  // -- On the disk. They wait for it.
  /// Names a conversation whose pages were handed over before, and says what is there of it. Errors: those of
  /// DiskTier::keep_tokens.
  Result<OnDisk> save(uint64_t tenant, std::string_view name, const Conversation& conversation);
  /// Errors: those of DiskTier::kept_tokens.
  Result<Conversation> load(uint64_t tenant, std::string_view name) const;
  OnDisk on_disk(const Conversation& conversation) const;

 private:
  struct Slot {
    uint64_t tenant = 0;
    int32_t id = 0;
    int64_t used = 0;  // of clock_
    Conversation conversation;
  };
  std::vector<Slot>::iterator at(uint64_t tenant, int32_t id);
  std::vector<Slot>::iterator choose(uint64_t tenant, std::span<const TokenId> tokens, uint64_t salt);
  int32_t unused(uint64_t tenant) const;

  const std::shared_ptr<cache::disk::DiskTier> tier_;
  const int32_t count_;
  mutable std::mutex mutex_;  // guards the next two
  std::vector<Slot> slots_;
  int64_t clock_ = 0;
};

}  // namespace cairn::engine
